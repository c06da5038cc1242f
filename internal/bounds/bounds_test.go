package bounds_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/bounds"
)

func selector(labels int) *metav1.LabelSelector {
	s := &metav1.LabelSelector{MatchLabels: map[string]string{}}
	for i := range labels {
		s.MatchLabels[fmt.Sprint("label-", i)] = "x"
	}
	return s
}

// TestCheck holds that schemas and rules count, that a status does not, and that an object which keeps the
// bounds has no problem, whatever kind it is of.
func TestCheck(t *testing.T) {
	t.Parallel()
	meta := metav1.ObjectMeta{Name: "a", Namespace: "b"}
	gate := func(s *metav1.LabelSelector) client.Object {
		return &v1alpha1.UpgradeGate{ObjectMeta: meta, Spec: v1alpha1.UpgradeGateSpec{
			ClusterSelector: s, Steps: []v1alpha1.GateStep{{At: "BeforeClusterUpgrade"}},
			Requires: v1alpha1.GateRequirements{Approval: &v1alpha1.GateApproval{}},
		}}
	}
	policy := func(targets int) client.Object {
		p := &v1alpha1.UpdatePolicy{ObjectMeta: meta, Spec: v1alpha1.UpdatePolicySpec{Strategy: v1alpha1.RollingUpdate}}
		for range targets {
			p.Spec.Targets = append(p.Spec.Targets, v1alpha1.UpdateTarget{Selector: selector(60)})
		}
		return p
	}
	updater := &v1alpha1.Updater{ObjectMeta: meta, Spec: v1alpha1.UpdaterSpec{
		Remote: &v1alpha1.RemoteUpdater{URL: "https://updater.example", TimeoutSeconds: 10}, Selector: selector(65),
	}}
	graph := &v1alpha1.UpgradeGraph{ObjectMeta: meta, Spec: v1alpha1.UpgradeGraphSpec{Versions: []v1alpha1.Version{"v1.31.0"}}}
	graph.Status.OldestVersion = fmt.Sprintf("%0100d", 1)
	for name, test := range map[string]struct {
		object client.Object
		want   []string
	}{
		"a gate":         {object: gate(selector(64))},
		"its labels":     {object: gate(selector(65)), want: []string{"spec.clusterSelector.matchLabels: Too many: 65: must have at most 64 items"}},
		"a policy":       {object: policy(17)},
		"its targets":    {object: policy(18), want: []string{"spec.targets: Invalid value: targets may have at most 1024 names of machineDeployments, entries of selectors and values in all. Fix: select MachineDeployments by a label that they share, or use several UpdatePolicies"}},
		"an updater":     {object: updater, want: []string{"spec.selector.matchLabels: Too many: 65: must have at most 64 items"}},
		"a status":       {object: graph},
		"another's kind": {object: &corev1.Pod{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			problems, err := bounds.Check(t.Context(), test.object)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, problem := range problems {
				got = append(got, problem.Error())
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("problems differ (-want +got):\n%s", diff)
			}
		})
	}
}

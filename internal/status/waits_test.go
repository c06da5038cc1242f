package status

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
)

func TestWaits(t *testing.T) {
	t.Parallel()
	const why = "its rollout strategy is OnDelete: "
	for name, tt := range map[string]struct {
		done   int
		change func(*Facts)
		want   string
	}{
		"kept": {done: 10, want: why + "2 machines wait until a person deletes them. " +
			"Fix: annotate the Machines that may be replaced with windlass.dev/allow-replacement, " +
			"and delete them; to update them in place, set onDelete InPlace in UpdatePolicy workers"},
		"one": {done: 11, change: func(f *Facts) { f.Policies = nil },
			want: why + "1 machine waits until a person deletes it. " +
				"Fix: delete the machines that may be replaced"},
		"not kept": {
			done: 10, change: func(f *Facts) {
				f.Policies[0].Spec.Fallback = v1alpha1.FallbackRollingUpdate
			},
			want: why + "2 machines wait until a person deletes them. " +
				"Fix: delete the machines that may be replaced; " +
				"to update them in place, set onDelete InPlace in UpdatePolicy workers",
		},
		"stock": {done: 10, change: func(f *Facts) { f.Rollouts.Engine = "" },
			want: why + "2 machines wait until a person deletes them. " +
				"Fix: annotate the Machines that may be replaced with windlass.dev/allow-replacement, " +
				"and delete them"},
		"in place": {done: 10, change: func(f *Facts) {
			f.Policies[0].Spec.OnDelete = v1alpha1.OnDeleteInPlace
		}},
		"none waits": {done: 12},
		"RollingUpdate": {done: 10, change: func(f *Facts) {
			strategy := &f.MachineDeployments[0].Spec.Rollout.Strategy
			strategy.Type = clusterv1.RollingUpdateMachineDeploymentStrategyType
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := rollingPool(tt.done, 0)
			strategy := &f.MachineDeployments[0].Spec.Rollout.Strategy
			strategy.Type = clusterv1.OnDeleteMachineDeploymentStrategyType
			if tt.change != nil {
				tt.change(&f)
			}
			got := Compute(f, after(time.Hour)).Groups[0].Waits
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("what the group waits for (-want +got):\n%s", diff)
			}
		})
	}
}

// TestStuck: a control plane of one machine that its policy keeps is shown as stuck, at the group and as what
// holds the upgrade; one that moves is not.
func TestStuck(t *testing.T) {
	t.Parallel()
	const why = "it is stuck: UpdatePolicy keep keeps its machines, but with maxSurge 1 Cluster API creates a machine beyond replicas 1 before it updates one in place. Fix: let Machines be replaced"
	for name, tt := range map[string]struct {
		change func(*Facts)
		stands bool
	}{
		"kept":            {stands: true},
		"may be replaced": {change: func(f *Facts) { f.Policies[0].Spec.Fallback = v1alpha1.FallbackRollingUpdate }},
		"no policy":       {change: func(f *Facts) { f.Policies = nil }},
		"this one may":    {change: func(f *Facts) { f.Machines[0].Annotations = map[string]string{v1alpha1.AllowReplacementAnnotation: ""} }},
		"is there":        {change: func(f *Facts) { f.Machines[0].Spec.Version = "v1.32.4" }},
		"another kind":    {change: func(f *Facts) { f.ControlPlane.SetKind("AcmeControlPlane") }},
		"three, maxSurge 0": {change: func(f *Facts) {
			f.ControlPlane.Object["spec"] = map[string]any{"version": "v1.32.4", "replicas": int64(3), "rollout": map[string]any{"strategy": map[string]any{
				"rollingUpdate": map[string]any{"maxSurge": int64(0)},
			}}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := Facts{Policies: []v1alpha1.UpdatePolicy{{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "keep"},
				Spec: v1alpha1.UpdatePolicySpec{
					Strategy: v1alpha1.ExternalUpdate, Fallback: v1alpha1.FallbackNone, Targets: []v1alpha1.UpdateTarget{{ClusterName: "c"}},
				},
			}}}
			f.Cluster = &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}}
			f.Cluster.Spec.Topology = clusterv1.Topology{ClassRef: clusterv1.ClusterClassRef{Name: "class"}, Version: "v1.32.4"}
			f.Upgrade = &UpgradeFacts{}
			f.ControlPlane = &unstructured.Unstructured{Object: map[string]any{
				"kind": "KubeadmControlPlane", "metadata": map[string]any{"namespace": "ns", "name": "cp"},
				"spec": map[string]any{"version": "v1.32.4", "replicas": int64(1)}, "status": map[string]any{"version": "v1.31.1"},
			}}
			machine := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", Labels: map[string]string{clusterv1.MachineControlPlaneLabel: ""}}}
			machine.OwnerReferences = []metav1.OwnerReference{{APIVersion: "controlplane.cluster.x-k8s.io/v1beta2", Kind: "KubeadmControlPlane", Name: "cp", Controller: new(true)}}
			machine.Spec.Version = "v1.31.1"
			f.Machines = []*clusterv1.Machine{machine}
			if tt.change != nil {
				tt.change(&f)
			}
			r := Compute(f, after(time.Hour))
			holds := slices.ContainsFunc(r.Chain.Holds, func(h Hold) bool {
				return h.Kind == HeldByMachines && h.By == ControlPlaneGroup && strings.HasPrefix(h.Message, why)
			})
			if waits := strings.HasPrefix(r.Groups[0].Waits, why); waits != tt.stands || holds != tt.stands || !tt.stands && r.Groups[0].Waits != "" {
				t.Errorf("the group waits because %q, holds are %+v", r.Groups[0].Waits, r.Chain.Holds)
			}
		})
	}
}

package status

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/chain"
)

const preflight = "Scaling up from 1 to 2 replicas is blocked because:\n* control plane is at v1.33.0 (\"KubeadmVersionSkew\" preflight check failed)"

// machineTests are about machines that are missing, or do not come.
func machineTests() []chainTest {
	resting := upgrade{
		target: "v1.31.0", controlPlane: "v1.31.0", members: repeat(1, "v1.31.0"), reason: chain.ReconcileSucceeded,
		groups: []testGroup{{name: "md-0", template: "v1.31.0", kubelets: repeat(1, "v1.31.0")}},
	}
	short := resting
	short.groups = []testGroup{
		{name: "md-0", template: "v1.31.0", kubelets: repeat(1, "v1.31.0"), missing: 1, scaling: preflight},
		{name: "md-1", template: "v1.31.0", missing: 2, scaling: "Scaling up from 0 to 2 replicas"},
		{name: "md-2", template: "v1.31.0", missing: 1}, {name: "md-3", template: "v1.31.0", missing: 1}, {name: "md-4", template: "v1.31.0", missing: 1},
	}
	unlabeled := resting
	unlabeled.groups = []testGroup{{name: "md-0", template: "v1.31.0", kubelets: repeat(3, "v1.31.0"), unlabeled: true}}
	moving := midChain()
	moving.groups[0].scaling = `Scaling up from 1 to 2 replicas is blocked because: failed calling webhook "guard.windlass.dev": connection refused`
	creating := resting
	creating.members, creating.groups = nil, []testGroup{{name: "md-0", template: "v1.31.0", missing: 2}}
	waiting := creating
	waiting.members = repeat(1, "v1.31.0")
	waiting.change = func(c *clusterv1.Cluster) {
		c.Status.Conditions = append(c.Status.Conditions, metav1.Condition{Type: clusterv1.ClusterControlPlaneInitializedCondition, Status: metav1.ConditionFalse})
	}
	oneLine := strings.Join(strings.Fields(preflight), " ")
	isCreated := "Creating by ClusterAPI: the Cluster is being created at v1.31.0: its control plane is not initialized yet"
	return []chainTest{
		{"groups lack machines", short, []string{
			"UpToDate by ClusterAPI: everything is at v1.31.0",
			"held by Machines md-0: 1 of 2 machines at v1.31.0 are there: " + oneLine + " +1m0s true",
			"held by Machines md-1: 0 of 2 machines at v1.31.0 are there",
			"held by Machines md-2: 0 of 1 machines at v1.31.0 are there",
			"held by Machines 2 more groups: they lack machines too",
		}},
		{"machines have lost the topology's label", unlabeled, []string{"UpToDate by ClusterAPI: everything is at v1.31.0"}},
		{"a webhook does not answer", moving, []string{
			"Upgrading by Windlass: waits for MachineDeployment md-0 to v1.32.0",
			"Done ControlPlaneUpgrade v1.30.0->v1.31.0 [] +0s +3m0s",
			"Done WorkersUpgrade ->v1.31.0 [] +3m0s +11m0s",
			"Done ControlPlaneUpgrade v1.31.0->v1.32.0 [] +12m0s +16m0s",
			"Running WorkersUpgrade v1.31.0->v1.32.0 [md-0 md-1] 1/4 +16m0s",
			"Next ControlPlaneUpgrade v1.32.0->v1.33.0 [] 0/3",
			"Next WorkersUpgrade v1.32.0->v1.33.0 [md-0 md-1] 0/4",
			"held by Machines md-0: " + moving.groups[0].scaling + " +1m0s true",
			"eta  19m0s..19m30s..20m0s",
		}},
		{"no machine yet", creating, []string{isCreated}},
		{"control plane not initialized", waiting, []string{isCreated}},
	}
}

func TestBlockedMessage(t *testing.T) {
	condition := func(kind string, status metav1.ConditionStatus, message string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Message: message}
	}
	for _, test := range []struct {
		name      string
		condition metav1.Condition
		want      string
	}{
		{"goes on", condition(clusterv1.ScalingUpCondition, metav1.ConditionTrue, "Scaling up from 1 to 2 replicas"), ""},
		{"would be blocked", condition(clusterv1.ScalingUpCondition, metav1.ConditionFalse, "Scaling up would be blocked because ..."), ""},
		{"another condition", condition("Available", metav1.ConditionTrue, "failed"), ""},
		{"preflight", condition(clusterv1.ScalingDownCondition, metav1.ConditionTrue, "waiting for\n  preflight"), "waiting for preflight"},
		{"denied", condition(clusterv1.RollingOutCondition, metav1.ConditionTrue, "admission denied"), "admission denied"},
		{"long", condition(clusterv1.ScalingUpCondition, metav1.ConditionTrue, "failed "+strings.Repeat("ä", 1000)), "failed " + strings.Repeat("ä", longestMessage-7) + "…"},
	} {
		if got, _ := blockedMessage([]metav1.Condition{test.condition}); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

// TestUnannouncedStep: what holds an upgrade by Cluster API whose step the Cluster does not announce, since
// when, and the way out.
func TestUnannouncedStep(t *testing.T) {
	for step, want := range map[string]int{"": 1, "v1.30.4": 0} {
		f := upgrade{target: "v1.31.2", controlPlane: "v1.30.4", members: repeat(3, "v1.29.8")}.facts(t)
		f.Cluster.Annotations[clusterv1.ClusterTopologyUpgradeStepAnnotation] = step
		conditions := []any{map[string]any{
			"type": clusterv1.MachinesUpToDateCondition, "status": "False", "lastTransitionTime": start.Format(time.RFC3339),
		}}
		if err := unstructured.SetNestedSlice(f.ControlPlane.Object, conditions, "status", "conditions"); err != nil {
			t.Fatal(err)
		}
		var found []Hold
		chain := Compute(f, start.Add(time.Hour)).Chain
		for _, h := range chain.Holds {
			if strings.Contains(h.Message, "has not announced the step") && strings.Contains(h.Message, "Fix: upgrade Cluster API") {
				found = append(found, h)
			}
		}
		if len(found) != want || want > 0 && (!found[0].Since.Equal(start) || chain.State != ChainHeld) {
			t.Errorf("step %q: %s, %+v", step, chain.State, chain.Holds)
		}
	}
}

// TestHostedControlPlane: a control plane that runs elsewhere has no Machines, and lacks none, whatever
// its replicas. One with Machines lacks those that are not there.
func TestHostedControlPlane(t *testing.T) {
	for hosted, want := range map[bool]int{true: 0, false: 3} {
		u := upgrade{target: "v1.31.0", controlPlane: "v1.31.0", members: repeat(3, "v1.31.0")}
		f := u.facts(t)
		f.Machines = nil
		for _, field := range []struct {
			value any
			path  []string
		}{{int64(3), []string{"spec", "replicas"}}, {hosted, []string{"status", "externalManagedControlPlane"}}} {
			if err := unstructured.SetNestedField(f.ControlPlane.Object, field.value, field.path...); err != nil {
				t.Fatal(err)
			}
		}
		for _, g := range Compute(f, start).Groups {
			if g.Name == ControlPlaneGroup && g.Missing != want {
				t.Errorf("hosted %v: %d missing, want %d", hosted, g.Missing, want)
			}
		}
	}
}

// TestMissing checks that machines that are going do not count, and that a group that says nothing of replicas lacks none.
func TestMissing(t *testing.T) {
	u := upgrade{target: "v1.31.0", controlPlane: "v1.31.0", members: repeat(3, "v1.31.0"), groups: []testGroup{
		{name: "md-0", template: "v1.31.0", kubelets: repeat(3, "v1.31.0"), missing: 1}, {name: "md-1", template: "v1.31.0", kubelets: repeat(2, "v1.31.0")},
	}}
	f := u.facts(t)
	f.MachineDeployments[1].Spec.Replicas = nil
	for _, m := range f.Machines {
		key := clusterv1.ClusterTopologyMachineDeploymentNameLabel
		if name := m.Labels[key]; name != "" {
			m.Labels[clusterv1.MachineDeploymentNameLabel] = "prod-" + name
		}
		if m.Name == "md-0-0-0" {
			m.DeletionTimestamp = new(metav1.NewTime(start))
		}
	}
	got := map[string][2]int{}
	for _, g := range Compute(f, start).Groups {
		got[g.Name] = [2]int{g.Machines, g.Missing}
	}
	want := map[string][2]int{ControlPlaneGroup: {3, 0}, "md-0": {3, 2}, "md-1": {2, 0}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("machines, and how many are missing (-want +got):\n%s", diff)
	}
}

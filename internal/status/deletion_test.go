package status

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// TestDeletions checks that the report has what holds the deletion of a Machine.
func TestDeletions(t *testing.T) {
	const refused = "Drain not completed yet (started at 2026-03-04T11:00:00Z):\n" +
		"* Pod default/web: cannot evict pod as it would violate the pod's disruption budget. " +
		"The disruption budget web needs 2 healthy pods and has 2 currently"
	drains := func(status metav1.ConditionStatus, message string) func(*clusterv1.Machine) {
		return condition(clusterv1.MachineDeletingCondition, status,
			clusterv1.MachineDeletingDrainingNodeReason, message)
	}
	held := []Deletion{{
		Machine: "m-1", Group: "md-0", Reason: clusterv1.MachineDeletingDrainingNodeReason,
		Message: refused, Since: start, Fix: heldByBudget + endDrain + unsetDrain,
	}}
	bounded := slices.Clone(held)
	bounded[0].Fix = heldByBudget + endDrain + ", which is 600s now: then the drain ends by itself"
	hooks := "* MachineDeployment prod-md-0: WaitingForPreDrainHook (hooks: pre-drain.delete.hook.machine.cluster.x-k8s.io/migrate-vms)"
	hooked := []Deletion{{
		Machine: "m-1", Group: "md-0", Reason: clusterv1.MachineDeletingWaitingForPreDrainHookReason,
		Message: hooks, Since: start, Fix: heldByHooks,
	}}
	later := slices.Clone(held)
	later[0].Since = start.Add(time.Hour)
	volumes := []Deletion{{
		Machine: "m-1", Group: "md-0", Reason: clusterv1.MachineDeletingWaitingForVolumeDetachReason,
		Message: "volume a", Since: start.Add(2 * time.Hour),
	}}
	began := func(drain, volumes time.Time) func(*clusterv1.Machine) {
		return func(m *clusterv1.Machine) {
			m.Status.Deletion = &clusterv1.MachineDeletionStatus{
				NodeDrainStartTime: metav1.NewTime(drain), WaitForNodeVolumeDetachStartTime: metav1.NewTime(volumes),
			}
		}
	}
	deleted := func(m *clusterv1.Machine) { m.DeletionTimestamp = new(metav1.NewTime(start)) }
	for _, test := range []struct {
		name   string
		change []func(*clusterv1.Machine)
		want   []Deletion
	}{
		{"a budget holds the drain", []func(*clusterv1.Machine){deleted, drains("True", refused)}, held},
		{"the drain has a timeout", []func(*clusterv1.Machine){
			deleted, drains("True", refused), func(m *clusterv1.Machine) { m.Spec.Deletion.NodeDrainTimeoutSeconds = new(int32(600)) },
		}, bounded},
		{"the drain began later", []func(*clusterv1.Machine){
			deleted, drains("True", refused), began(start.Add(time.Hour), time.Time{}),
		}, later},
		{"volumes", []func(*clusterv1.Machine){
			deleted, began(start, start.Add(2*time.Hour)), condition(clusterv1.MachineDeletingCondition, "True",
				clusterv1.MachineDeletingWaitingForVolumeDetachReason, "volume a"),
		}, volumes},
		{"a hook", []func(*clusterv1.Machine){
			deleted, condition(clusterv1.MachineDeletingCondition, "True", clusterv1.MachineDeletingWaitingForPreDrainHookReason, hooks),
		}, hooked},
		{"the drain waits for nothing", []func(*clusterv1.Machine){deleted, drains("True", "")}, nil},
		{"not noticed yet", []func(*clusterv1.Machine){deleted, drains("False", refused)}, nil},
		{"without the condition", []func(*clusterv1.Machine){deleted}, nil},
		{"not deleted", []func(*clusterv1.Machine){drains("True", refused)}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := Compute(facts(machine("m-1", test.change...)), start.Add(time.Minute))
			if diff := cmp.Diff(test.want, r.Deletions); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestDeletionsAreInOrder checks that groups come before names, and that a Machine of no group is
// listed.
func TestDeletionsAreInOrder(t *testing.T) {
	change := func(m *clusterv1.Machine) {
		m.DeletionTimestamp = new(metav1.NewTime(start))
		condition(clusterv1.MachineDeletingCondition, "True", "DrainingNode", "because")(m)
	}
	loose := machine("a", change)
	loose.OwnerReferences, loose.Labels = nil, nil
	r := Compute(facts(machine("c", change), machine("b", change), loose), start)
	var got []string
	for _, d := range r.Deletions {
		got = append(got, d.Group+"/"+d.Machine)
	}
	if diff := cmp.Diff([]string{"/a", "md-0/b", "md-0/c"}, got); diff != "" {
		t.Error(diff)
	}
}

package pool_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/pool"
)

// TestProgress: an unavailable Machine of an old MachineSet blocks the rollout. The rule that gives
// up availability waits as long as the Machine may become available by itself.
func TestProgress(t *testing.T) {
	t.Parallel()
	ready := reports(clusterv1.MachineReadyCondition, metav1.ConditionTrue, "R", "")
	updating := func(reason string) machineOption {
		return reports(clusterv1.MachineUpdatingCondition, metav1.ConditionTrue, reason, "")
	}
	inProgress := updating(clusterv1.MachineInPlaceUpdatingReason)
	failed := updating(clusterv1.MachineInPlaceUpdateFailedReason)
	for name, test := range map[string]struct {
		is []machineOption
		// waits says that the old MachineSet keeps its replicas.
		waits bool
	}{
		"not ready":                      {},
		"ready, and soaks":               {is: []machineOption{ready}, waits: true},
		"ready, soaks, and is unhealthy": {is: []machineOption{ready, checkFailed}},
		"marked for an update":           {is: []machineOption{updateMarked}, waits: true},
		"hook pending":                   {is: []machineOption{hookPending}, waits: true},
		"updating": {is: []machineOption{updateMarked, hookPending, inProgress},
			waits: true},
		"updating, and unhealthy": {is: []machineOption{updateMarked, hookPending, inProgress,
			checkFailed}},
		"update failed": {is: []machineOption{updateMarked, hookPending, failed}},
		"update failed, and Machine ready": {is: []machineOption{updateMarked, hookPending, failed,
			ready}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(2, 1, 0)
			w.settle(t)
			w.covered["v1.31.0"] = pool.AnswerNo
			w.md.Spec.Template.Spec.Version = "v1.31.0"
			names := w.names()
			w.reconcile(t)
			w.scale(w.setOf("v1.31.0"), nil) // the spare Machine
			for _, name := range w.names() {
				w.work(w.machines[name])
			}
			stuck := w.machines[names[0]]
			w.set(stuck, false)
			for _, option := range test.is {
				option(stuck)
			}
			for _, set := range w.sets {
				w.report(set)
			}
			w.reconcile(t)
			want := int32(1)
			if test.waits {
				want = 2
			}
			if got := *w.setOf("v1.30.0").Spec.Replicas; got != want {
				t.Errorf("the old MachineSet has %d replicas, want %d:\n%s", got, want, w)
			}
		})
	}
}

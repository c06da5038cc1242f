package pool_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/internal/pool"
)

// TestIdleFirst: where updates are held, Machines without a Node and those whose update failed are
// deleted before those that are being updated, and after those that need remediation.
func TestIdleFirst(t *testing.T) {
	t.Parallel()
	machines := []*clusterv1.Machine{
		msMachine("healthy"), msMachine("nodeless", withoutNode), msMachine("updating", updateMarked),
		msMachine("failed", updateMarked, reports(clusterv1.MachineUpdatingCondition,
			metav1.ConditionTrue, clusterv1.MachineInPlaceUpdateFailedReason, "")),
		msMachine("sick", toRemediate),
	}
	f := factsOf(msSet(1), machines...)
	for holds, want := range map[bool][]string{
		true: {"sick Remediation", "failed Unhealthy", "nodeless Unhealthy", "updating Updating",
			"healthy Age"},
		false: {"failed Updating", "updating Updating", "nodeless Unhealthy", "sick Unhealthy",
			"healthy Age"},
	} {
		f.Policy.HandOver = holds
		order, err := f.DeletionOrder()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, c := range order {
			got = append(got, c.Machine.Name+" "+string(c.Reason))
		}
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("updates are held: %t (-want +got):\n%s", holds, diff)
		}
	}
}

// TestScaleDownOfKeptGroup: Machines that serve nobody go before others, and enough stay available.
func TestScaleDownOfKeptGroup(t *testing.T) {
	t.Parallel()
	growing := func(w *world) {
		w.covered["v1.31.0"] = pool.AnswerNo
		w.md.Spec.Replicas = new(int32(15))
		for range 5 {
			w.reconcile(t)
			w.scale(w.setOf("v1.31.0"), nil)
		}
	}
	begun := func(w *world) { w.settle(t) }
	failed := func(w *world) {
		w.settle(t)
		for _, name := range w.updating() {
			w.failUpdate(name)
		}
	}
	for name, test := range map[string]struct {
		before   func(w *world)
		replicas int32
		// want is spec.replicas of the old and of the new MachineSet.
		want [2]int32
	}{
		"new ones have no Node":       {growing, 10, [2]int32{10, 0}},
		"some have no Node":           {growing, 12, [2]int32{10, 2}},
		"fewer than have a Node":      {growing, 8, [2]int32{8, 0}},
		"three are being updated":     {begun, 9, [2]int32{7, 2}}, // 30 % of 9 are 2.
		"enough stay available":       {begun, 3, [2]int32{2, 1}},
		"one stays":                   {begun, 1, [2]int32{0, 1}},
		"none stays":                  {begun, 0, [2]int32{0, 0}},
		"updates failed":              {failed, 8, [2]int32{7, 1}},
		"updates failed, and many go": {failed, 3, [2]int32{3, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := keptGroup(t, 10, 0, nil)
			w.md.Spec.Rollout.Strategy.RollingUpdate.MaxUnavailable = new(intstr.FromString("30%"))
			test.before(w)
			w.md.Spec.Replicas = &test.replicas
			w.reconcile(t)
			got := [2]int32{*w.setOf("v1.30.0").Spec.Replicas, *w.setOf("v1.31.0").Spec.Replicas}
			if diff := gocmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s\n%s", diff, w)
			}
		})
	}
}

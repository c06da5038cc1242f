package machineset

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	capicontroller "sigs.k8s.io/cluster-api/util/controller"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/internal/pool/objects"
)

// TestStatusWaits: what an updater says about a Machine is written once an interval; the run that
// leaves it out asks for another one.
func TestStatusWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	existing(w)
	w.r.StatusInterval = 5 * time.Second
	w.r.pace = &objects.Pace{Least: time.Second, Interval: w.r.StatusInterval}
	says := func(message string) {
		t.Helper()
		m := w.machines()[0]
		editStatus(w, &m, func(m *clusterv1.Machine) {
			conditions.Set(m, metav1.Condition{
				Type: clusterv1.MachineReadyCondition, Status: metav1.ConditionFalse, Reason: "R",
				Message: message,
			})
		})
		w.Take()
		if err := w.reconcile("a"); err != nil {
			t.Fatal(err)
		}
	}
	status := []string{"patch-status MachineSet"}
	// A write that fails limits no other one.
	w.Fail = func(_, kind string) (error, bool) {
		w.Fail = nil
		return apierrors.NewConflict(schema.GroupResource{Resource: kind}, "a", errKilled), false
	}
	says("step 0")
	for _, step := range []struct {
		after   time.Duration
		message string
		want    []string
		requeue time.Duration
	}{
		{0, "step 1", status, notReadyRetry},
		{2 * time.Second, "step 2", nil, 3 * time.Second},
		{2 * time.Second, "step 3", nil, time.Second},
		{time.Second, "step 3", status, notReadyRetry},
	} {
		w.now = w.now.Add(step.after)
		says(step.message)
		if diff := cmp.Diff(step.want, w.Take()); diff != "" {
			t.Errorf("%s: writes (-want +got):\n%s", step.message, diff)
		}
		if w.result.RequeueAfter != step.requeue {
			t.Errorf("%s: requeue after %s, want %s", step.message, w.result.RequeueAfter, step.requeue)
		}
	}
}

// TestStatusJoins: while Machines move, statuses wait for the run that follows the last step, for a
// second at most.
func TestStatusJoins(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		scenario   func(w *world) []string
		move, then []string
	}{
		"move": {moves, []string{"patch Machine", "apply TestMachine", "apply TestConfig", "patch-status MachineSet"},
			[]string{"patch-status MachineSet"}},
		"counted": {counted,
			[]string{"apply TestMachine", "apply TestConfig", "apply Machine", "patch Machine", "patch-status MachineSet"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			sets := tt.scenario(w)
			w.r.StatusInterval = 5 * time.Second
			w.r.pace = &objects.Pace{Least: time.Second, Interval: w.r.StatusInterval}
			w.Take()
			if diff := cmp.Diff(tt.move, w.settle(sets...)); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			w.now = w.now.Add(time.Second)
			if diff := cmp.Diff(tt.then, w.settle(sets...)); diff != "" {
				t.Errorf("writes after a second (-want +got):\n%s", diff)
			}
		})
	}
}

// TestHasten: a run costs more if there are more Machines, so the next one follows later.
func TestHasten(t *testing.T) {
	t.Parallel()
	sends := map[string]string{clusterv1.MachineSetMoveMachinesToMachineSetAnnotation: "b"}
	for name, tt := range map[string]struct {
		annotations map[string]string
		replicas    int32
		want        time.Duration
	}{
		"a few Machines move":     {sends, 5, 100500 * time.Microsecond},
		"many Machines move":      {sends, 1000, 200 * time.Millisecond},
		"Machines are replaced":   {nil, 50, 600 * time.Millisecond},
		"many Machines begin to":  {sends, 1000, 100 * time.Millisecond},
		"very many Machines move": {sends, 30_000, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.r.StatusInterval = 5 * time.Second
			waits := capicontroller.NewFakeController()
			w.r.controller = waits
			s := set("a", "a", 1)
			s.Annotations, s.Status.Replicas = tt.annotations, &tt.replicas
			md := &clusterv1.MachineDeployment{}
			if strings.Contains(name, "begin") {
				md.Generation++
			}
			(&Run{Reconciler: w.r, Set: s, Deployment: md}).hasten()
			next := waits.Deferrals[ctrl.Request{NamespacedName: client.ObjectKeyFromObject(s)}]
			if got := next.Sub(w.now); got != tt.want {
				t.Errorf("the next run follows after %s, want %s", got, tt.want)
			}
		})
	}
}

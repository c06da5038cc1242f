package machineset

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/pool"
)

// failedCanary has a Machine whose update has failed, and which a MachineHealthCheck wants
// remediated. It is the first one of its group.
func failedCanary(w *world) []string {
	remediates(w)
	w.belongs()
	edit(w, get(w, "d", &clusterv1.MachineDeployment{}), func(md *clusterv1.MachineDeployment) {
		md.Spec.Replicas = new(int32(5))
		md.Spec.Template = w.set("a").Spec.Template
		md.Annotations = map[string]string{v1alpha1.UpdateRetryAnnotation: ""}
	})
	m := w.machines()[0]
	edit(w, &m, func(m *clusterv1.Machine) {
		m.Annotations = with(m.Annotations, clusterv1.UpdateInProgressAnnotation, "")
	})
	editStatus(w, &m, func(m *clusterv1.Machine) {
		conditions.Set(m, metav1.Condition{
			Type: clusterv1.MachineUpdatingCondition, Status: metav1.ConditionTrue,
			Reason: clusterv1.MachineInPlaceUpdateFailedReason,
		})
	})
	w.policy = policy.Policy{Name: "p", Canary: intstr.FromInt32(1)}
	w.Take()
	return []string{"a"}
}

// checkCanary checks that the MachineDeployment names the canary if that is gone.
func checkCanary(t *testing.T, w *world, canary string) {
	t.Helper()
	record, err := pool.FailedCanariesOf(get(w, "d", &clusterv1.MachineDeployment{}))
	if err != nil {
		t.Fatal(err)
	}
	want := &pool.FailedCanaries{MachineSet: "a", Machines: []string{canary}}
	gone := !slices.ContainsFunc(w.machines(), func(m clusterv1.Machine) bool {
		return m.Name == canary && m.DeletionTimestamp.IsZero()
	})
	if diff := cmp.Diff(want, record); gone && diff != "" {
		t.Errorf("the canary is gone, and the record is (-want +got):\n%s", diff)
	}
	if !gone {
		t.Error("the canary was not remediated")
	}
}

// TestFailedCanary: the failure of a canary is on record before its Machine is deleted. That voids
// a retry which was asked for before.
func TestFailedCanary(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	failedCanary(w)
	canary := w.machines()[0].Name
	writes := w.settle("a")
	recorded := slices.Index(writes, "patch MachineDeployment")
	if deleted := slices.Index(writes, "delete Machine"); recorded < 0 || deleted < recorded {
		t.Errorf("writes: %q", writes)
	}
	checkCanary(t, w, canary)
	md := get(w, "d", &clusterv1.MachineDeployment{})
	if _, asked := md.Annotations[v1alpha1.UpdateRetryAnnotation]; asked {
		t.Error("the retry that was asked for before is still there")
	}
}

// TestForeignCanary: only an engine that leaves no record is known to update a Machine by the
// condition Updating.
func TestForeignCanary(t *testing.T) {
	t.Parallel()
	for name, decided := range map[string]bool{"another engine": false, "the turn of others": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			failedCanary(w)
			editStatus(w, &w.machines()[0], func(m *clusterv1.Machine) {
				conditions.Set(m, metav1.Condition{
					Type: clusterv1.MachineUpdatingCondition, Status: metav1.ConditionTrue,
					Reason: clusterv1.MachineInPlaceUpdatingReason,
				})
			})
			if decided {
				md := get(w, "d", &clusterv1.MachineDeployment{})
				edit(w, w.set("a"), func(s *clusterv1.MachineSet) {
					s.OwnerReferences = []metav1.OwnerReference{
						*metav1.NewControllerRef(md, capi.MachineDeploymentKind),
					}
					s.Annotations = with(s.Annotations, v1alpha1.UpdateDecisionsAnnotation, "[]")
				})
			}
			w.settle("a")
			record, err := pool.FailedCanariesOf(get(w, "d", &clusterv1.MachineDeployment{}))
			if err != nil || (record == nil) != decided {
				t.Errorf("the record is %+v, %v", record, err)
			}
		})
	}
}

// TestFailedCanaryCrashes kills the process at each write.
func TestFailedCanaryCrashes(t *testing.T) {
	t.Parallel()
	for _, carriedOut := range []bool{false, true} {
		for at := 1; ; at++ {
			w := newWorld(t)
			sets := failedCanary(w)
			canary := w.machines()[0].Name
			if !w.settleWithCrash(at, carriedOut, sets...) {
				break
			}
			checkCanary(t, w, canary)
		}
	}
}

// TestFailedCanaryMeetsChange: a MachineDeployment that has changed since it was read is read again
// before the Machine is deleted.
func TestFailedCanaryMeetsChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	failedCanary(w)
	w.Fail = func(verb, kind string) (error, bool) {
		if verb == "patch" && kind == "MachineDeployment" {
			return apierrors.NewConflict(schema.GroupResource{Resource: "machinedeployments"}, "d",
				errors.New("newer")), false
		}
		return nil, false
	}
	if err := w.reconcile("a"); err != nil || w.result.RequeueAfter != conflictRetry {
		t.Errorf("result %v, error %v", w.result, err)
	}
	if got := w.Take(); slices.Contains(got, "delete Machine") {
		t.Errorf("writes: %q", got)
	}
}

// TestScaleDownTakesFailedCanary: a scale-down that deletes a failed canary does not end the hold.
func TestScaleDownTakesFailedCanary(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	failedCanary(w)
	canary := w.machines()[0].Name
	edit(w, w.set("a"), func(s *clusterv1.MachineSet) { *s.Spec.Replicas = 1 })
	w.policy.HandOver = true // Nothing is remediated.
	edit(w, get(w, "d", &clusterv1.MachineDeployment{}), func(md *clusterv1.MachineDeployment) {
		md.Spec.Remediation.MaxInFlight = new(intstr.FromInt32(0))
	})
	if err := w.reconcile("a"); err != nil {
		t.Fatal(err)
	}
	checkCanary(t, w, canary)
}

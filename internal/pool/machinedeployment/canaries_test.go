package machinedeployment

import (
	"encoding/json"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/pool"
)

// record puts the record of failed canaries on the MachineDeployment, as a MachineSet does.
func (w *world) record(c pool.FailedCanaries) {
	w.t.Helper()
	text, err := json.Marshal(c)
	if err != nil {
		w.t.Fatal(err)
	}
	w.edit(func(md *clusterv1.MachineDeployment) {
		md.Annotations[v1alpha1.FailedCanariesAnnotation] = string(text)
	})
}

// losesCanary begins a rollout with a canary. The first Machine is updated, which fails, and a new
// one takes its place. The process is replaced then.
func losesCanary(t *testing.T) *world {
	t.Helper()
	kept := policy.Policy{Name: "p", Guarded: true, Canary: intstr.FromInt32(1)}
	w := scenario{begin: func(w *world) {
		w.extension, w.policy = coverAll, kept
	}, change: (*world).upgrade}.run(t)
	w.frozen = true
	w.settle()
	if w.moved != 1 {
		w.t.Fatalf("%d Machines have moved:\n%s", w.moved, w.picture())
	}
	sets := w.sets()
	newest := sets[len(sets)-1]
	canary := w.owned(newest)[0]
	w.record(pool.FailedCanaries{MachineSet: newest.Name, Machines: []string{canary.Name}})
	if err := w.Inner.Delete(w.t.Context(), canary); err != nil {
		w.t.Fatal(err)
	}
	w.frozen = false
	w.restart()
	w.settle()
	return w
}

// TestFailedCanaryHolds: the canary of a rollout failed and was remediated. No other Machine
// begins, also after a restart, until a person asks for a retry or changes the template. The record
// goes then.
func TestFailedCanaryHolds(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		act func(*world)
		// moved is how many Machines have moved when the rollout has ended.
		moved int
	}{
		"a retry": {func(w *world) {
			w.edit(func(md *clusterv1.MachineDeployment) {
				md.Annotations[v1alpha1.UpdateRetryAnnotation] = ""
			})
		}, 3},
		"another template": {func(w *world) {
			w.edit(func(md *clusterv1.MachineDeployment) { md.Spec.Template.Spec.Version = "v1.35.0" })
		}, 4},
		"no canary": {func(w *world) { w.limit(pool.Limits{}) }, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := losesCanary(t)
			if got := w.blocked(); w.moved != 1 || got != "CanaryFailed" {
				t.Fatalf("%d Machines have moved, and the condition has the reason %q:\n%s", w.moved, got,
					w.picture())
			}
			for _, set := range w.sets() {
				if _, copied := set.Annotations[v1alpha1.FailedCanariesAnnotation]; copied {
					t.Errorf("MachineSet %s has a copy of the record", set.Name)
				}
			}
			tt.act(w)
			w.settle()
			w.settle() // The status that ends a rollout comes last.
			if got := w.blocked(); w.moved != tt.moved || got != "" {
				t.Errorf("%d Machines have moved, want %d, and the condition has the reason %q:\n%s",
					w.moved, tt.moved, got, w.picture())
			}
			for _, key := range []string{
				v1alpha1.FailedCanariesAnnotation, v1alpha1.UpdateRetryAnnotation,
			} {
				if text, left := w.md().Annotations[key]; left {
					t.Errorf("the annotation %s is left: %s", key, text)
				}
			}
		})
	}
}

// TestRetryMeetsFailure: a retry that was asked for does not answer a failure that is recorded
// meanwhile.
func TestRetryMeetsFailure(t *testing.T) {
	t.Parallel()
	w := losesCanary(t)
	sets := w.sets()
	both := pool.FailedCanaries{MachineSet: sets[len(sets)-1].Name, Machines: []string{"x", "y"}}
	w.edit(func(md *clusterv1.MachineDeployment) {
		md.Annotations[v1alpha1.UpdateRetryAnnotation] = ""
	})
	cached := w.md()
	w.edit(func(md *clusterv1.MachineDeployment) {
		delete(md.Annotations, v1alpha1.UpdateRetryAnnotation)
	})
	w.record(both)
	run := &run{Reconciler: w.r, md: cached, read: cached.DeepCopy(), sets: sets}
	if err := run.followUpCanaries(t.Context()); err == nil || client.IgnoreNotFound(err) == nil {
		t.Errorf("error %v, want a conflict", err)
	}
	got, err := pool.FailedCanariesOf(w.md())
	if err != nil || got == nil || got.Retried || !slices.Equal(got.Machines, both.Machines) {
		t.Errorf("the record is %+v, %v", got, err)
	}
}

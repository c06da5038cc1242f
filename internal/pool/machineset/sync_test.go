package machineset

import (
	"context"
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/pool"
)

// broken is a Machine whose infrastructure is gone, as if somebody had removed the finalizer of
// that.
const broken = "a-broken"

// breakMachine gives a MachineSet one more Machine, which is broken and which it wants. It is the
// first one that a run reads.
func (w *world) breakMachine(name string) {
	w.t.Helper()
	all := w.machines()
	m := &clusterv1.Machine{Spec: all[0].Spec, Status: all[0].Status}
	m.Name, m.Namespace, m.Labels = broken, namespace, all[0].Labels
	m.Labels = with(m.Labels, clusterv1.MachineDeploymentUniqueLabel, name)
	m.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(w.set(name), capi.MachineSetKind)}
	m.Spec.InfrastructureRef.Name = "gone"
	w.Put(m)
	edit(w, w.set(name), func(s *clusterv1.MachineSet) { *s.Spec.Replicas++ })
}

// run reconciles a MachineSet, which must fail because of the broken Machine.
func (w *world) run(name string) {
	w.t.Helper()
	if err := w.reconcile(name); err == nil || !strings.Contains(err.Error(), "of Machine "+broken) {
		w.t.Errorf("error %v, want one about Machine %s", err, broken)
	}
}

// has counts the Machines of a MachineSet that are not being deleted.
func (w *world) has(name string) (n int) {
	w.t.Helper()
	for _, m := range w.machines() {
		if metav1.IsControlledBy(&m, w.set(name)) && m.DeletionTimestamp.IsZero() {
			n++
		}
	}
	return n
}

// TestBrokenMachine: each run of a MachineSet fails that has a broken Machine. It scales, moves
// Machines and starts updates all the same, as Cluster API does, and its other Machines follow it.
func TestBrokenMachine(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		scenario func(w *world) []string
		// breaks has the broken Machine.
		breaks string
		change func(s *clusterv1.MachineSet)
		check  func(w *world) bool
	}{
		"scale up": {existing, "a", func(s *clusterv1.MachineSet) { *s.Spec.Replicas = 5 },
			func(w *world) bool { return w.has("a") == 5 }},
		"scale down": {existing, "a", func(s *clusterv1.MachineSet) { *s.Spec.Replicas = 1 },
			func(w *world) bool { return w.has("a") == 1 }},
		"move": {moves, "a", nil, func(w *world) bool { return w.has("a") == 2 && w.has("b") == 1 }},
		"update": {counted, "b", nil, func(w *world) bool {
			for _, m := range w.machines() {
				if pool.IsUpdating(&m) {
					return m.Spec.Version == "v1.34.0" && !pool.IsMovePending(&m)
				}
			}
			return false
		}},
		"relabel": {relabels, "a", nil, func(w *world) bool {
			for _, m := range w.machines() {
				if m.Labels["l"] != "2" {
					return false
				}
			}
			return true
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			tt.scenario(w)
			w.breakMachine(tt.breaks)
			if tt.change != nil {
				edit(w, w.set(tt.breaks), tt.change)
			}
			w.run(tt.breaks)
			if !tt.check(w) {
				t.Errorf("nothing else happens. Machines:\n%s", w.state())
			}
		})
	}
}

// TestUnusedStays: an object that no Machine uses, and that nobody may delete, keeps a MachineSet
// from nothing.
func TestUnusedStays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	existing(w)
	w.r.deleteUnused = func(context.Context, *Run) error { return errors.New("forbidden") }
	for _, replicas := range []int32{4, 1} {
		edit(w, w.set("a"), func(s *clusterv1.MachineSet) { *s.Spec.Replicas = replicas })
		if err := w.reconcile("a"); err == nil || !strings.Contains(err.Error(), "forbidden") {
			t.Errorf("error %v", err)
		}
		if got := w.has("a"); got != int(replicas) {
			t.Errorf("%d Machines, want %d", got, replicas)
		}
	}
}

// TestSpecIsRead: a run that fails, and one of a paused MachineSet, tell that they have read the
// spec. As in Cluster API, they do not observe its generation.
func TestSpecIsRead(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(w *world){
		"fails":  func(w *world) { w.breakMachine("a") },
		"paused": func(w *world) { edit(w, w.cluster(), func(c *clusterv1.Cluster) { c.Spec.Paused = new(true) }) },
		"no policy can be read": func(w *world) {
			w.belongs()
			w.r.Policies = policies(policy.Policy{}, errors.New("broken"))
		},
		"no Machine can be created": func(w *world) {
			w.Fail = func(verb, kind string) (error, bool) {
				if verb == "apply" && kind == "Machine" {
					return errors.New("exceeded quota"), false
				}
				return nil, false
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			existing(w)
			prepare(w)
			for range 2 {
				edit(w, w.set("a"), func(s *clusterv1.MachineSet) { *s.Spec.Replicas++ })
				if err := w.reconcile("a"); (err != nil) == (name == "paused") {
					t.Errorf("error %v", err)
				}
				s := w.set("a")
				if got := pool.ReadGeneration(s); got != s.Generation {
					t.Errorf("generation %d is read, want %d", got, s.Generation)
				}
				if s.Status.ObservedGeneration == s.Generation {
					t.Error("the generation is observed, and Cluster API observes none")
				}
			}
		})
	}
}

package engine

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
)

// TestBlockMoveAnnotation compares the annotation with clusterctl's.
func TestBlockMoveAnnotation(t *testing.T) {
	t.Parallel()
	if BlockMoveAnnotation != v1alpha3.BlockMoveAnnotation {
		t.Errorf("clusterctl looks for %s, not for %s", v1alpha3.BlockMoveAnnotation, BlockMoveAnnotation)
	}
}

// TestChangeMove holds what each record of an update leaves of the annotation.
func TestChangeMove(t *testing.T) {
	t.Parallel()
	ours, persons := map[string]string{BlockMoveAnnotation: blockMoveValue}, map[string]string{BlockMoveAnnotation: "true"}
	for _, phase := range []inplace.Phase{
		inplace.Draining, inplace.Updating, inplace.BackingOff, inplace.Verifying, inplace.Soaking, inplace.Failed, "",
	} {
		after := &inplace.Progress{Phase: phase}
		want := map[string]string{}
		if phase == inplace.Updating {
			want = ours
		}
		if phase == "" {
			after = nil
		}
		for _, before := range []map[string]string{{}, ours, persons} {
			got := maps.Clone(before)
			for key, value := range changeMove(before, after) {
				if delete(got, key); value != nil {
					got[key] = *value
				}
			}
			wanted := want
			if before[BlockMoveAnnotation] == "true" {
				wanted = persons
			}
			if diff := cmp.Diff(wanted, got); diff != "" {
				t.Errorf("phase %q after %v (-want +got):\n%s", phase, before, diff)
			}
		}
	}
}

// pause pauses the Cluster.
func (w *world) pause(paused bool) {
	w.Helper()
	cluster := &clusterv1.Cluster{}
	w.must(w.client.Get(w.Context(), clientKey("c"), cluster))
	cluster.Spec.Paused = &paused
	w.must(w.client.Update(w.Context(), cluster))
}

// TestMoveDuringUpdate has `clusterctl move` wait for the updater of a machine. The Cluster is
// paused then, so that Cluster API does not call; the engine asks the updater by itself.
func TestMoveDuringUpdate(t *testing.T) {
	t.Parallel()
	w, s := moving(t, external(nil))
	var atWork bool
	blocked := func() bool { return w.machine("a").Annotations[BlockMoveAnnotation] == blockMoveValue }
	s.answer = func(string) inplace.Answer {
		if !blocked() {
			t.Error("the updater is asked, and nothing keeps the Machine from being moved")
		}
		if atWork {
			return inplace.Answer{Outcome: inplace.InProgress}
		}
		return inplace.Answer{Outcome: inplace.Finishes}
	}
	atWork = true
	w.until("a", "")
	if !blocked() {
		t.Fatalf("the Machine can be moved while its updater is at work: %v", w.machine("a").Annotations)
	}
	asked := len(s.updates)
	w.follow()
	if len(s.updates) != asked {
		t.Errorf("the updater of a machine that is not paused was asked: %q", s.updates[asked:])
	}
	w.annotate("a", clusterv1.PausedAnnotation, new(""))
	w.follow()
	w.annotate("a", clusterv1.PausedAnnotation, nil)
	if len(s.updates) != asked {
		t.Errorf("the updater of a machine that a person paused was asked: %q", s.updates[asked:])
	}
	w.pause(true)
	w.engine.WatchFilter = "another"
	w.follow()
	w.engine.WatchFilter = ""
	if len(s.updates) != asked {
		t.Errorf("an extension of another shard asked the updater: %q", s.updates[asked:])
	}
	w.follow()
	if !blocked() || len(s.updates) != asked+1 {
		t.Errorf("blocked: %t; asked: %q", blocked(), s.updates[asked:])
	}
	atWork = false
	w.follow()
	if blocked() {
		t.Errorf("the Machine cannot be moved after its updater has ended: %v", w.machine("a").Annotations)
	}
	if names := slices.Compact(slices.Clone(s.updates)); len(names) != 1 {
		t.Errorf("several operations: %q", names)
	}
	asked = len(s.updates)
	w.follow()
	if len(s.updates) != asked {
		t.Errorf("asked again: %q", s.updates[asked:])
	}
}

// TestPauseBetweenSteps has a pause of the Cluster end a machine's first updater, and hold the second one: the
// Machine can be moved, and a person who stops an upgrade sees nothing else begin.
func TestPauseBetweenSteps(t *testing.T) {
	t.Parallel()
	w, files, kubelet := halves(t, external(nil))
	w.must(w.decideHalves())
	w.until("a", "working")
	w.pause(true)
	for range 3 {
		w.now = w.now.Add(time.Minute)
		w.follow()
	}
	if p := w.progress("a"); p == nil || p.Phase != inplace.Verifying || w.has("a", BlockMoveAnnotation) {
		t.Errorf("progress %+v, annotations %v", p, w.machine("a").Annotations)
	}
	if len(files.completed) != 1 || len(kubelet.polls) > 0 {
		t.Errorf("the first updater has completed %v; the second was asked %v", files.completed, kubelet.polls)
	}
	w.pause(false)
	w.until("a", "updated in place")
	w.checkHalves(t, files, kubelet)
}

// TestMoveWithoutCluster leaves a Machine alone whose Cluster is gone.
func TestMoveWithoutCluster(t *testing.T) {
	t.Parallel()
	w, s := moving(t, external(nil))
	s.answers(inplace.InProgress, "")
	w.until("a", "")
	cluster := &clusterv1.Cluster{}
	w.must(w.client.Get(w.Context(), clientKey("c"), cluster))
	w.must(w.client.Delete(w.Context(), cluster))
	w.follow()
}

// TestOrphanedBlock removes the annotation of an update whose record and mark a person removed.
func TestOrphanedBlock(t *testing.T) {
	t.Parallel()
	w, s := moving(t, external(nil))
	s.answers(inplace.InProgress, "")
	w.until("a", "")
	w.annotate("a", v1alpha1.UpdateProgressAnnotation, nil)
	w.follow()
	if !w.has("a", BlockMoveAnnotation) {
		t.Error("Cluster API still asks for the update, and nothing keeps the Machine from being moved")
	}
	w.annotate("a", clusterv1.UpdateInProgressAnnotation, nil)
	w.follow()
	if w.has("a", BlockMoveAnnotation) {
		t.Errorf("the annotation is left: %v", w.machine("a").Annotations)
	}
}

// follow follows updates of paused machines.
func (w *world) follow() {
	w.Helper()
	w.must(w.engine.SweepMachines(w.Context()))
}

// TestBlockOfOthersStays leaves the annotation of a person alone.
func TestBlockOfOthersStays(t *testing.T) {
	t.Parallel()
	w, s := moving(t, external(nil))
	persons := "a person"
	w.annotate("a", BlockMoveAnnotation, &persons)
	s.answers(inplace.Finishes, "")
	w.node("a", to)
	w.until("a", "updated in place")
	if got := w.machine("a").Annotations[BlockMoveAnnotation]; got != persons {
		t.Errorf("the annotation is %q", got)
	}
}

// TestBlockGoesWithUpdate removes the annotation in the write that ends an update in any other way.
func TestBlockGoesWithUpdate(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*world, *scripted){
		"it fails": func(w *world, s *scripted) {
			s.answers(inplace.Fails, "no")
			w.until("a", "")
		},
		"its mark is removed": func(w *world, _ *scripted) {
			w.annotate("a", clusterv1.UpdateInProgressAnnotation, nil)
			w.must(w.engine.SweepMachines(w.Context()))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, s := moving(t, external(func(p *v1alpha1.UpdatePolicySpec) { p.MaxAttempts = 1 }))
			s.answers(inplace.InProgress, "")
			w.until("a", "")
			if !w.has("a", BlockMoveAnnotation) {
				t.Fatal("the update does not block a move")
			}
			end(w, s)
			if w.has("a", BlockMoveAnnotation) {
				t.Errorf("the annotation is left: %v", w.machine("a").Annotations)
			}
		})
	}
}

package machinedeployment

import (
	"fmt"
	"testing"
)

// freezeAt freezes the process before its nth write from now, and has another process lead for some
// rounds before the first one continues with the write. The one that leads afterwards is in next.
//
// While there are so many MachineSets, a write of one creates the next one, and nothing freezes.
func (w *world) freezeAt(n, sets int) (next **Reconciler, kind *string) {
	next, kind = new(*Reconciler), new(string)
	w.Fail = func(verb, object string) (error, bool) {
		if n--; n > 0 {
			return nil, false
		}
		w.Fail, *kind = nil, verb+" "+object
		if verb == "apply" && len(w.sets()) == sets {
			return nil, false
		}
		frozen := w.r
		w.restart()
		for range 3 {
			if _, err := w.reconcile(); err != nil {
				w.t.Fatalf("the process that leads: %v", err)
			}
			w.playSets()
		}
		*next, w.r = w.r, frozen
		return nil, false
	}
	return next, kind
}

// settleAfter is settle for a process that another one follows. The first one ends with the reconcile in
// which it was frozen, because it has lost the lease.
func (w *world) settleAfter(next **Reconciler) {
	w.t.Helper()
	for range 400 {
		before := w.versions()
		_, err := w.reconcile()
		if *next != nil {
			w.r, *next, err = *next, nil, nil
		}
		if err != nil {
			w.t.Fatal(err)
		}
		w.playSets()
		if fmt.Sprint(before) == fmt.Sprint(w.versions()) {
			return
		}
	}
	w.t.Fatalf("the group does not settle:\n%s", w.picture())
}

// TestFrozenBeforeAWrite freezes a process before each of its writes, until another one has led for a
// while. What it then sends is refused if it is about a MachineSet that has changed, so that no Machine
// more is created, deleted or moved. The creation of a MachineSet is a known gap.
func TestFrozenBeforeAWrite(t *testing.T) {
	t.Parallel()
	for name, sets := range map[string]int{"scale up": 0, "replace without surge": 1, "kept, blocked": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for n := 1; n < 12; n++ {
				s := scenarios[name]
				w := s.run(t)
				next, kind := w.freezeAt(n, sets)
				w.settleAfter(next)
				if w.Fail != nil {
					break
				}
				got, want := [3]int{w.created, w.deleted, w.moved}, [3]int{s.created, s.deleted, s.moved}
				if got != want || w.picture() != s.want {
					t.Errorf("frozen before write %d, %s: Machines created, deleted and moved %v, want %v\n%s",
						n, *kind, got, want, w.picture())
				}
			}
		})
	}
}

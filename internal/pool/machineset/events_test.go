package machineset

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// recorded returns the Events since the last call.
func (w *world) recorded() []string {
	w.t.Helper()
	var all []string
	for {
		select {
		case e := <-w.events.Events:
			all = append(all, e)
		default:
			return all
		}
	}
}

func (w *world) machineNames() (names []string) {
	w.t.Helper()
	for _, m := range w.machines() {
		names = append(names, m.Name)
	}
	return names
}

// TestEvents checks the Events of a MachineSet and of its Machines. They have the reasons and the
// words of Cluster API's controller, so that alerts and people find them with both engines.
func TestEvents(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		scenario func(*world) []string
		want     []string
	}{
		"creates":     {creates, []string{`Normal SuccessfulCreate Created Machine "machine-0"`}},
		"scales down": {scalesDown, []string{`Normal SuccessfulDelete Deleted Machine "machine-0"`}},
		"moves":       {moves, nil},
		"counted": {
			counted, []string{"Normal SuccessfulStartInPlaceUpdate Machine starting in-place update"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			sets := tt.scenario(w)
			w.recorded()
			before := w.machineNames()
			w.settle(sets...)
			all := slices.Compact(slices.Sorted(slices.Values(append(before, w.machineNames()...))))
			got := w.recorded()
			for i, e := range got {
				for n, m := range all {
					e = strings.ReplaceAll(e, m, fmt.Sprintf("machine-%d", n))
				}
				got[i] = e
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Events (-want +got):\n%s", diff)
			}
		})
	}
}

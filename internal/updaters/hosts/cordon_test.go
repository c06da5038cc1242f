package hosts_test

import (
	"strings"
	"testing"

	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/port/porttest"
)

// TestCordonOfARun: a person's run has cordoned the node, and the updater finishes the upgrade. The
// answer and the log tell that the node may stay cordoned, unless a person has uncordoned it.
func TestCordonOfARun(t *testing.T) {
	t.Parallel()
	const at = "the host is at " + porttest.UpdaterTo
	for name, test := range map[string]struct {
		cordoned, unschedulable bool
		want                    string
	}{
		"it is cordoned": {true, true, at + "; an earlier run cordoned Node node-m. " +
			"Fix: if it stays cordoned, kubectl uncordon node-m"},
		"a person uncordoned it": {true, false, at},
		"a person cordoned it":   {false, true, at},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.cordoned, w.node.Unschedulable = test.cordoned, test.unschedulable
			u := w.updater(t)
			u.UpdateMachine(t.Context(), request("a-1"))
			w.advance()
			want := inplace.Answer{Outcome: inplace.Finishes, Message: test.want}
			checkAnswer(t, u.UpdateMachine(t.Context(), request("a-1")), want)
			entries := w.records[len(w.records)-1].entries
			logged := entries[len(entries)-1].Output
			if told := strings.Contains(logged, "cordoned"); told != (test.want != at) {
				t.Errorf("the log ends with %q", logged)
			}
			if !test.unschedulable && w.cordoned {
				t.Error("the record stays")
			}
			checkAnswer(t, u.UpdateMachine(t.Context(), request("a-1")), want)
		})
	}
}

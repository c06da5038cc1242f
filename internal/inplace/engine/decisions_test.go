package engine

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/pkg/version"
)

func TestDecisionStands(t *testing.T) {
	t.Parallel()
	w, _ := moving(t, external(nil))
	// Asked again about the same, with an updater that has lost its memory.
	w.updaters["kubelet"].patch = "{}"
	coverage, err := w.canUpdateSet(machineSet("old", from), machineSet("new", to))
	if err != nil || !strings.Contains(coverage.Message, "as decided before: kubelet") {
		t.Errorf("coverage %+v, error %v", coverage, err)
	}
	// About something else it decides anew.
	if _, err := w.canUpdateSet(machineSet("old", from), machineSet("newer", "v1.31.2")); err == nil {
		t.Error("an uncovered change passes")
	}
}

// TestWarningsOfUpdaters: what an updater covers without knowing whether it succeeds is an Event with
// the reason and what to do, and in the answer.
func TestWarningsOfUpdaters(t *testing.T) {
	t.Parallel()
	const warning = "the settings of v1.99 are not known. Fix: compare them"
	w := newWorld(t, external(nil), deployment(), machineSet("old", from))
	w.updater("kubelet", 0, versionPatch).warnings = []string{warning}
	answer, err := w.canUpdateSet(machineSet("old", from), machineSet("new", to))
	if err != nil || answer.Message != "updated in place by kubelet; "+warning {
		t.Errorf("%+v, %v", answer, err)
	}
	var told []string
	for len(w.events.Events) > 0 {
		told = append(told, <-w.events.Events)
	}
	want := []string{
		"Normal UpdateInPlaceDecided Updates in place by kubelet", "Warning UpdateUnchecked " + warning,
	}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("Events (-want +got):\n%s", diff)
	}
}

func TestVersionsInAnnotations(t *testing.T) {
	t.Parallel()
	data, err := json.Marshal(inplace.Progress{To: version.MustParse(to)})
	if err != nil || !strings.Contains(string(data), `"to":"v1.31.1"`) || strings.Contains(string(data), `"from"`) {
		t.Errorf("%s %v", data, err)
	}
}

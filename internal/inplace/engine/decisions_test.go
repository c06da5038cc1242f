package engine

import (
	"encoding/json"
	"strings"
	"testing"

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

func TestVersionsInAnnotations(t *testing.T) {
	t.Parallel()
	data, err := json.Marshal(inplace.Progress{To: version.MustParse(to)})
	if err != nil || !strings.Contains(string(data), `"to":"v1.31.1"`) || strings.Contains(string(data), `"from"`) {
		t.Errorf("%s %v", data, err)
	}
}

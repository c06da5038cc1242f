package update

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/internal/core/inplace"
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

func TestMergeSteps(t *testing.T) {
	t.Parallel()
	s := func(names ...string) []inplace.Step {
		var steps []inplace.Step
		for _, n := range names {
			steps = append(steps, inplace.Step{Updater: n})
		}
		return steps
	}
	for _, tt := range []struct{ a, b, want []inplace.Step }{
		{a: s("a", "c"), b: s("a", "b", "c"), want: s("a", "b", "c")},
		{a: s("a"), b: s("b"), want: s("b", "a")},
		{a: s("a", "b"), b: s("b", "c"), want: s("a", "b", "c")},
		{a: nil, b: s("a"), want: s("a")},
		{a: s("a"), b: nil, want: s("a")},
	} {
		if diff := cmp.Diff(tt.want, mergeSteps(tt.a, tt.b)); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	}
}

func TestVersionsInAnnotations(t *testing.T) {
	t.Parallel()
	data, err := json.Marshal(inplace.Progress{To: version.MustParse(to)})
	if err != nil || !strings.Contains(string(data), `"to":"v1.31.1"`) || strings.Contains(string(data), `"from"`) {
		t.Errorf("%s %v", data, err)
	}
}

package engine

import (
	"errors"
	"strings"
	"testing"

	"github.com/windlass-dev/windlass/api/v1alpha1"
)

// declined is the error of an updater that does not want a change.
type declined struct{}

func (declined) Error() string  { return "no power" }
func (declined) Declined() bool { return true }

// TestDeclinedByOne holds that a change which one updater declines is for the next one, and that it is
// not covered, with the reasons, if all decline.
func TestDeclinedByOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t, external(nil), deployment(), machineSet("old", from))
	w.updater("first", 0, versionPatch).err = declined{}
	second := w.updater("second", 1, versionPatch)
	second.err = declined{}
	_, err := w.canUpdateSet(machineSet("old", from), machineSet("new", to))
	if r, ok := errors.AsType[*RefusedError](err); !ok || r.Reason != v1alpha1.NotCoveredReason || strings.Count(r.Message, "no power") != 2 {
		t.Errorf("both decline: error %v", err)
	}
	second.err = nil
	coverage, err := w.canUpdateSet(machineSet("old", from), machineSet("new", to))
	if err != nil || coverage.Message != "updated in place by second" || !strings.Contains(string(coverage.Patches.Machine.Data), to) {
		t.Errorf("one declines: coverage %+v, error %v", coverage, err)
	}
}

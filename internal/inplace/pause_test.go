package inplace_test

import (
	"testing"

	"github.com/windlass-dev/windlass/internal/inplace"
)

// TestPaused asks the updater that is at work, and begins nothing. Without the pause, each case continues.
func TestPaused(t *testing.T) {
	t.Parallel()
	updated := func(f *inplace.Facts) { f.Node.Kubelet, f.Node.Ready = newer, true }
	for name, tt := range map[string]struct {
		phase inplace.Phase
		edit  func(*inplace.Facts)
		want  string
	}{
		"an updater is at work": {phase: inplace.Updating, want: "call kubelet"},
		"a drain":               {phase: inplace.Draining, want: "wait"},
		"another attempt":       {phase: inplace.BackingOff, want: "wait"},
		"another step": {phase: inplace.Verifying, edit: func(f *inplace.Facts) {
			updated(f)
			f.Progress.Steps = steps("kubelet", "files")
		}, want: "wait"},
		"another update":     {phase: inplace.Updating, edit: func(f *inplace.Facts) { f.Decision.ID = "later" }, want: "wait"},
		"a retry":            {phase: inplace.Failed, edit: func(f *inplace.Facts) { f.Retry = true }, want: "wait"},
		"the last step ends": {phase: inplace.Verifying, edit: updated, want: "something else"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := underWay(tt.phase)
			if tt.edit != nil {
				tt.edit(&f)
			}
			if got := outcome(inplace.Decide(f)); got == "wait" {
				t.Fatalf("without the pause: %s", got)
			}
			f.Paused = true
			v := inplace.Decide(f)
			if got := outcome(v); got != tt.want {
				t.Errorf("%+v", v)
			}
			if tt.want == "wait" && v.Progress != f.Progress {
				t.Errorf("something is recorded: %+v", v.Progress)
			}
		})
	}
}

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/lab/internal/devplane"
	"github.com/windlass-dev/windlass/lab/internal/setup"
)

func TestEngineRemedy(t *testing.T) {
	t.Parallel()
	child := func(e setup.Engine, state devplane.ChildState) devplane.ChildStatus {
		c := devplane.ChildStatus{Name: e.Child(), State: state}
		if state == devplane.ChildExited {
			c.LastExit = &devplane.Exit{Code: -1, Signal: "killed"}
		}
		return c
	}
	const windlass = "windlass-manager has ended: killed by signal: killed (log: windlass-lab logs windlass-manager)\n" +
		"to start it again, where it was: windlass-lab engine windlass"
	for name, tt := range map[string]struct {
		children []devplane.ChildStatus
		want     string
	}{
		"it runs":       {children: []devplane.ChildStatus{child(setup.EngineStock, devplane.ChildReady)}},
		"none is there": {},
		"killed":        {children: []devplane.ChildStatus{child(setup.EngineWindlass, devplane.ChildExited)}, want: windlass},
		"killed, in the place of another": {
			children: []devplane.ChildStatus{child(setup.EngineStock, devplane.ChildStopped), child(setup.EngineWindlass, devplane.ChildExited)}, want: windlass,
		},
		"killed, another runs": {children: []devplane.ChildStatus{child(setup.EngineStock, devplane.ChildReady), child(setup.EngineWindlass, devplane.ChildExited)}},
		"stock": {
			children: []devplane.ChildStatus{child(setup.EngineStock, devplane.ChildExited)},
			want: "capi-core has ended: killed by signal: killed (log: windlass-lab logs capi-core)\n" +
				"to start it again, where it was: windlass-lab engine stock",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status := devplane.Status{Phase: devplane.PhaseFailed, Message: "it failed", Children: tt.children}
			if diff := cmp.Diff(tt.want, engineRemedy(status, "windlass-lab")); diff != "" {
				t.Error(diff)
			}
			var out strings.Builder
			if err := printStatus(&out, "table", status, "windlass-lab", time.Time{}); err != nil {
				t.Fatal(err)
			}
			if !strings.HasSuffix(out.String(), "\nit failed\n\n"+tt.want+"\n") && tt.want != "" {
				t.Errorf("the status does not end with the remedy:\n%s", &out)
			}
		})
	}
}

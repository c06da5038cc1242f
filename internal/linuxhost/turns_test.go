package linuxhost_test

import (
	"testing"
	"time"

	"github.com/windlass-dev/windlass/internal/linuxhost"
)

// TestTwoAttempts: two attempts look in turns at a node that is never Ready. One of them fails, and
// they do not restart its service in turns.
func TestTwoAttempts(t *testing.T) {
	t.Parallel()
	for _, takes := range []time.Duration{0, time.Second} {
		t.Run(takes.String(), func(t *testing.T) {
			t.Parallel()
			checkTurns(t, takes)
		})
	}
}

// checkTurns has two attempts look every second, in turns. A restart takes so long.
func checkTurns(t *testing.T, takes time.Duration) {
	t.Helper()
	g, steps, seen := situation(t, linuxhost.NodeReady)
	restarts := 0
	for second := range 1200 {
		seen.Facts.Now = clock.Add(time.Duration(second) * time.Second)
		seen.Attempt = []string{"a0", "a1"}[second%2]
		p := linuxhost.Decide(g, steps, seen)
		if p.Failure != nil {
			if p.Failure.Reason != linuxhost.NodeNotReady || restarts > 2 {
				t.Errorf("after %d restarts: %s", restarts, p.Failure)
			}
			return
		}
		if p.Begin != nil {
			restarts++
			seen.Facts.Job = linuxhost.Job{
				Operation: g.Operation(), Step: p.Step, Attempt: seen.Attempt, Manifest: g.Manifest(),
				State: linuxhost.JobEnded, Ended: seen.Facts.Now.Add(takes),
			}
		}
	}
	t.Errorf("no attempt has failed after %d restarts", restarts)
}

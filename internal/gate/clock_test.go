package gate_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/gate"
	"github.com/windlass-dev/windlass/pkg/version"
)

// life is a gate with an approval and a window, and a Cluster that asks about its steps.
type life struct {
	gate   v1alpha1.UpgradeGate
	window gate.Window
	now    time.Time
	// minor is that of the step that is asked about.
	minor    int
	approved bool
	// since is when the Cluster began to wait, as the gate first said.
	since time.Time
}

func (l *life) step() gate.Step { return stepTo(l.minor) }

// stepTo returns the step before workers go to the first release of a minor.
func stepTo(minor int) gate.Step {
	v := version.MustParse(fmt.Sprintf("v1.%d.0", minor))
	return gate.Step{Hook: gate.BeforeWorkersUpgrade, Version: v}
}

// ask asks about the step, and records the answer as the engine does. It checks that the answer is
// that of a gate whose clock has never jumped.
func (l *life) ask(t *rapid.T) {
	step, always := l.step(), func(string, string) bool { return true }
	gates := gate.Select([]v1alpha1.UpgradeGate{l.gate}, prod, step)
	verdict := gate.Decide(step, gates, gate.Facts{}, l.now)
	passes := l.approved && open(l.window, l.now)
	if got := len(verdict.Findings) == 0; got != passes {
		t.Fatalf("at %s, approved %t, window %s: %+v", l.now, l.approved, l.window, verdict)
	}
	if retry := verdict.RetryAfter; passes != (retry == 0) || retry < 0 || retry > time.Minute {
		t.Fatalf("at %s it is asked again after %s: %+v", l.now, retry, verdict)
	}
	status := l.gate.Status
	if passes {
		status.Passed = gate.ComputePassed(&l.gate, prod, step, false, always, l.now)
	}
	status.Approvals = gate.ComputeExisting(status.Approvals, always, l.now)
	status, _ = gate.ComputeWaiting(status, prod, step, verdict.Of(l.gate.Name), always, l.now)
	l.gate.Status = status
	if waits := len(status.Waiting) == 1; waits == passes {
		t.Fatalf("it passes: %t, and waits: %+v", passes, status.Waiting)
	}
	if passes {
		l.since, l.approved, l.minor = time.Time{}, false, l.minor+1
		return
	}
	if since := status.Waiting[0].Since.Time; l.since.IsZero() {
		l.since = since
	} else if !since.Equal(l.since) {
		t.Fatalf("it waits since %s, and before it waited since %s", since, l.since)
	}
}

// TestClockJumps holds that a gate lets pass what was approved, in its windows, and nothing else, by a
// clock that jumps forward and back and stands still between any two events of a chain. A step that is
// held is asked about again within a minute, so a jump costs no more.
func TestClockJumps(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := &life{gate: newGate(nil), now: now, minor: 31}
		l.gate.Spec.Requires.Windows = []v1alpha1.GateWindow{{
			TimeZone: "Europe/Berlin", From: "08:00", To: rapid.SampledFrom([]string{"09:00", "20:00"}).Draw(t, "to"),
		}}
		var err error
		if l.window, err = gate.ParseWindow(l.gate.Spec.Requires.Windows[0]); err != nil {
			t.Fatal(err)
		}
		jumps := []time.Duration{0, time.Second, time.Minute, time.Hour, 12 * time.Hour, -12 * time.Hour}
		t.Repeat(map[string]func(*rapid.T){
			"jump": func(t *rapid.T) { l.now = l.now.Add(rapid.SampledFrom(jumps).Draw(t, "jump")) },
			"ask":  l.ask,
			"approve": func(*rapid.T) {
				l.gate.Status.Approvals = gate.ComputeApproved(&l.gate, prod, l.step(), "jane", l.now)
				l.approved = true
			},
			"revoke": func(*rapid.T) {
				l.gate.Status.Approvals = gate.ComputeRevoked(l.gate.Status.Approvals, prod, l.step())
				l.approved = false
			},
		})
	})
}

// TestApprovalAfterClockWentBack: the approvals that a full gate has from a clock that was ahead do not
// push out those that are given after it was set right.
func TestApprovalAfterClockWentBack(t *testing.T) {
	t.Parallel()
	g := newGate(nil)
	for minor := range 64 {
		g.Status.Approvals = gate.ComputeApproved(&g, prod, stepTo(minor), "jane", now.Add(12*time.Hour))
	}
	g.Status.Approvals = gate.ComputeApproved(&g, prod, stepTo(64), "jane", now)
	if _, counts := gate.FindApproval(&g, prod, stepTo(64)); !counts || len(g.Status.Approvals) != 64 {
		t.Errorf("of %d approvals the newest one is not there", len(g.Status.Approvals))
	}
	// A Cluster that the cache does not know yet keeps an approval that a clock gave which is a bit ahead.
	unknown := func(string, string) bool { return false }
	fresh := newGate(nil)
	g.Status.Approvals = gate.ComputeApproved(&fresh, prod, stepTo(1), "jane", now)
	for _, ahead := range []time.Duration{30 * time.Second, -30 * time.Second, time.Hour, -time.Hour} {
		left := gate.ComputeExisting(slices.Clone(g.Status.Approvals), unknown, now.Add(-ahead))
		if kept, want := len(left) == 1, ahead.Abs() < time.Minute; kept != want {
			t.Errorf("an approval %s ahead stays: %t, want %t", ahead, kept, want)
		}
	}
}

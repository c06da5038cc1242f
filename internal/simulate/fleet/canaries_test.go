package fleet

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/pool"
)

// remediating is a pool whose updates all fail, and whose failed machines are replaced.
func remediating(attend Distribution, guarded bool) Config {
	replace := Timings{Create: FixedDuration(time.Minute), Delete: FixedDuration(time.Minute)}
	u := Update{
		InPlace: true, Guarded: guarded, PolicyName: "keep",
		Steps:  []inplace.Step{{Updater: "u", SetsVersion: true}},
		Policy: policy.Policy{MaxAttempts: 1, AttemptTimeout: time.Hour, Remediate: true},
		Limits: &pool.Limits{Canary: intstr.FromInt32(1)},
	}
	u.Timings = replace
	u.Timings.Updaters = map[string]Distribution{"u": FixedDuration(time.Minute)}
	u.Timings.UpdateFails, u.Timings.Attend = 1, attend
	return Config{Begin: epoch, Verify: true, Clusters: []Cluster{{
		Name: "c", Target: v(30), Source: offer(29, 30),
		ControlPlane: ControlPlane{Version: v(29), Replicas: 1, Update: Update{Timings: replace}},
		Pools:        []Pool{{Name: "p", Version: v(29), Replicas: 6, MaxUnavailable: 3, Update: u}},
	}}}
}

// TestFailedCanaryHolds: a canary that fails and is remediated is the only machine that is touched,
// until a person asks for a retry. Then one more is.
func TestFailedCanaryHolds(t *testing.T) {
	t.Parallel()
	for _, guarded := range []bool{false, true} {
		r := mustRun(t, remediating(Distribution{}, guarded), 1)
		if g := r.Groups[1]; r.Outcome != Stuck || g.GaveUp != 1 || r.Violation != nil {
			t.Errorf("guarded %v: %s, %d failed: %+v", guarded, r.Outcome, g.GaveUp, r.Violation)
		}
		r = mustRun(t, remediating(FixedDuration(time.Hour), guarded), 1)
		if g := r.Groups[1]; r.Outcome != Completed || g.GaveUp != 6 || r.Violation != nil {
			t.Errorf("guarded %v: with a person, %s, %d failed: %+v", guarded, r.Outcome, g.GaveUp, r.Violation)
		}
		if least := 5 * time.Hour; r.Duration < least {
			t.Errorf("guarded %v: with a person it takes %s, want at least %s", guarded, r.Duration, least)
		}
	}
}

// TestForgottenCanary: the check finds an engine that forgets a canary with its machine.
func TestForgottenCanary(t *testing.T) {
	t.Parallel()
	for _, guarded := range []bool{false, true} {
		c := remediating(Distribution{}, guarded)
		c.Engine.Canary = func(pool.Limits, pool.Progress) bool { return false }
		r, err := Simulate(t.Context(), c, 1)
		if want := "is updated after a canary failed"; err != nil || r.Violation == nil ||
			!strings.Contains(r.Violation.Problem, want) {
			t.Errorf("guarded %v: %+v, %v, want %q", guarded, r.Violation, err, want)
		}
	}
}

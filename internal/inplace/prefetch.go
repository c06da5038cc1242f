package inplace

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/windlass-dev/windlass/pkg/version"
)

const (
	// prefetchPoll is when a machine that is being prepared is asked about again, at the soonest.
	prefetchPoll = 10 * time.Second
	// prefetchPause is when a machine that was not prepared is asked about again. Each further time
	// doubles it, up to prefetchLongest.
	prefetchPause, prefetchLongest = time.Minute, time.Hour
	// prefetchSilence is how many unknown answers one after another end no attempt: a connection
	// may have to be made first.
	prefetchSilence = 2
)

// Ahead is a machine that is to be prepared for a version before its update may begin.
type Ahead struct {
	Name string
	To   version.Version
}

// Prefetch is what is known of the preparation of a machine. The zero value knows nothing. It is
// memory of one process and may be lost: then the machine is asked about again, and what is on it
// already is found.
type Prefetch struct {
	// To is the version that the machine is prepared for.
	To version.Version
	// Operation names the attempt to its updater, and Began is when it began; both are empty
	// between two.
	Operation string
	Began     time.Time
	// Prepared says that nothing is left to be brought to the machine.
	Prepared bool
	// Problem says why the last attempt has ended without that; empty while one is under way.
	Problem string
	// Silence counts the unknown answers of an attempt since the last other one.
	Silence int
	// Failures counts the attempts that ended with a problem, one after another.
	Failures int
	// Asked is when the machine was asked about last, and Pause how long it is left alone after
	// that.
	Asked time.Time
	Pause time.Duration
}

// isDue reports whether the machine may be asked about.
func (p Prefetch) isDue(now time.Time) bool {
	passed := now.Sub(p.Asked)
	return !p.Prepared && (passed < 0 || passed >= p.Pause)
}

// DecidePrefetch returns about which machines updaters are asked now: those that are being
// prepared, then those with the fewest problems so far, each by name. At most most machines are
// prepared at once; one that rests after a problem is none of them. known is what is known of
// machines, by name; what is known of another version does not count.
func DecidePrefetch(machines []Ahead, known map[string]Prefetch, most int, now time.Time) []Ahead {
	var running, others []Ahead
	for _, m := range machines {
		p := known[m.Name]
		switch {
		case p.To != m.To:
			others = append(others, m)
		case p.Operation != "":
			most--
			if p.isDue(now) {
				running = append(running, m)
			}
		case p.isDue(now):
			others = append(others, m)
		}
	}
	byName := func(a, b Ahead) int { return strings.Compare(a.Name, b.Name) }
	// A machine that was never asked about goes before one that has failed: that one may fail
	// again.
	slices.SortFunc(others, func(a, b Ahead) int {
		failures := func(m Ahead) int {
			if p := known[m.Name]; p.To == m.To {
				return p.Failures
			}
			return 0
		}
		return cmp.Or(cmp.Compare(failures(a), failures(b)), byName(a, b))
	})
	slices.SortFunc(running, byName)
	return append(running, others[:min(max(most, 0), len(others))]...)
}

// Begin returns what is known of a machine when it is asked about. An attempt that has not ended
// continues under its operation.
func (p Prefetch) Begin(to version.Version, freshID string, now time.Time) Prefetch {
	if p.To != to {
		p = Prefetch{To: to}
	}
	if p.Operation == "" {
		p.Operation, p.Began = freshID, now
	}
	if p.Began.After(now) {
		p.Began = now // The clock was set back.
	}
	p.Asked = now
	return p
}

// Answered takes an updater's answer. An attempt that is not prepared after timeout ends with a
// problem.
func (p Prefetch) Answered(r Readiness, timeout time.Duration, now time.Time) Prefetch {
	problem := cmp.Or(r.Refused, r.Unknown)
	if r.Preparing != "" && now.Sub(p.Began) > timeout {
		problem = "it is not prepared after " + timeout.String() + ": " + r.Preparing
	}
	switch {
	case r.Unknown != "" && p.Silence < prefetchSilence:
		p.Silence++
		p.Pause = max(r.RetryAfter, prefetchPoll)
	case problem != "":
		p.Problem, p.Operation, p.Began, p.Silence = problem, "", time.Time{}, 0
		p.Pause = min(prefetchPause<<min(p.Failures, 10), prefetchLongest)
		p.Failures++
	case r.Preparing != "":
		p.Problem, p.Silence, p.Pause = "", 0, max(r.RetryAfter, prefetchPoll)
	default:
		p = Prefetch{To: p.To, Prepared: true, Asked: p.Asked}
	}
	return p
}

// Postponed returns what is known of a machine about which nobody was asked, because it is paused,
// or because something else changes it.
func (p Prefetch) Postponed() Prefetch {
	p.Operation, p.Began, p.Silence, p.Pause = "", time.Time{}, 0, prefetchPause
	return p
}

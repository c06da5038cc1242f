package inplace_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/record"
)

const (
	// longestBackoff is how long a failed attempt is waited for at most.
	longestBackoff = 5 * time.Minute
	// reaction is how late the end of a time is seen.
	reaction = 15 * time.Second
)

// jumps are what a clock may do in the middle of an update. A clock that stands still for a while and
// then continues has jumped by nothing.
var jumps = []time.Duration{-12 * time.Hour, 0, 12 * time.Hour}

// jump sets the clock of the process. What the world itself knows is not recorded by that clock: it
// keeps its age. After a jump forward the soak may have been shorter than it should be, which nobody
// can know.
func (s *state) jump(by time.Duration) {
	s.now, s.clock = s.now.Add(by), record.NewClock()
	if by > 0 {
		return
	}
	for _, known := range []*time.Time{&s.goodSince, &s.unseen, &s.ledger.startedAt, &s.ledger.lastEnd} {
		if !known.IsZero() {
			*known = known.Add(by)
		}
	}
}

// waits lets the time pass that a call of the hook asks for, and returns it.
func (s *state) waits() time.Duration {
	a, ok := s.reply.(inplace.Wait)
	s.crash()
	if !ok {
		a.After = time.Second
	}
	a.After = min(a.After, inplace.LongestWait)
	s.now = s.now.Add(a.After)
	return a.After
}

// checkJump says what is wrong after a jump of the clock in a state, by a clock that does not jump.
func checkJump(s state, by time.Duration) string {
	s.jump(by)
	// As long as the clock stands still, nothing ends by its time.
	for range 2 {
		if s.over == "" {
			s.callHook(false, inplace.Answer{Outcome: inplace.InProgress})
			s.crash()
		}
	}
	stuck := s
	if wrong := stuck.neverEnds(); wrong != "" {
		return fmt.Sprintf("the clock has jumped by %s: %s", by, wrong)
	}
	if wrong := s.ends(); wrong != "" {
		return fmt.Sprintf("the clock has jumped by %s: %s", by, wrong)
	}
	return s.violation
}

// neverEnds lets the updater work, or the node not show it, from now on: the phase ends by its time.
func (s *state) neverEnds() string {
	if s.saved == nil || s.over != "" {
		return ""
	}
	phase, operation := s.saved.Phase, s.saved.Operation
	most := s.policy.AttemptTimeout + reaction
	switch phase {
	case inplace.BackingOff:
		most = longestBackoff + reaction
	case inplace.Soaking:
		most += s.policy.Soak
	case inplace.Updating, inplace.Verifying:
	case inplace.Draining, inplace.Failed:
		return "" // A drain and a failure wait for people.
	}
	for waited := time.Duration(0); s.saved != nil && s.saved.Phase == phase && s.saved.Operation == operation; {
		if waited > most {
			return fmt.Sprintf("it is %s in operation %s for %s", phase, operation, waited)
		}
		s.callHook(false, inplace.Answer{Outcome: inplace.InProgress})
		if _, refused := s.reply.(inplace.Refuse); refused || s.violation != "" || s.node.Unknown != "" {
			break
		}
		waited += s.waits()
	}
	return s.violation
}

// ends lets everything behave from now on: the update ends after its backoff and its soak.
func (s *state) ends() string {
	most := longestBackoff + 2*s.policy.AttemptTimeout + s.policy.Soak + reaction
	for waited := time.Duration(0); s.over == ""; {
		behave(s)
		s.callHook(true, inplace.Answer{Outcome: inplace.Finishes})
		if s.violation != "" {
			return s.violation
		}
		if refused, ok := s.reply.(inplace.Refuse); ok {
			// A person does what the message says.
			s.retry = refused.Reason == inplace.ReasonFailed
			s.abandon, s.moved = !s.retry, !s.retry || s.moved
		}
		if waited += s.waits(); waited > most {
			return fmt.Sprintf("it has not ended after %s: %s", waited, appendProgress(nil, s.saved, epoch))
		}
	}
	return ""
}

// TestClockJumps has the clock jump, or stand still, in each state of an update: no attempt then takes
// longer than its own time, and the update ends.
func TestClockJumps(t *testing.T) {
	t.Parallel()
	limit := 800
	if os.Getenv("WINDLASS_LONG") == "1" {
		limit = 40_000
	}
	for name, tt := range explorations {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(sound(), tt.plan, tt.attempts, tt.soak)
			s.budget = tt.budget
			visited, _, violation := exploreEach(s, limit, func(s state) string {
				for _, by := range jumps {
					if wrong := checkJump(s, by); wrong != "" {
						return wrong
					}
				}
				return ""
			})
			if violation != "" {
				t.Fatal(violation)
			}
			if visited < 100 {
				t.Errorf("only %d states: the model does not move", visited)
			}
		})
	}
}

package inplace

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/windlass-dev/windlass/internal/policy"
)

const (
	// PollQueue is when a machine that has not started asks for its turn again, if few others wait.
	PollQueue = 5 * time.Second
	// LongestQueue bounds when a machine asks for its turn again, however many others wait.
	LongestQueue = 5 * time.Minute
)

// Line spaces out the requests of machines that wait for the same slots, so that their number does
// not grow with that of the machines: each machine asks after all that asked before it. With n slots,
// n machines ask in each PollQueue, so a free slot waits as long as if n machines waited. The zero
// Line is empty.
type Line struct{ last time.Time }

// Next returns after which time a machine that asked in vain asks again. slots is how many the
// machines wait for, at least 1. The result is from PollQueue to LongestQueue, also where the clock was
// set back: the Line begins anew then.
func (l *Line) Next(now time.Time, slots int) time.Duration {
	if l.last.Sub(now) > LongestQueue {
		l.last = now
	}
	next := l.last.Add(PollQueue / time.Duration(slots))
	if soonest := now.Add(PollQueue); next.Before(soonest) {
		next = soonest
	}
	if latest := now.Add(LongestQueue); next.After(latest) {
		next = latest
	}
	l.last = next
	return next.Sub(now)
}

// Others are the machines that may keep a machine from beginning.
type Others struct {
	// InFlight is how many share Policy.MaxInFlight with it and are being updated.
	InFlight int
	// Group is how many of its own group are being updated and have not failed finally. It is not
	// counted if Settled.
	Group int
	// First names one of Group; empty if none is known by name.
	First string
	// Settled says that a machine of its group has finished or finally failed the same update.
	Settled bool
}

// Queued returns the answer to a machine that must wait for others, and whether it must. Where many
// wait, a Line has it ask again later.
func Queued(p policy.Policy, o Others) (w Wait, waits bool) {
	w = Wait{After: PollQueue, Reason: ReasonQueued}
	switch {
	case p.MaxInFlight > 0 && o.InFlight >= int(p.MaxInFlight):
		w.Message = fmt.Sprintf(
			"not started: as many machines as maxInFlight allows (%d) are being updated", p.MaxInFlight)
	case p.Alone > 0 && !o.Settled && o.Group >= p.Alone:
		w.Message = fmt.Sprintf("not started: %s of the group is updated first; "+
			"the others begin when it is done or has failed finally (canary %d)",
			cmp.Or(o.First, "another machine"), p.Alone)
	default:
		return Wait{}, false
	}
	return w, true
}

// Free returns how many machines of a group may begin next to others, at least 1: the machine that
// asks has found a slot.
func Free(p policy.Policy, o Others) int {
	free := math.MaxInt
	if p.MaxInFlight > 0 {
		free = int(p.MaxInFlight) - o.InFlight
	}
	if p.Alone > 0 && !o.Settled {
		free = min(free, p.Alone-o.Group)
	}
	return max(free, 1)
}

// SettledTarget returns the target of the update that a machine has ended last: it has failed it
// finally, or else finished it; empty if it has ended none. The machine proves to its group what an
// update to that target leads to.
func SettledTarget(p *Progress, last *Summary) string {
	switch {
	case p != nil && p.Phase == Failed:
		return p.Target
	case last != nil:
		return last.Target
	}
	return ""
}

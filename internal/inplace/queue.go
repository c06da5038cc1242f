package inplace

import (
	"fmt"
	"time"
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
// machines wait for, at least 1.
func (l *Line) Next(now time.Time, slots int) time.Duration {
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

// Queued returns the answer to a machine that finds no slot. Where many wait, a Line has it ask again later.
func Queued(p Policy) Wait {
	return Wait{
		After: PollQueue, Reason: ReasonQueued,
		Message: fmt.Sprintf("not started: as many machines as maxInFlight allows (%d) are being updated", p.MaxInFlight),
	}
}

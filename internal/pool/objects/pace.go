package objects

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/windlass-dev/windlass/internal/keyed"
)

// Pace limits how often the status of an object is written. The zero value limits nothing. A
// process that has just started writes at once. It is safe for concurrent use.
type Pace struct {
	// Least is the least time between two writes, and Interval that between two writes of which
	// nobody acts on the second one. Interval is not shorter; 0 means that nothing waits.
	Least, Interval time.Duration
	written         keyed.Memory[types.UID, time.Time]
	// joined has the first status since the last write that was left to the next reconcile.
	joined keyed.Memory[types.UID, time.Time]
}

// Wait returns how long a status has to wait; 0 means that it is due. passing tells that nobody
// acts on what has changed in it.
func (p *Pace) Wait(uid types.UID, passing bool, now time.Time) time.Duration {
	if p.Interval <= 0 {
		return 0
	}
	last, known := p.written.Get(uid, now)
	if !known {
		return 0
	}
	interval := p.Least
	if passing {
		interval = p.Interval
	}
	return max(0, interval-now.Sub(last))
}

// Join reports whether a status that the next reconcile changes again can be left to that one: for
// less than Least since the first one that was.
func (p *Pace) Join(uid types.UID, now time.Time) bool {
	if p.Interval <= 0 {
		return false
	}
	since, _ := p.joined.GetOrPut(uid, now, now, p.Interval)
	return now.Sub(since) < p.Least
}

// Wrote remembers that the status was written.
func (p *Pace) Wrote(uid types.UID, now time.Time) {
	if p.Interval > 0 {
		p.joined.Forget(uid)
		p.written.Put(uid, now, now, p.Interval)
	}
}

// Between is the least time between two reconciles of a small group whose Machines move.
const Between = 100 * time.Millisecond

// betweenPerMachine is how much each Machine of a group lengthens that time: a reconcile reads all
// of them.
const betweenPerMachine = 100 * time.Microsecond

// BetweenReconciles returns the least time between two reconciles of a group whose Machines move:
// Between and a bit for each Machine, at most the second that Cluster API leaves. The largest of
// replicas counts; nil is 0.
func BetweenReconciles(replicas ...*int32) time.Duration {
	machines := int32(0)
	for _, n := range replicas {
		if n != nil {
			machines = max(machines, *n)
		}
	}
	return min(Between+time.Duration(machines)*betweenPerMachine, time.Second)
}

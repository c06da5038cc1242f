package objects

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/windlass-dev/windlass/internal/keyed"
)

// Pace limits how often the status of an object is written while nobody acts on its changes. The
// zero value limits nothing. A process that has just started writes at once. It is safe for
// concurrent use.
type Pace struct {
	// Interval is the least time between two writes of which the second may wait; 0 means none.
	Interval time.Duration
	written  keyed.Memory[types.UID, time.Time]
}

// Wait returns how long a status that may wait has to; 0 means that it is due.
func (p *Pace) Wait(uid types.UID, now time.Time) time.Duration {
	if p.Interval <= 0 {
		return 0
	}
	last, known := p.written.Get(uid, now)
	if !known {
		return 0
	}
	return max(0, p.Interval-now.Sub(last))
}

// Wrote remembers that the status was written.
func (p *Pace) Wrote(uid types.UID, now time.Time) {
	if p.Interval > 0 {
		p.written.Put(uid, now, now, p.Interval)
	}
}

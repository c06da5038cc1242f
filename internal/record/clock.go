package record

import (
	"time"

	"github.com/windlass-dev/windlass/internal/keyed"
)

// Past returns a recorded time as it counts at the time now: a time after now counts as now. A zero
// time stays zero.
func Past(t, now time.Time) time.Time {
	if t.After(now) {
		return now
	}
	return t
}

// PastOf is Past for a time that need not be recorded: nil stays nil.
func PastOf(t *time.Time, now time.Time) *time.Time {
	if t == nil || !t.After(now) {
		return t
	}
	return &now
}

// Left returns how much is left at the time now of a wait that began at since: from 0 to lasts. A
// since after now counts as now.
func Left(since time.Time, lasts time.Duration, now time.Time) time.Duration {
	return max(lasts-now.Sub(Past(since, now)), 0)
}

// mostAhead bounds how many times of the future a Clock remembers. One that has read more forgets
// all of them, and what they count as begins again.
const mostAhead = 4096

// Clock reads times that others have recorded. It is Past, but what a time of the future counts as
// stays the same from its first reading on, so that a wait which begins with it ends. Records of one
// second share their reading. It is safe for concurrent use. A nil Clock remembers nothing.
type Clock struct {
	read keyed.Memory[int64, time.Time]
}

// NewClock returns a Clock that has read nothing.
func NewClock() *Clock {
	return &Clock{read: keyed.Memory[int64, time.Time]{Most: mostAhead}}
}

// Past returns what a recorded time counts as at the time now. It is not after now.
func (c *Clock) Past(t, now time.Time) time.Time {
	if c == nil {
		return Past(t, now)
	}
	key := t.UnixNano()
	if first, known := c.read.Get(key, now); known && !first.After(now) {
		return first
	}
	if t.After(now) {
		c.read.Put(key, now, now, keyed.Forever)
	}
	return Past(t, now)
}

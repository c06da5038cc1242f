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

const (
	// mostAhead bounds how many times of the future a Clock remembers for a namespace, and
	// mostNamespaces for how many namespaces it does. Beyond, it forgets all of that namespace, or all
	// namespaces, and what times that are still of the future count as begins again.
	mostAhead      = 64
	mostNamespaces = 1024
	// rememberedFor is how long a reading is remembered after its last use. Controllers read each object
	// again in less time.
	rememberedFor = 24 * time.Hour
)

// Clock reads times that others have recorded. It is Past, but what a time of the future counts as
// stays the same from its first reading on, so that a wait which begins with it ends. Times of one
// second that a namespace has recorded share their reading; no namespace changes what the times of
// another one count as, unless more than 1,024 have recorded times of the future within a day. It is
// safe for concurrent use. A nil Clock remembers nothing.
type Clock struct {
	namespaces keyed.Memory[string, *readings]
}

// readings have, by second, when a time of it was first read. It was of the future then.
type readings = keyed.Memory[int64, time.Time]

// NewClock returns a Clock that has read nothing.
func NewClock() *Clock {
	return &Clock{namespaces: keyed.Memory[string, *readings]{Most: mostNamespaces}}
}

// Past returns what a time counts as at the time now that an object of a namespace has recorded. It
// is neither after now nor after t.
func (c *Clock) Past(namespace string, t, now time.Time) time.Time {
	if c == nil {
		return Past(t, now)
	}
	read, known := c.namespaces.Get(namespace, now)
	first := now
	if known {
		// Nanoseconds overflow after some hundred years.
		if found, kept := read.Get(t.Unix(), now); kept && !found.After(now) {
			first = found
		}
	}
	if first.Equal(now) && !t.After(now) {
		return t
	}
	if !known {
		// Another caller may have put one meanwhile.
		read, _ = c.namespaces.GetOrPut(namespace, &readings{Most: mostAhead}, now, rememberedFor)
	}
	read.Put(t.Unix(), first, now, rememberedFor)
	c.namespaces.Put(namespace, read, now, rememberedFor)
	return Past(t, first)
}

package fleet

import (
	"cmp"
	"slices"
	"time"

	"github.com/windlass-dev/windlass/internal/core/inplace"
)

// waiter is a machine that waits for a slot. It asks for one in every interval, at a phase of its own.
type waiter struct {
	phase time.Duration
	id    int32
}

func (w waiter) compare(o waiter) int {
	return cmp.Or(cmp.Compare(w.phase, o.phase), cmp.Compare(w.id, o.id))
}

// waiters are all that wait, in the order of their phases. There may be tens of thousands, of whom one goes and another comes all the time: so they lie
// in stretches of the interval.
type waiters struct {
	stretches [128][]waiter
	n         int
}

func (w *waiters) stretch(phase time.Duration) int {
	return int(phase * time.Duration(len(w.stretches)) / inplace.PollQueue)
}

func (w *waiters) add(x waiter) {
	s := &w.stretches[w.stretch(x.phase)]
	at, _ := slices.BinarySearchFunc(*s, x, waiter.compare)
	*s = slices.Insert(*s, at, x)
	w.n++
}

// next takes the waiter whose phase comes first from a phase on, round and round. There is one.
func (w *waiters) next(phase time.Duration) waiter {
	first := w.stretch(phase)
	at, _ := slices.BinarySearchFunc(w.stretches[first], waiter{phase: phase, id: -1}, waiter.compare)
	for i := first; ; i, at = (i+1)%len(w.stretches), 0 {
		if s := w.stretches[i]; at < len(s) {
			w.n--
			if at == 0 {
				w.stretches[i] = s[1:] // Many have the same phase, and wait in line.
				return s[0]
			}
			x := s[at]
			w.stretches[i] = slices.Delete(s, at, at+1)
			return x
		}
	}
}

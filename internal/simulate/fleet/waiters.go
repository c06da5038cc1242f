package fleet

import "time"

// waiter is a machine that waits for a slot, and when it asks for one next.
type waiter struct {
	at time.Duration
	// late is how much later it asks than the engine said.
	late time.Duration
	id   int32
}

// latest bounds waiter.late. It is there to tell machines apart that the engine has ask at the same
// time as something else happens.
const latest = 100 * time.Microsecond

// waiters are all that wait, in the order in which they ask: who asks in vain goes to the end. There
// may be tens of thousands, and most of what they ask is in vain.
type waiters struct {
	// ring has a length that is a power of two.
	ring    []waiter
	head, n int
}

func (w *waiters) push(x waiter) {
	if w.n == len(w.ring) {
		grown := make([]waiter, max(16, 2*len(w.ring)))
		copied := copy(grown, w.ring[w.head:])
		copy(grown[copied:], w.ring[:w.head])
		w.ring, w.head = grown, 0
	}
	w.ring[(w.head+w.n)&(len(w.ring)-1)] = x
	w.n++
}

// first returns the waiter that asks next. There is one.
func (w *waiters) first() waiter { return w.ring[w.head] }

// take removes the first waiter for which isNext holds. There is one.
func (w *waiters) take(isNext func(waiter) bool) waiter {
	at := func(i int) *waiter { return &w.ring[(w.head+i)&(len(w.ring)-1)] }
	i := 0
	for !isNext(*at(i)) {
		i++
	}
	taken := *at(i)
	for ; i > 0; i-- {
		*at(i) = *at(i - 1)
	}
	w.pop()
	return taken
}

func (w *waiters) pop() waiter {
	x := w.ring[w.head]
	w.head = (w.head + 1) & (len(w.ring) - 1)
	w.n--
	return x
}

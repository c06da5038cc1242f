// Package slots keeps machines from beginning beyond a policy's maxInFlight, where what is known of the others comes from a cache that lags
// behind what this process has just recorded.
package slots

import (
	"sync"
	"time"
)

// staleAfter is how long a begin or an end that the cache never showed is remembered. Caches lag by seconds; a machine that
// was deleted right after its begin is never shown.
const staleAfter = 5 * time.Minute

// Slots remember begins and ends, by scope: what shares one maxInFlight. K identifies machines. Use New. Safe for concurrent use.
type Slots[K comparable] struct {
	mu     sync.Mutex
	scopes map[string]*scope[K]
}

// Seen is which machines of a scope the cache shows in flight.
type Seen[K comparable] struct {
	// Noted are those whose begins and ends are noted here, Others those of which nothing is. Neither is changed or kept.
	Noted, Others map[K]struct{}
}

type scope[K comparable] struct {
	mu sync.Mutex
	// begun and ended are machines whose begin or end this process has recorded, and when.
	begun, ended map[K]time.Time
}

// New returns Slots that remember nothing.
func New[K comparable]() *Slots[K] { return &Slots[K]{scopes: map[string]*scope[K]{}} }

func (s *Slots[K]) scope(name string) *scope[K] {
	s.mu.Lock()
	defer s.mu.Unlock()
	found, ok := s.scopes[name]
	if !ok {
		found = &scope[K]{begun: map[K]time.Time{}, ended: map[K]time.Time{}}
		s.scopes[name] = found
	}
	return found
}

// Begin calls f with the number of machines of the scope in flight other than key. Until f returns nobody else in the scope
// begins. seen returns the machines that the cache shows in flight. f reports whether key has begun.
func (s *Slots[K]) Begin(scope string, key K, now time.Time, seen func() (Seen[K], error), f func(inFlight int) (bool, error)) error {
	c := s.scope(scope)
	c.mu.Lock()
	defer c.mu.Unlock()
	cached, err := seen()
	if err != nil {
		return err
	}
	began, err := f(c.count(key, now, cached))
	if began {
		delete(c.ended, key)
		c.begun[key] = now
	}
	return err
}

// count merges what the cache shows with what it does not show yet.
func (c *scope[K]) count(key K, now time.Time, cached Seen[K]) int {
	n := len(cached.Others)
	if _, itself := cached.Others[key]; itself {
		n--
	}
	for other := range cached.Noted {
		delete(c.begun, other)
		if _, over := c.ended[other]; !over && other != key {
			n++
		}
	}
	for other, at := range c.ended {
		if _, still := cached.Noted[other]; !still || now.Sub(at) > staleAfter {
			delete(c.ended, other)
		}
	}
	for other, at := range c.begun {
		switch {
		case now.Sub(at) > staleAfter:
			delete(c.begun, other)
		case other != key:
			n++
		}
	}
	return n
}

// End notes that a machine is no longer in flight.
func (s *Slots[K]) End(scope string, key K, now time.Time) {
	c := s.scope(scope)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.begun, key)
	c.ended[key] = now
}

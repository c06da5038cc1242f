package update

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// staleAfter is how long a begin or an end that the cache never showed is remembered. Caches lag by seconds; a Machine that
// was deleted right after its begin is never shown.
const staleAfter = 5 * time.Minute

// slots keep machines from beginning beyond a policy's maxInFlight. The cache of Machines may lag behind what this process
// has just recorded; slots remember that in between, for each scope (a policy in a cluster).
type slots struct {
	mu     sync.Mutex
	scopes map[string]*scopeSlots
}

type scopeSlots struct {
	mu sync.Mutex
	// begun and ended are Machines whose begin or end this process has recorded, and when.
	begun, ended map[types.UID]time.Time
}

func newSlots() *slots { return &slots{scopes: map[string]*scopeSlots{}} }

func (s *slots) scope(name string) *scopeSlots {
	s.mu.Lock()
	defer s.mu.Unlock()
	found, ok := s.scopes[name]
	if !ok {
		found = &scopeSlots{begun: map[types.UID]time.Time{}, ended: map[types.UID]time.Time{}}
		s.scopes[name] = found
	}
	return found
}

// begin calls f with the number of machines of the scope in flight other than uid. Until f returns nobody else in the scope
// begins. seen returns the machines that the cache shows in flight. f reports whether uid has begun.
func (s *slots) begin(scope string, uid types.UID, now time.Time, seen func() (inFlight, error), f func(inFlight int) (bool, error)) error {
	c := s.scope(scope)
	c.mu.Lock()
	defer c.mu.Unlock()
	cached, err := seen()
	if err != nil {
		return err
	}
	began, err := f(c.count(uid, now, cached))
	if began {
		delete(c.ended, uid)
		c.begun[uid] = now
	}
	return err
}

// count merges what the cache shows with what it does not show yet.
func (c *scopeSlots) count(uid types.UID, now time.Time, cached inFlight) int {
	n := len(cached.upgrades)
	if _, itself := cached.upgrades[uid]; itself {
		n--
	}
	for other := range cached.updates {
		delete(c.begun, other)
		if _, over := c.ended[other]; !over && other != uid {
			n++
		}
	}
	for other, at := range c.ended {
		if _, still := cached.updates[other]; !still || now.Sub(at) > staleAfter {
			delete(c.ended, other)
		}
	}
	for other, at := range c.begun {
		switch {
		case now.Sub(at) > staleAfter:
			delete(c.begun, other)
		case other != uid:
			n++
		}
	}
	return n
}

// end notes that a machine is no longer in flight.
func (s *slots) end(scope string, uid types.UID, now time.Time) {
	c := s.scope(scope)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.begun, uid)
	c.ended[uid] = now
}

package inplace

import (
	"maps"
	"sync"
	"time"

	"github.com/windlass-dev/windlass/internal/record"
)

// staleAfter is how long a begin or an end that the cache never showed is remembered. Caches lag by seconds; a machine that
// was deleted right after its begin is never shown.
const staleAfter = 5 * time.Minute

// InFlight remembers the begins and ends of updates, by scope: what shares one maxInFlight. K identifies
// machines. NewInFlight makes one. It is safe for concurrent use. A scope in which nothing has begun or
// ended for staleAfter is forgotten. The clock may be set back: a time after now counts as now, and no
// machine is told to wait longer than LongestQueue.
type InFlight[K comparable] struct {
	mu     sync.Mutex
	scopes map[string]*scope[K]
	// swept is when idle scopes were last looked for.
	swept time.Time
}

// Seen is which machines of a scope the cache shows in flight.
type Seen[K comparable] struct {
	// Noted are those whose begins and ends are noted here, with the id of the update that the cache shows; empty where that cannot be told. Others are
	// those of which nothing is noted. Neither is changed or kept.
	Noted  map[K]string
	Others map[K]struct{}
}

type scope[K comparable] struct {
	// users counts the calls that hold the scope or wait for it, and used is when the last one came.
	// InFlight.mu guards both.
	users int
	used  time.Time
	mu    sync.Mutex
	// begun and ended are the updates whose begin or end this process has recorded.
	begun, ended map[K]note
	// queued are the machines that found no slot. line spaces out when they ask again.
	queued map[K]place
	line   Line
	// queueSwept is when machines that did not ask again were last looked for.
	queueSwept time.Time
}

// note tells one update of a machine from another: a machine may begin its next one while the cache still shows the last.
type note struct {
	id string
	at time.Time
}

// place is a machine's place in the line.
type place struct {
	// request identifies the request that found no slot, and asks is when the machine asks again.
	request string
	asks    time.Time
}

// isStale reports whether the machine did not ask again, or got its place by a clock that was ahead.
func (p place) isStale(now time.Time) bool {
	return now.Sub(p.asks) > staleAfter || p.asks.Sub(now) > LongestQueue
}

// NewInFlight returns an InFlight that remembers nothing.
func NewInFlight[K comparable]() *InFlight[K] { return &InFlight[K]{scopes: map[string]*scope[K]{}} }

// hold returns a scope, locked, and the function that lets go of it.
func (s *InFlight[K]) hold(name string, now time.Time) (found *scope[K], release func()) {
	s.mu.Lock()
	s.sweep(now)
	found, ok := s.scopes[name]
	if !ok {
		found = &scope[K]{begun: map[K]note{}, ended: map[K]note{}, queued: map[K]place{}}
		s.scopes[name] = found
	}
	found.users++
	found.used = now
	s.mu.Unlock()
	found.mu.Lock()
	return found, func() {
		found.mu.Unlock()
		s.mu.Lock()
		defer s.mu.Unlock()
		found.users--
	}
}

// sweep forgets the scopes that nobody uses and whose notes are all stale. The caller holds mu.
func (s *InFlight[K]) sweep(now time.Time) {
	if s.swept = record.Past(s.swept, now); now.Sub(s.swept) < staleAfter {
		return
	}
	s.swept = now
	maps.DeleteFunc(s.scopes, func(_ string, c *scope[K]) bool {
		c.used = record.Past(c.used, now)
		return c.users == 0 && now.Sub(c.used) > staleAfter
	})
}

// Begin calls f with the number of machines of the scope in flight other than key. Until f returns nobody else in the scope
// begins. seen returns the machines that the cache shows in flight. f reports whether the update id of key has begun.
func (s *InFlight[K]) Begin(scope string, key K, id string, now time.Time, seen func() (Seen[K], error), f func(inFlight int) (bool, error)) error {
	c, release := s.hold(scope, now)
	defer release()
	cached, err := seen()
	if err != nil {
		return err
	}
	began, err := f(c.count(key, now, cached))
	if began {
		c.begun[key] = note{id: id, at: now}
		delete(c.queued, key)
	}
	return err
}

// Queue notes that a request of key found none of so many slots free, and returns after which time key
// asks again. Until then key keeps its place in the line, so calls that come sooner delay nobody.
func (s *InFlight[K]) Queue(scope string, key K, request string, now time.Time, slots int) time.Duration {
	c, release := s.hold(scope, now)
	defer release()
	if c.queueSwept = record.Past(c.queueSwept, now); now.Sub(c.queueSwept) > staleAfter {
		c.queueSwept = now
		maps.DeleteFunc(c.queued, func(_ K, p place) bool { return p.isStale(now) })
	}
	p := c.queued[key]
	if !p.asks.After(now) || p.isStale(now) {
		p.asks = now.Add(c.line.Next(now, slots))
	}
	p.request = request
	c.queued[key] = p
	return max(p.asks.Sub(now), NextStep)
}

// IsQueued reports whether key found no slot when it asked last, with the same request.
func (s *InFlight[K]) IsQueued(scope string, key K, request string, now time.Time) bool {
	c, release := s.hold(scope, now)
	defer release()
	p, queued := c.queued[key]
	return queued && p.request == request
}

// count merges what the cache shows with what it does not show yet. It looks at what is noted only, which is little, and not at all machines.
func (c *scope[K]) count(key K, now time.Time, cached Seen[K]) int {
	c.prune(now, cached)
	n := len(cached.Noted) + len(cached.Others)
	for other := range c.ended {
		if _, again := c.begun[other]; !again {
			n-- // The cache shows it still.
		}
	}
	for other := range c.begun {
		if _, shown := cached.Noted[other]; !shown {
			n++
		}
	}
	if _, itself := cached.Others[key]; itself {
		n--
	}
	if _, begun := c.begun[key]; begun {
		return n - 1
	}
	_, shown := cached.Noted[key]
	if _, over := c.ended[key]; shown && !over {
		n--
	}
	return n
}

// prune forgets what the cache has caught up with. What is left of ended is what it still shows.
func (c *scope[K]) prune(now time.Time, cached Seen[K]) {
	forget(c.ended, now, func(other K, id string) bool {
		noted, shown := cached.Noted[other]
		return !shown || noted != id
	})
	forget(c.begun, now, func(other K, id string) bool {
		noted, shown := cached.Noted[other]
		return shown && noted == id
	})
}

// forget deletes the notes that are stale or that the cache has caught up with. A note from the future
// becomes one of now, so that it gets stale.
func forget[K comparable](notes map[K]note, now time.Time, caughtUp func(K, string) bool) {
	for key, n := range notes {
		n.at = record.Past(n.at, now)
		if notes[key] = n; caughtUp(key, n.id) || now.Sub(n.at) > staleAfter {
			delete(notes, key)
		}
	}
}

// End notes that an update of a machine is over.
func (s *InFlight[K]) End(scope string, key K, id string, now time.Time) {
	c, release := s.hold(scope, now)
	defer release()
	// Whatever update it was that had begun: an update that takes the place of another is not begun here.
	delete(c.begun, key)
	c.ended[key] = note{id: id, at: now}
}

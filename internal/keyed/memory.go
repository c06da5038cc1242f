package keyed

import (
	"maps"
	"math"
	"sync"
	"time"
)

// Forever is the lifetime of what is remembered until it is forgotten.
const Forever time.Duration = math.MaxInt64

// CacheLag is how long a process waits for its cache to show what the process has written. A cache that
// is behind for longer may show it never: an API server whose etcd was restored from a backup has older
// objects with lower resourceVersions for good.
const CacheLag = time.Minute

// Lags reports whether a cache may still be behind a write at a time. A write after now counts as
// none, because a clock that was set back would make the wait longer than CacheLag.
func Lags(written, now time.Time) bool {
	age := now.Sub(written)
	return age >= 0 && age < CacheLag
}

// Memory remembers a value for each key for a lifetime. It is safe for concurrent use, and its zero
// value is ready. Where all lifetimes are Forever, the time of a call does not matter.
//
// Values whose lifetime is over are never returned. They are dropped after as many puts as there were
// values, so a put is cheap, and about twice as many values are kept as live.
type Memory[K comparable, V any] struct {
	// Most is how many values are kept; 0 means any number. Where there is no room, all are forgotten.
	Most int

	mu     sync.Mutex
	values map[K]remembered[V]
	// putsLeft is the number of puts before those values are dropped whose lifetime is over.
	putsLeft int
}

type remembered[V any] struct {
	value V
	// until is zero for Forever.
	until time.Time
}

func (r remembered[V]) lives(now time.Time) bool { return r.until.IsZero() || now.Before(r.until) }

// Get returns what is remembered of a key.
func (m *Memory[K, V]) Get(key K, now time.Time) (value V, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.get(key, now)
}

// Put remembers a value in place of the one before. A lifetime that is not positive forgets the key.
func (m *Memory[K, V]) Put(key K, value V, now time.Time, lifetime time.Duration) {
	m.Edit(key, now, func(V, bool) (V, time.Duration, bool) { return value, lifetime, true })
}

// GetOrPut returns what is remembered of a key. If nothing is, it puts value and returns that.
func (m *Memory[K, V]) GetOrPut(key K, value V, now time.Time, lifetime time.Duration) (found V, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if found, known = m.get(key, now); !known {
		m.put(key, value, now, lifetime)
		found = value
	}
	return found, known
}

// Edit calls edit with what is remembered of a key, and puts what it returns if put is true. Nothing
// else happens to the key meanwhile; edit must not use the Memory.
func (m *Memory[K, V]) Edit(key K, now time.Time, edit func(value V, known bool) (next V, lifetime time.Duration, put bool)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if next, lifetime, put := edit(m.get(key, now)); put {
		m.put(key, next, now, lifetime)
	}
}

// Forget forgets a key, and reports whether anything was kept of it.
func (m *Memory[K, V]) Forget(key K) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, kept := m.values[key]
	delete(m.values, key)
	return kept
}

// ForgetFunc forgets all keys for which which returns true.
func (m *Memory[K, V]) ForgetFunc(which func(key K) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.values, func(key K, _ remembered[V]) bool { return which(key) })
}

// Len returns how many values are kept, with some whose lifetime is over.
func (m *Memory[K, V]) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.values)
}

func (m *Memory[K, V]) get(key K, now time.Time) (value V, known bool) {
	found, kept := m.values[key]
	if !kept || !found.lives(now) {
		return value, false
	}
	return found.value, true
}

func (m *Memory[K, V]) put(key K, value V, now time.Time, lifetime time.Duration) {
	if lifetime <= 0 {
		delete(m.values, key)
		return
	}
	if m.values == nil {
		m.values = map[K]remembered[V]{}
	}
	_, kept := m.values[key]
	m.makeRoom(now, !kept && m.Most > 0 && len(m.values) >= m.Most)
	r := remembered[V]{value: value}
	if lifetime != Forever {
		r.until = now.Add(lifetime)
	}
	m.values[key] = r
}

// makeRoom drops what is over, if that is due or the Memory is full. If it stays full, it drops all.
func (m *Memory[K, V]) makeRoom(now time.Time, full bool) {
	m.putsLeft--
	if full || m.putsLeft < 0 {
		maps.DeleteFunc(m.values, func(_ K, r remembered[V]) bool { return !r.lives(now) })
		m.putsLeft = len(m.values)
	}
	if full && len(m.values) >= m.Most {
		clear(m.values)
	}
}

package keyed

import "sync"

// Shared holds one value for each key, for as long as somebody uses it. It is safe for concurrent
// use, and its zero value is ready.
type Shared[K comparable, V any] struct {
	mu   sync.Mutex
	used map[K]*sharedValue[V]
}

type sharedValue[V any] struct {
	value V
	users int
}

// Use returns the value of a key, and creates it for the first user. Each user calls leave once; the
// value is dropped with the last one.
func (s *Shared[K, V]) Use(key K, create func() V) (value V, leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used == nil {
		s.used = map[K]*sharedValue[V]{}
	}
	found := s.used[key]
	if found == nil {
		found = &sharedValue[V]{value: create()}
		s.used[key] = found
	}
	found.users++
	return found.value, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if found.users--; found.users == 0 {
			delete(s.used, key)
		}
	}
}

// Len returns how many keys are in use.
func (s *Shared[K, V]) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.used)
}

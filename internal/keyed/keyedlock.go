package keyed

import (
	"context"
	"sync"
)

// Locks is a mutex for each key. The zero value is ready to use.
type Locks[K comparable] struct {
	mu   sync.Mutex
	held map[K]*heldLock
}

type heldLock struct {
	turn  chan struct{}
	users int
}

// TryLock returns the function that unlocks, and false where somebody holds the lock.
func (l *Locks[K]) TryLock(key K) (unlock func(), free bool) {
	h, leave := l.use(key)
	select {
	case h.turn <- struct{}{}:
		return func() { <-h.turn; leave() }, true
	default:
		leave()
		return nil, false
	}
}

// Lock returns the function that unlocks. It returns the context's error if the context ends first:
// the holder may wait for a node or an updater.
func (l *Locks[K]) Lock(ctx context.Context, key K) (unlock func(), err error) {
	h, leave := l.use(key)
	select {
	case h.turn <- struct{}{}:
		return func() { <-h.turn; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}

// use returns the lock of a key, which is kept until everybody who uses it has left.
func (l *Locks[K]) use(key K) (h *heldLock, leave func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held == nil {
		l.held = map[K]*heldLock{}
	}
	if h = l.held[key]; h == nil {
		h = &heldLock{turn: make(chan struct{}, 1)}
		l.held[key] = h
	}
	h.users++
	return h, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if h.users--; h.users == 0 {
			delete(l.held, key)
		}
	}
}

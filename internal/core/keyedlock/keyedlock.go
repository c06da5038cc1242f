// Package keyedlock serializes work per key, such as requests per Machine.
package keyedlock

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

// Lock returns the function that unlocks. It returns the context's error if the context ends first:
// the holder may wait for a node or an updater.
func (l *Locks[K]) Lock(ctx context.Context, key K) (unlock func(), err error) {
	l.mu.Lock()
	if l.held == nil {
		l.held = map[K]*heldLock{}
	}
	h := l.held[key]
	if h == nil {
		h = &heldLock{turn: make(chan struct{}, 1)}
		l.held[key] = h
	}
	h.users++
	l.mu.Unlock()
	leave := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if h.users--; h.users == 0 {
			delete(l.held, key)
		}
	}
	select {
	case h.turn <- struct{}{}:
		return func() { <-h.turn; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}

// Package turns has requests about one Machine served one after another.
package turns

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Locks is a mutex for each Machine. Waiting for one ends with the context, since who holds it may wait for a node. The zero value is ready to use.
type Locks struct {
	mu   sync.Mutex
	held map[types.NamespacedName]*heldLock
}

type heldLock struct {
	turn  chan struct{}
	users int
}

// Lock returns the function that unlocks, or the context's error.
func (l *Locks) Lock(ctx context.Context, key types.NamespacedName) (unlock func(), err error) {
	l.mu.Lock()
	if l.held == nil {
		l.held = map[types.NamespacedName]*heldLock{}
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

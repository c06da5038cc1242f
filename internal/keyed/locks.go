package keyed

import "context"

// Locks is a mutex for each key, such as one for requests about a Machine. The zero value is ready
// to use.
type Locks[K comparable] struct{ turns Shared[K, chan struct{}] }

func newTurn() chan struct{} { return make(chan struct{}, 1) }

// TryLock returns the function that unlocks, and false where somebody holds the lock.
func (l *Locks[K]) TryLock(key K) (unlock func(), free bool) {
	turn, leave := l.turns.Use(key, newTurn)
	select {
	case turn <- struct{}{}:
		return func() { <-turn; leave() }, true
	default:
		leave()
		return nil, false
	}
}

// Lock returns the function that unlocks. It returns the context's error if the context ends first:
// the holder may wait for a node or an updater.
func (l *Locks[K]) Lock(ctx context.Context, key K) (unlock func(), err error) {
	turn, leave := l.turns.Use(key, newTurn)
	select {
	case turn <- struct{}{}:
		return func() { <-turn; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}

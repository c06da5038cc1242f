package shares

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// Shares bound how much is in use at once: in total, and by one tenant. A tenant at its own bound
// waits in its own queue, and so never has more than that many places in the queue of all. Safe for
// concurrent use. Tenants that use nothing are forgotten.
type Shares struct {
	all  *semaphore.Weighted
	each int64

	mu      sync.Mutex
	tenants map[string]*share
}

type share struct {
	own *semaphore.Weighted
	// users counts who holds a share of the tenant or waits for one. Shares.mu guards it.
	users int
}

// New returns Shares of which total are in use at once, and each by one tenant.
func New(total, each int64) *Shares {
	return &Shares{all: semaphore.NewWeighted(total), each: each, tenants: map[string]*share{}}
}

// Acquire waits for a share of a tenant and returns what gives it back, which is called once. The
// only error is that of a context that ends first.
func (s *Shares) Acquire(ctx context.Context, tenant string) (release func(), err error) {
	found := s.use(tenant)
	if err := found.own.Acquire(ctx, 1); err != nil {
		s.leave(tenant, found)
		return nil, err //nolint:wrapcheck // the context's error; the caller says for what it waited
	}
	if err := s.all.Acquire(ctx, 1); err != nil {
		found.own.Release(1)
		s.leave(tenant, found)
		return nil, err //nolint:wrapcheck // the context's error; the caller says for what it waited
	}
	return s.giveBack(tenant, found), nil
}

// TryAcquire is Acquire for a caller that does not wait. It returns false if no share is free.
func (s *Shares) TryAcquire(tenant string) (release func(), ok bool) {
	found := s.use(tenant)
	if !found.own.TryAcquire(1) {
		s.leave(tenant, found)
		return nil, false
	}
	if !s.all.TryAcquire(1) {
		found.own.Release(1)
		s.leave(tenant, found)
		return nil, false
	}
	return s.giveBack(tenant, found), true
}

// giveBack returns what ends the use of a share that a tenant has.
func (s *Shares) giveBack(tenant string, found *share) func() {
	return func() {
		s.all.Release(1)
		found.own.Release(1)
		s.leave(tenant, found)
	}
}

func (s *Shares) use(tenant string) *share {
	s.mu.Lock()
	defer s.mu.Unlock()
	found, ok := s.tenants[tenant]
	if !ok {
		found = &share{own: semaphore.NewWeighted(s.each)}
		s.tenants[tenant] = found
	}
	found.users++
	return found
}

func (s *Shares) leave(tenant string, found *share) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if found.users--; found.users == 0 {
		delete(s.tenants, tenant)
	}
}

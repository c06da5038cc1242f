package shares

import (
	"context"

	"golang.org/x/sync/semaphore"

	"github.com/windlass-dev/windlass/internal/keyed"
)

// Shares bound how much is in use at once: in total, and by one tenant. A tenant at its own bound
// waits in its own queue, and so never has more than that many places in the queue of all. Safe for
// concurrent use. Tenants that use nothing are forgotten.
type Shares struct {
	all  *semaphore.Weighted
	each int64

	// tenants are those of which somebody holds a share or waits for one.
	tenants keyed.Shared[string, *semaphore.Weighted]
}

// New returns Shares of which total are in use at once, and each by one tenant.
func New(total, each int64) *Shares {
	return &Shares{all: semaphore.NewWeighted(total), each: each}
}

func (s *Shares) newTenant() *semaphore.Weighted { return semaphore.NewWeighted(s.each) }

// Acquire waits for a share of a tenant and returns what gives it back, which is called once. The
// only error is that of a context that ends first.
func (s *Shares) Acquire(ctx context.Context, tenant string) (release func(), err error) {
	own, leave := s.tenants.Use(tenant, s.newTenant)
	if err := own.Acquire(ctx, 1); err != nil {
		leave()
		return nil, err //nolint:wrapcheck // the context's error; the caller says for what it waited
	}
	if err := s.all.Acquire(ctx, 1); err != nil {
		own.Release(1)
		leave()
		return nil, err //nolint:wrapcheck // the context's error; the caller says for what it waited
	}
	return s.giveBack(own, leave), nil
}

// TryAcquire is Acquire for a caller that does not wait. It returns false if no share is free.
func (s *Shares) TryAcquire(tenant string) (release func(), ok bool) {
	own, leave := s.tenants.Use(tenant, s.newTenant)
	if !own.TryAcquire(1) {
		leave()
		return nil, false
	}
	if !s.all.TryAcquire(1) {
		own.Release(1)
		leave()
		return nil, false
	}
	return s.giveBack(own, leave), true
}

// giveBack returns what ends the use of a share that a tenant has.
func (s *Shares) giveBack(own *semaphore.Weighted, leave func()) func() {
	return func() {
		s.all.Release(1)
		own.Release(1)
		leave()
	}
}

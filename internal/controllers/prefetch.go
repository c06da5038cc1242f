package controllers

import "context"

// Prefetching prepares machines whose update may not begin yet. *engine.Engine implements it.
type Prefetching interface {
	Prefetch(ctx context.Context) error
}

// Prefetcher has machines prepared again and again. It is a manager.Runnable that runs on the
// leader only. It is apart from UpdateSweeper, because hosts may answer slowly, and updates must
// not wait for them.
type Prefetcher struct {
	Prefetching Prefetching
	// Serves reports whether no other process prepares machines; nil means that none does.
	Serves func(ctx context.Context) bool
}

// Start runs until ctx is cancelled. What fails is tried again, and logged once per change.
func (p *Prefetcher) Start(ctx context.Context) error {
	return repeat(ctx, "prefetch", "Preparing machines for their next version", p.prefetch)
}

func (p *Prefetcher) prefetch(ctx context.Context) error {
	if p.Serves != nil && !p.Serves(ctx) {
		return nil
	}
	return p.Prefetching.Prefetch(ctx) //nolint:wrapcheck // It says what it could not list.
}

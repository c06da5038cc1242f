package cli

import (
	"context"
	"time"
)

// Clock is the time, for tests to replace.
type Clock struct {
	Now   func() time.Time
	After func(time.Duration) <-chan time.Time
}

// SystemClock returns the time of this machine.
func SystemClock() Clock { return Clock{Now: time.Now, After: time.After} }

// Limit returns a context that ends with cause when a time has passed; 0 is no limit.
func (c Clock) Limit(
	ctx context.Context, timeout time.Duration, cause error,
) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	if timeout > 0 {
		over := c.After(timeout)
		go func() {
			select {
			case <-over:
				cancel(cause)
			case <-ctx.Done():
			}
		}()
	}
	return ctx, func() { cancel(nil) }
}

package fence_test

import (
	"testing"
	"time"

	"github.com/windlass-dev/windlass/internal/engine/fence"
)

// TestBound: an effect ends within 12 s of when its object was confirmed.
func TestBound(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	now := at.Add(2 * time.Second)
	c := fence.Since(at, func() time.Time { return now })
	for _, want := range []time.Duration{10 * time.Second, 12 * time.Second} {
		began := time.Now()
		ctx, cancel := c.Bound(t.Context())
		t.Cleanup(cancel)
		deadline, ok := ctx.Deadline()
		if left := deadline.Sub(began); !ok || left < want || left > want+5*time.Second {
			t.Errorf("the context ends after %s, want %s", left, want)
		}
		c.Renew()
	}
}

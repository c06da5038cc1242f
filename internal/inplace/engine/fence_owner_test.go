package engine

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestBound: an effect ends within 9 s of when its object was confirmed.
func TestBound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := confirmedSince(time.Now().Add(-2*time.Second), time.Now)
		for _, want := range []time.Duration{7 * time.Second, 9 * time.Second} {
			ctx, cancel := c.Bound(t.Context())
			deadline, _ := ctx.Deadline()
			if left := time.Until(deadline); left != want {
				t.Errorf("the context ends after %s, want %s", left, want)
			}
			cancel()
			c.Renew(time.Now())
		}
	})
}

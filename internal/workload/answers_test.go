package workload

import (
	"context"
	"testing"
	"testing/synctest"

	"k8s.io/client-go/util/flowcontrol"
)

// A request that would wait for most of its caller's time is held back at once, so that a cluster
// has time to answer those that are sent.
func TestWaitsLeaveTimeForTheAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		// The second request would wait 4 s: less than the caller has, more than it may wait.
		l := limiter{flowcontrol.NewTokenBucketRateLimiter(0.25, 1)}
		ctx, cancel := context.WithTimeout(t.Context(), requestTimeout)
		defer cancel()
		if err := l.Wait(ctx); err != nil {
			t.Fatalf("the first request: %v", err)
		}
		if err := l.Wait(ctx); !isThrottled(err) {
			t.Errorf("the second request: %v, want a ThrottledError", err)
		}
	})
}

// TestLargestCluster checks that the Nodes of the largest clusters are read in one burst: a hook has no time to wait for the rate.
func TestLargestCluster(t *testing.T) {
	t.Parallel()
	const nodes = 30_000
	if pages := (nodes + pageSize - 1) / pageSize; pages > requestBurst || pages > maxPages {
		t.Errorf("%d Nodes take %d requests; the burst is %d, a list has at most %d pages", nodes, pages, requestBurst, maxPages)
	}
}

package app

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestCollector has the heap grow and shrink.
func TestCollector(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var live atomic.Uint64
		var set []int
		c := &collector{
			live: live.Load,
			set:  func(percent int) int { set = append(set, percent); return 0 },
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = c.Start(ctx) }()
		for _, heap := range []uint64{10 << 20, 49 << 20, 90 << 20, 48 << 20} {
			live.Store(heap)
			<-time.After(weighPeriod)
			synctest.Wait()
		}
		cancel()
		if diff := cmp.Diff([]int{largeHeapPercent, smallHeapPercent}, set); diff != "" {
			t.Errorf("percents (-want +got):\n%s", diff)
		}
	})
	runtime.GC()
	if readLiveHeap() == 0 {
		t.Error("the live heap is not known")
	}
}

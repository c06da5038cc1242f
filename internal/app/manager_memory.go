package app

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// How much garbage, in percent of the live heap, causes a collection. Where the live heap is small,
// garbage is most of the memory, and a collection is cheap: its CPU is in proportion to the live
// heap. See docs/performance.md.
const (
	smallHeapPercent = 50
	largeHeapPercent = 100 // Go's own

	largeHeap = 24 << 20
)

// weighPeriod is how often the live heap is looked at. It follows the number of Machines.
const weighPeriod = 10 * time.Second

// collector is a manager.Runnable that sets how often garbage is collected.
type collector struct {
	live func() uint64
	set  func(percent int) int
}

// addCollector adds the collector, unless the environment variable GOGC says how often.
func (b *builder) addCollector(context.Context) error {
	if os.Getenv("GOGC") != "" {
		return nil
	}
	if err := b.mgr.Add(&collector{live: readLiveHeap, set: debug.SetGCPercent}); err != nil {
		return fmt.Errorf("adding the setting of garbage collection: %w", err)
	}
	return nil
}

// NeedLeaderElection lets Start run in every replica.
func (*collector) NeedLeaderElection() bool { return false }

// Start looks at the live heap until ctx ends.
func (c *collector) Start(ctx context.Context) error {
	percent := largeHeapPercent
	wait.UntilWithContext(ctx, func(context.Context) {
		if next := computePercent(c.live()); next != percent {
			percent = next
			c.set(percent)
		}
	}, weighPeriod)
	return nil
}

func computePercent(live uint64) int {
	if live > largeHeap {
		return largeHeapPercent
	}
	return smallHeapPercent
}

// readLiveHeap returns how many bytes the last collection has left.
func readLiveHeap() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

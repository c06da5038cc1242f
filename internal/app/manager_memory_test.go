package app

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
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
		for _, heap := range []uint64{10 << 20, 24 << 20, 25 << 20, 90 << 20, 24 << 20} {
			live.Store(heap)
			<-time.After(weighPeriod)
			synctest.Wait()
		}
		cancel()
		want := []int{smallHeapPercent, largeHeapPercent, smallHeapPercent}
		if diff := cmp.Diff(want, set); diff != "" {
			t.Errorf("percents (-want +got):\n%s", diff)
		}
	})
	runtime.GC()
	if readLiveHeap() == 0 {
		t.Error("the live heap is not known")
	}
}

// TestGOGCCounts: a person who sets GOGC decides how often garbage is collected.
func TestGOGCCounts(t *testing.T) {
	for gogc, want := range map[string]int{"": 1, "50": 0} {
		t.Setenv("GOGC", gogc)
		m := &adder{}
		if err := (&builder{mgr: m}).addCollector(t.Context()); err != nil || m.added != want {
			t.Errorf("GOGC=%s: %d collectors, %v", gogc, m.added, err)
		}
	}
}

// adder is a manager that counts what is added to it.
type adder struct {
	ctrl.Manager
	added int
}

func (a *adder) Add(manager.Runnable) error { a.added++; return nil }

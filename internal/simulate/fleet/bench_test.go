package fleet

import (
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// processorTime is what the process has used so far: unlike the time on the wall it does not depend on
// what else the machine does.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// simulated runs one Config, and returns the processor time of a node.
func simulated(b *testing.B, c Config, seed uint64) (perNode time.Duration) {
	b.Helper()
	began := processorTime(b)
	r, err := Simulate(b.Context(), c, seed)
	if err != nil || r.Outcome != Completed {
		b.Fatalf("%s: %s, %v", r.Outcome, r.Why, err)
	}
	return (processorTime(b) - began) / time.Duration(r.Machines)
}

// BenchmarkTelco is one run of 30,000 nodes in 300 pools over four minors: in place and replaced, with and without invariants checked.
func BenchmarkTelco(b *testing.B) {
	for name, change := range map[string]func(*Config){
		"in place":           func(*Config) {},
		"in place, verified": func(c *Config) { c.Verify = true },
		"in place, detailed": func(c *Config) { c.Detail = true },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				c := telco(300, 100, inPlaceUpdate(300))
				change(&c)
				simulated(b, c, 1)
			}
			var memory runtime.MemStats
			runtime.ReadMemStats(&memory)
			b.ReportMetric(float64(memory.Sys)/1e6, "MB-of-process")
		})
	}
	b.Run("replaced", func(b *testing.B) {
		for b.Loop() {
			simulated(b, telco(300, 100, replacing()), 1)
		}
	})
}

// BenchmarkThousandRuns is 1,000 runs of a cluster of 100 nodes, one after another.
func BenchmarkThousandRuns(b *testing.B) {
	c := telco(10, 10, inPlaceUpdate(10))
	for b.Loop() {
		for seed := range uint64(1000) {
			simulated(b, c, seed)
		}
	}
}

// BenchmarkPerNode compares the processor time that a node costs in fleets of 1,000 to 100,000: the ratio to the smallest is what grows with the fleet. Each
// iteration simulates 100,000 nodes, as one run or as many.
func BenchmarkPerNode(b *testing.B) {
	const most = 1000
	var smallest time.Duration
	for _, pools := range []int{10, 100, most} {
		b.Run(fmt.Sprintf("%d nodes", pools*100), func(b *testing.B) {
			best := time.Hour
			for b.Loop() {
				took := time.Duration(0)
				for range most / pools {
					// Each pool has its share of what may be in flight, whatever the size.
					took += simulated(b, telco(pools, 100, inPlaceUpdate(pools)), 1)
				}
				best = min(best, took/(most/time.Duration(pools)))
			}
			if smallest == 0 {
				smallest = best
			}
			b.ReportMetric(float64(best.Nanoseconds()), "ns/node")
			b.ReportMetric(float64(best)/float64(smallest), "times-1000-nodes")
		})
	}
}

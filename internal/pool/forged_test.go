package pool_test

import (
	"math"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/windlass-dev/windlass/internal/pool"
)

// TestForgedNumbers: numbers at their bounds neither overflow nor widen a limit.
func TestForgedNumbers(t *testing.T) {
	t.Parallel()
	number := func(t *rapid.T, name string) intstr.IntOrString {
		if rapid.Bool().Draw(t, name+" is text") {
			return intstr.FromString(rapid.SampledFrom([]string{
				"0%", "1%", "100%", "101%", "2147483647%", "-5%", "-2147483648%", "9223372036854775807%", "x",
				"", "%", "50",
			}).Draw(t, name))
		}
		return intstr.FromInt32(rapid.SampledFrom([]int32{0, 1, -1, 5, math.MaxInt32,
			math.MinInt32}).Draw(t, name))
	}
	size := rapid.SampledFrom([]int32{0, 1, 3, 1000, math.MaxInt32 - 1, math.MaxInt32})
	rapid.Check(t, func(t *rapid.T) {
		l := pool.Limits{
			Canary: number(t, "canary"), Partition: number(t,
				"partition"), Batches: []intstr.IntOrString{number(t, "batch")},
			MaxInFlight: rapid.SampledFrom([]int32{0, 1, math.MaxInt32}).Draw(t, "maxInFlight"),
		}
		replicas := size.Draw(t, "replicas")
		touched := min(size.Draw(t, "touched"), replicas)
		done := min(size.Draw(t, "done"), touched)
		// One batch of one Machine after the other takes long where there are very many.
		if replicas > 1000 {
			done = min(done, 1000)
		}
		a := l.Allow(pool.Progress{Replicas: replicas, Touched: touched, Done: done,
			InFlight: touched - done})
		if a.More < 0 || a.More > replicas-touched {
			t.Fatalf("%d more of %d, %d touched: %+v", a.More, replicas, touched, l)
		}
		if l.Partition == intstr.FromInt32(math.MaxInt32) && a.More > 0 {
			t.Fatalf("the partition keeps all, and %d more may be touched", a.More)
		}
		if l.MaxInFlight == 1 && touched > done && a.More > 0 {
			t.Fatalf("one is in flight, and %d more may be touched", a.More)
		}
		batches, last := l.CountBatches(replicas), pool.Stage{}
		if batches < 0 || batches > replicas {
			t.Fatalf("%d batches of %d Machines: %+v", batches, replicas, l)
		}
		for replicas <= 1000 && last.End < replicas {
			last = l.Stage(pool.Progress{Replicas: replicas, Done: last.End})
		}
		if replicas <= 1000 && last.Batch != batches {
			t.Fatalf("%d batches of %d Machines, want %d: %+v", batches, replicas, last.Batch, l)
		}
	})
}

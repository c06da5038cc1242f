package inplace_test

import (
	"math"
	"testing"
	"time"

	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/policy"
)

// TestLine holds that the number of requests in a time does not grow with that of the machines that wait, that each machine asks
// after those that asked before it, and that none waits longer than LongestQueue.
func TestLine(t *testing.T) {
	t.Parallel()
	const slots = 10
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, machines := range []int{1, 10, 100, 300, 5000} {
		var line inplace.Line
		// asks are the times of the next requests, in the order of the machines that make them.
		asks := make([]time.Time, machines)
		for i := range asks {
			asks[i] = start.Add(line.Next(start, slots))
		}
		requests, last := 0, start
		for i := 0; asks[i].Before(start.Add(time.Hour)); i = (i + 1) % machines {
			if asks[i].Before(last) {
				t.Fatalf("%d machines: one asks at %s, after another at %s", machines, asks[i], last)
			}
			last = asks[i]
			after := line.Next(last, slots)
			if after < inplace.PollQueue || after > inplace.LongestQueue {
				t.Fatalf("%d machines: one asks again after %s", machines, after)
			}
			asks[i] = last.Add(after)
			requests++
		}
		// What waits for LongestQueue is bounded by that.
		most := max(slots*int(time.Hour/inplace.PollQueue), machines*int(time.Hour/inplace.LongestQueue))
		if least := min(machines, slots) * int(time.Hour/inplace.PollQueue) / 2; requests > most || requests < least {
			t.Errorf("%d machines make %d requests in an hour, want %d to %d", machines, requests, least, most)
		}
	}
}

// TestFree holds how many machines an updater may choose: not more than maxInFlight leaves, and one
// while no machine of the group has ended the update.
func TestFree(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		policy policy.Policy
		others inplace.Others
		want   int
	}{
		"no limit":               {want: math.MaxInt},
		"a limit":                {policy.Policy{MaxInFlight: 5}, inplace.Others{InFlight: 2}, 3},
		"the limit is reached":   {policy.Policy{MaxInFlight: 5}, inplace.Others{InFlight: 5}, 1},
		"the first of a group":   {policy.Policy{MaxInFlight: 5, Alone: 1}, inplace.Others{}, 1},
		"after the first":        {policy.Policy{MaxInFlight: 5, Alone: 1}, inplace.Others{InFlight: 1, Settled: true}, 4},
		"the first has no limit": {policy.Policy{Alone: 1}, inplace.Others{}, 1},
	} {
		if got := inplace.Free(test.policy, test.others); got != test.want {
			t.Errorf("%s: %d machines may begin, want %d", name, got, test.want)
		}
	}
}

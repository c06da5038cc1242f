package status

import (
	"slices"
	"time"

	"github.com/windlass-dev/windlass/internal/chain"
)

// heldTime is a span in which gates held an upgrade.
type heldTime struct{ from, to time.Time }

// heldTimes are when gates held the Cluster at steps that they have let pass since, in order; no two
// overlap.
func (c *chainComputation) heldTimes() []heldTime {
	var all []heldTime
	for _, g := range c.facts.Upgrade.Gates {
		for _, p := range g.Status.Passed {
			if p.ClusterUID == string(c.facts.Cluster.UID) && !p.Since.IsZero() && p.Time.After(p.Since.Time) {
				all = append(all, heldTime{p.Since.Time, p.Time.Time})
			}
		}
	}
	slices.SortFunc(all, func(a, b heldTime) int { return a.from.Compare(b.from) })
	var merged []heldTime
	for _, h := range all {
		last := len(merged) - 1
		switch {
		case last < 0 || h.from.After(merged[last].to):
			merged = append(merged, h)
		case h.to.After(merged[last].to):
			merged[last].to = h.to
		}
	}
	return merged
}

// heldBetween is for how long gates held an upgrade between two times.
func heldBetween(held []heldTime, from, to time.Time) time.Duration {
	var sum time.Duration
	for _, h := range held {
		begin, end := h.from, h.to
		if begin.Before(from) {
			begin = from
		}
		if end.After(to) {
			end = to
		}
		if end.After(begin) {
			sum += end.Sub(begin)
		}
	}
	return sum
}

// withoutHolds returns steps as if no gate had held them: how long people wait says nothing of how long
// machines take.
func withoutHolds(steps []chain.Step, held []heldTime) []chain.Step {
	moved := slices.Clone(steps)
	for i, s := range steps {
		if s.ControlPlane.IsZero() {
			continue
		}
		earlier := heldBetween(held, s.Began, s.ControlPlane)
		moved[i].ControlPlane = s.ControlPlane.Add(-earlier)
		if !s.Workers.IsZero() {
			earlier += heldBetween(held, s.ControlPlane, s.Workers)
			moved[i].Workers = s.Workers.Add(-earlier)
		}
	}
	return moved
}

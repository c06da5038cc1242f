package inplace

import (
	"slices"

	"github.com/windlass-dev/windlass/internal/inplace/cover"
)

// superseded reports whether the recorded progress is of another update than the one that Cluster API asks for: somebody took
// Cluster API's mark away in the middle, and the Machine has moved on.
func superseded(f Facts) bool {
	if f.Progress.Target != f.Target {
		return true
	}
	return f.Target == "" && f.Decision != nil && f.Decision.ID != f.Progress.Decision
}

// OwedBy returns what an update leaves undone when it is given up: the steps that have not ended, and what it owed itself.
func OwedBy(p *Progress, before *Owed) *Owed {
	if p != nil {
		return &Owed{Steps: slices.Clone(p.Steps), Dirty: slices.Clone(p.Dirty)}
	}
	if before != nil {
		return before
	}
	return &Owed{}
}

// owed is OwedBy with what a decision that never began would have done.
func owed(f Facts) *Owed {
	left := OwedBy(f.Progress, f.Owed)
	if f.Progress != nil || f.Decision == nil {
		return left
	}
	return &Owed{Steps: MergeSteps(left.Steps, f.Decision.Steps), Dirty: mergePointers(left.Dirty, f.Decision.Dirty)}
}

// MergeSteps returns the steps of a, and those of b that a lacks, each after the last step that both have before it; with none
// in common, a's come first. Each updater brings a machine to its desired state, so one that finds nothing to do is done at once. Of a step that both have, the
// careful properties count.
func MergeSteps(a, b []Step) []Step {
	merged := slices.Clone(a)
	at := len(a)
	if slices.ContainsFunc(b, func(s Step) bool { return slices.ContainsFunc(a, func(m Step) bool { return m.Updater == s.Updater }) }) {
		at = 0
	}
	for _, s := range b {
		found := slices.IndexFunc(merged, func(m Step) bool { return m.Updater == s.Updater })
		if found < 0 {
			merged = slices.Insert(merged, at, s)
			at++
			continue
		}
		m := &merged[found]
		m.SetsVersion, m.NeedsDrain = m.SetsVersion || s.SetsVersion, m.NeedsDrain || s.NeedsDrain
		m.Asks = m.Asks || s.Asks
		if m.MaxMinors == 0 || s.MaxMinors != 0 && s.MaxMinors < m.MaxMinors {
			m.MaxMinors = s.MaxMinors
		}
		at = max(at, found+1)
	}
	return merged
}

func mergePointers(a, b []cover.Pointer) []cover.Pointer {
	merged := slices.Clone(a)
	for _, p := range b {
		if !slices.Contains(merged, p) {
			merged = append(merged, p)
		}
	}
	return merged
}

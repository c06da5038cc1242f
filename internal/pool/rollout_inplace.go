package pool

import "slices"

// Candidates returns the old MachineSets whose Machines could be updated in place: they have
// Machines, and their template differs from New's in a way that an update could bridge. There is
// none once New has all replicas.
func (r Rollout) Candidates() []string {
	if !r.InPlaceUpdates || r.OnDelete || r.New.Replicas >= r.Replicas {
		return nil
	}
	var names []string
	for _, s := range r.Old {
		if s.Counts.Machines > 0 && s.Eligible {
			names = append(names, s.Name)
		}
	}
	return names
}

// PreferInPlace lets Machines of covered MachineSets move to New where they would be deleted, and
// creates no spare Machines while that makes progress.
//
// The targets are those of a replacement: an update in place counts as unavailable too, since it
// may fail.
func (r Rollout) PreferInPlace(covered map[string]bool) Rollout {
	var from []string
	old := slices.Clone(r.Old)
	for _, name := range r.Candidates() {
		if !covered[name] {
			continue
		}
		i := slices.IndexFunc(old, func(s Sizes) bool { return s.Name == name })
		old[i] = old[i].note(Note{Reason: ReasonMove, MachineSet: r.New.Name})
		old[i].MoveTo = r.New.Name
		from = append(from, name)
	}
	if len(from) == 0 {
		return r
	}
	r.Old = old
	r.New.ReceiveFrom = slices.Sorted(slices.Values(from))
	return r.dropSurge()
}

// dropSurge takes back what ScaleNew has added by maxSurge. One spare Machine stays if the rollout
// makes no progress otherwise.
func (r Rollout) dropSurge() Rollout {
	up := r.New.Target - r.New.Replicas
	if up <= 0 {
		return r
	}
	kept := max(up-r.Surge, 0)
	surge := up - kept
	if surge <= 0 {
		return r
	}
	if kept == 0 && !r.busy() {
		kept = 1
		r.New = r.New.note(Note{Reason: ReasonSurgeForInPlace})
	} else {
		r.New = r.New.note(Note{Reason: ReasonSurgeDropped, Count: surge})
	}
	r.New.Target = r.New.Replicas + kept
	return r
}

// busy reports whether the rollout goes on without a spare Machine: a MachineSet scales, a Machine
// is being updated in place, or a Machine of New is not up to date or available yet. So a Machine
// of New that never becomes available stops the rollout.
func (r Rollout) busy() bool {
	if r.New.Replicas != r.New.Counts.Machines || r.unread() {
		return true
	}
	for _, s := range r.Old {
		if s.Replicas < s.Counts.Machines || s.Target < s.Replicas {
			return true
		}
	}
	return r.New.Replicas != r.New.Counts.UpToDate || len(r.Updating) > 0 ||
		r.New.Replicas != r.New.Counts.Available
}

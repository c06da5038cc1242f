package pool

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Sizes are the numbers of one MachineSet during a plan. A rule returns a changed copy.
type Sizes struct {
	Name    string
	Created time.Time
	// Replicas is spec.replicas when the plan began, plus the moves that AcknowledgeMoves counted.
	Replicas int32
	// Target is what spec.replicas is to become. It equals Replicas as long as no rule has changed
	// it.
	Target int32
	Counts Counts
	// Eligible says that an update in place could lead from this MachineSet to the new one: their
	// templates differ, and nobody asked for new Machines by rollout.after.
	Eligible bool
	// MoveTo is the MachineSet that Machines move to instead of being deleted; empty for none.
	MoveTo string
	// Return are those of them that move without an update, sorted: a revert takes them back, or an
	// updater that was handed them has updated them.
	Return []string
	// Moving is how many Machines an earlier plan has told the MachineSet to move, and it still has.
	Moving int32
	// ReceiveFrom are the MachineSets that Machines come from, sorted.
	ReceiveFrom []string
	// Acknowledged are the Machines whose move the MachineSet counts in spec.replicas, sorted.
	Acknowledged []string
	Notes        []Note
}

func (s Sizes) note(n Note) Sizes {
	s.Notes = addNote(s.Notes, n)
	return s
}

// scaled reports whether a rule has changed the replicas.
func (s Sizes) scaled() bool { return s.Target != s.Replicas }

// scaleTo sets the target, and says why.
func (s Sizes) scaleTo(target int32, why Note) Sizes {
	s.Target = target
	return s.note(why)
}

// Rollout is a plan in progress, in numbers. Its methods are the rules of Cluster API's rollout
// planner, in the order in which RollingUpdate and OnDelete apply them. Each returns a changed
// copy.
type Rollout struct {
	Budget
	// OnDelete selects the strategy: people delete the old Machines.
	OnDelete bool
	// InPlaceUpdates is the feature gate. Without it no Machine moves.
	InPlaceUpdates bool
	// New is the MachineSet of the current template, Old are all others.
	New Sizes
	Old []Sizes
	// Pending are the Machines of New that moved there and wait to be acknowledged.
	Pending []string
	// Counted are the Machines whose move an earlier plan has acknowledged.
	Counted []string
	// Updating are the Machines of the group that are being updated in place, sorted.
	Updating []string
	// Progressing says that an unavailable Machine of an old MachineSet may become available by
	// itself: it is being updated in place, or it waits for minReadySeconds, and no
	// MachineHealthCheck found it unhealthy.
	Progressing bool
	// NewlyAcknowledged are the Machines that AcknowledgeMoves counted for the first time, sorted.
	NewlyAcknowledged []string
}

// RollingUpdate applies the rules of the strategy RollingUpdate. covered says for which of the
// MachineSets in Questions an update in place is possible.
func (r Rollout) RollingUpdate(covered map[string]bool) Rollout {
	return r.beforeInPlace().PreferInPlace(covered).BreakDeadlock()
}

// DeleteOnly applies the rules of the strategy OnDelete.
func (r Rollout) DeleteOnly() Rollout { return r.ScaleNew().ScaleOldOnDelete() }

// Questions returns the old MachineSets for which RollingUpdate needs an answer, in the order in
// which stock asks.
func (r Rollout) Questions() []string {
	return r.beforeInPlace().Candidates()
}

func (r Rollout) beforeInPlace() Rollout {
	return r.AcknowledgeMoves().ScaleNew().ScaleOld()
}

// AcknowledgeMoves raises the replicas of New by the Machines that moved there since the last plan.
// Each Machine is counted once: its name stays in Acknowledged until the MachineSet controller has
// removed the mark on the Machine.
func (r Rollout) AcknowledgeMoves() Rollout {
	if !r.InPlaceUpdates {
		return r
	}
	pending := slices.Sorted(slices.Values(r.Pending))
	r.NewlyAcknowledged = nil
	for _, name := range pending {
		if !slices.Contains(r.Counted, name) {
			r.NewlyAcknowledged = append(r.NewlyAcknowledged, name)
		}
	}
	r.New.Acknowledged = pending
	if n := int32(len(r.NewlyAcknowledged)); n > 0 { // #nosec G115 -- a number of Machines
		r.New.Replicas += n
		r.New.Target = r.New.Replicas
		r.New = r.New.note(Note{Reason: ReasonMovesAcknowledged, Machines: pending})
	}
	return r
}

// ScaleNew brings New to the replicas of the MachineDeployment: down at once, up as far as the
// surge allows. Scaling down does not look at availability, as in stock.
func (r Rollout) ScaleNew() Rollout {
	switch {
	case r.New.Replicas == r.Replicas:
		return r
	case r.New.Replicas > r.Replicas:
		r.New = r.New.scaleTo(r.Replicas, Note{Reason: ReasonReplicasLowered})
		return r
	}
	why := Note{Reason: ReasonSurgeAvailable, Count: r.total(), Limit: r.Replicas, Surge: r.Surge}
	if r.OnDelete {
		why.Reason = ReasonMachinesMissing
	}
	room := r.Replicas + r.Surge - why.Count
	if room <= 0 {
		return r
	}
	r.New = r.New.scaleTo(r.New.Replicas+min(room, r.Replicas-r.New.Replicas), why)
	return r
}

// total is how many Machines there are or will be: a MachineSet counts with its replicas or its
// Machines, whichever are more.
func (r Rollout) total() int32 {
	n := max(r.New.Replicas, r.New.Counts.Machines)
	for _, s := range r.Old {
		n += max(s.Replicas, s.Counts.Machines)
	}
	return n
}

// sum adds up a number of the old MachineSets.
func (r Rollout) sum(of func(Sizes) int32) int32 {
	var n int32
	for _, s := range r.Old {
		n += of(s)
	}
	return n
}

func replicas(s Sizes) int32  { return s.Replicas }
func machines(s Sizes) int32  { return s.Counts.Machines }
func available(s Sizes) int32 { return s.Counts.Available }

// oldestFirst returns the sets by creation time, then by name.
func oldestFirst(sets []Sizes) []Sizes {
	if len(sets) < 2 { // The usual case. A sort would allocate more.
		return slices.Clone(sets)
	}
	return slices.SortedFunc(slices.Values(sets), func(a, b Sizes) int {
		return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.Name, b.Name))
	})
}

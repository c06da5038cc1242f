package chain

import (
	"slices"
	"time"

	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// Hook is a lifecycle hook of Cluster API, by the name that it has on the wire and in the annotation of pending hooks.
type Hook string

// The lifecycle hooks, in the order in which a Cluster's life meets them.
const (
	BeforeClusterCreate          Hook = "BeforeClusterCreate"
	AfterControlPlaneInitialized Hook = "AfterControlPlaneInitialized"
	BeforeClusterUpgrade         Hook = "BeforeClusterUpgrade"
	BeforeControlPlaneUpgrade    Hook = "BeforeControlPlaneUpgrade"
	AfterControlPlaneUpgrade     Hook = "AfterControlPlaneUpgrade"
	BeforeWorkersUpgrade         Hook = "BeforeWorkersUpgrade"
	AfterWorkersUpgrade          Hook = "AfterWorkersUpgrade"
	AfterClusterUpgrade          Hook = "AfterClusterUpgrade"
	BeforeClusterDelete          Hook = "BeforeClusterDelete"
)

// Pending lists the hooks that there is a recorded intent to call.
type Pending []Hook

// Has reports whether the intent to call h is recorded.
func (p Pending) Has(h Hook) bool { return slices.Contains(p, h) }

// State is what a decision depends on.
type State struct {
	// Target is spec.topology.version, and Generation is the Cluster's metadata.generation.
	Target     version.Version
	Generation int64
	// Begun says that an object of the topology exists, or that the Cluster refers to one.
	Begun bool
	// Paused, Deleting: the Cluster is. OKToDelete: BeforeClusterDelete has let it go.
	Paused, Deleting, OKToDelete bool
	// Initialized says that the control plane has been initialized.
	Initialized  bool
	ControlPlane ControlPlane
	// Groups stand in the order of spec.topology.workers, MachineDeployments before MachinePools.
	Groups []Group
	// Leaving are groups whose objects exist though the topology does not have them any more. They are not moved, but their machines run.
	Leaving []Group
	// Source says where the versions of the plan come from; nil means plan.NextMinor.
	Source plan.Source
	// SourceProblem says why Source could not be had, when it could not; then no step begins.
	SourceProblem string
	// Back is where the versions of a plan from ControlPlane.Running come from if an extension makes plans, and
	// BackProblem why there is none. Both are empty unless NeedsBack holds, and the extension has answered for the
	// way from ControlPlane.Version: one that is away takes no step back.
	Back        plan.Source
	BackProblem string
	// JoinProblem says why a machine without a Node of its own may have joined all the same; then no step is
	// taken back. It is empty unless NeedsBack holds.
	JoinProblem string
	Skew        version.SkewPolicy
	// Concurrency is how many groups of one kind may be upgrading at once; below 1 it counts as 1.
	Concurrency int
	Pending     Pending
	// Intent is the control plane step that has been announced and may or may not have been taken.
	Intent *Intent
	// ChainTarget is the target for which BeforeClusterUpgrade last passed, as this engine recorded
	// it; zero when no upgrade is under way, or when an engine began it that does not record that.
	ChainTarget version.Version
	// ChainAt is the version that the control plane had, and ChainGeneration is the Generation, when
	// ChainTarget was recorded; both are zero when unknown.
	ChainAt         version.Version
	ChainGeneration int64
	// Lacked is how many machines MachineDeployments lacked, by name, when BeforeWorkersUpgrade let
	// workers go to LackedAt, as this engine recorded it. Where another engine called the hook for the
	// control plane's last step, LackedAt is an earlier version.
	Lacked   map[string]int32
	LackedAt version.Version
	// UpgradeStep is the control plane's step that is recorded as under way, by this engine or another; zero when no upgrade is.
	UpgradeStep version.Version
	// TakenBack is the version of the step in whose place the recorded step was taken; zero for none.
	TakenBack version.Version
	// Blockers are the names of before-upgrade annotations, sorted.
	Blockers []string
	// Answers are the last answers of hooks that did not let the Cluster pass.
	Answers []Answer
}

// ControlPlane is what is known of the control plane object.
type ControlPlane struct {
	Exists bool
	// Provisioned says that it has reported a version at least once.
	Provisioned bool
	// Version is what its spec asks for.
	Version version.Version
	// Upgrading says that it reports another version than its spec asks for.
	Upgrading bool
	// Running is the oldest version that it reports while Upgrading; zero otherwise. Unjoined says that each of its
	// machines with a Node is of Running or older, and that there is one: the step to Version can be
	// taken back.
	Running  version.Version
	Unjoined bool
	// Stamp is the version of the last step that this engine has taken, as it stands on the object itself. Another engine removes
	// it, and so it tells whose step the present version is.
	Stamp version.Version
}

// Group is what is known of one MachineDeployment or MachinePool of the topology.
type Group struct {
	// Name is unique among all groups.
	Name   string
	Kind   plan.GroupKind
	Exists bool
	// Deleting says that its object is going: it is not moved any more.
	Deleting bool
	// Version is what the object's template asks for, and Oldest the oldest version that one of its machines has.
	Version, Oldest version.Version
	// Upgrading says that some machine is not at Version.
	Upgrading bool
	// Missing is how many machines at Version the group lacks: a machine without a Node has not joined.
	// It is 0 while machines are at other versions, and for a MachinePool: what that should have may
	// be decided outside of Cluster API.
	Missing int32
	// Defer and Hold are the annotations of the topology.
	Defer, Hold bool
	// MaxMinorStep bounds what the group's update method can do at once, in minors; 0 means any jump that skew allows.
	MaxMinorStep uint32
}

// Intent announces one step of the control plane. It is recorded when BeforeControlPlaneUpgrade has let the step pass.
type Intent struct {
	From version.Version `json:"from" record:"key"`
	To   version.Version `json:"to" record:"key"`
	// Workers says that some group stops at To, so that the hooks around a workers step are called.
	Workers bool `json:"workers,omitempty"`
	// Passed is when that was.
	Passed time.Time `json:"passed,omitzero"`
}

// Answer is that of a hook which did not let the Cluster pass: it holds for the same hook and step, until a time.
type Answer struct {
	Hook Hook
	// Step is the version that the hook was called about; zero for hooks that are not about a version.
	Step version.Version
	// Failed tells a failed call from a blocking answer.
	Failed  bool
	Message string
	// Since is when the hook first gave an answer that did not let the Cluster pass this step, Given
	// when it gave this one, and Until when it is called again.
	Since, Given, Until time.Time
}

// stable reports whether the group's machines are where its template wants them, at v.
func (g *Group) stable(v version.Version) bool {
	return g.Exists && !g.Upgrading && g.Version.Equal(v)
}

// With returns s with what is recorded replaced.
func (s State) With(r Recorded) State {
	s.Pending, s.Intent, s.OKToDelete, s.UpgradeStep = r.Pending, r.Intent, r.OKToDelete, r.UpgradeStep
	s.ChainTarget, s.ChainAt, s.ChainGeneration = version.Version{}, version.Version{}, 0
	s.Lacked, s.LackedAt, s.TakenBack = nil, version.Version{}, version.Version{}
	if r.Chain != nil {
		if last := len(r.Chain.Steps) - 1; last >= 0 {
			step := r.Chain.Steps[last]
			s.Lacked, s.LackedAt = step.Lacked, step.To
			if step.To.Equal(r.UpgradeStep) {
				s.TakenBack = step.InsteadOf
			}
		}
		s.ChainTarget, s.ChainAt, s.ChainGeneration = r.Chain.Target, r.Chain.At, r.Chain.Generation
		if s.ChainAt.IsZero() {
			// Windlass before At was recorded wrote From at that moment.
			s.ChainAt = r.Chain.From
		}
	}
	return s
}

func filter(groups []Group, keep func(*Group) bool) []*Group {
	var kept []*Group
	for i := range groups {
		if keep(&groups[i]) {
			kept = append(kept, &groups[i])
		}
	}
	return kept
}

// planned reports whether the plan moves the group: it exists, and is not being deleted.
func (g *Group) planned() bool { return g.Exists && !g.Deleting }

// moves reports whether the group is on its way.
func (g *Group) moves() bool { return g.planned() && g.Upgrading }

// moving counts the groups of a kind that are on their way, or that this step moved and that lack
// machines.
func (s State) moving(kind plan.GroupKind) int {
	n := 0
	short := s.inWorkersStep()
	for i := range s.Groups {
		g := &s.Groups[i]
		if g.Kind == kind && (g.moves() || short && s.lacksMachines(g)) {
			n++
		}
	}
	return n
}

func (s State) anyUpgrading() bool {
	return slices.ContainsFunc(s.Groups, func(g Group) bool { return g.moves() })
}

// inWorkersStep reports whether groups follow a step that the control plane took in the upgrade
// under way. A group never reaches a version before the control plane. So, if the control plane
// reached its version in this upgrade, this upgrade moved or created every group at that version.
// The step ends when AfterWorkersUpgrade passes. Records decide it, not memory: it is the same after
// a crash, and after another engine was in charge, which records the same hooks but no ChainAt.
func (s State) inWorkersStep() bool {
	return s.Pending.Has(AfterClusterUpgrade) && s.Pending.Has(AfterWorkersUpgrade) &&
		!s.ChainAt.Equal(s.ControlPlane.Version)
}

// short returns the groups that the present workers step moved and that lack more machines than
// before the step. Kubelets join only beside a control plane of their own minor: once the control
// plane goes on, these machines cannot join until the next stop of their group. Machines that a group
// lacked before, for want of quota or hardware, do not count, or they would block every upgrade.
func (s State) short() []*Group {
	if !s.inWorkersStep() {
		return nil
	}
	return filter(s.Groups, s.lacksMachines)
}

// lacksMachines reports whether a group that is at the control plane's version lacks more machines
// than before the present workers step.
func (s State) lacksMachines(g *Group) bool {
	return g.Missing > s.lackedBefore(g) && !g.Deleting &&
		g.stable(s.ControlPlane.Version)
}

// lackedBefore returns how many machines the group lacked before the present workers step.
func (s State) lackedBefore(g *Group) int32 {
	if !s.LackedAt.Equal(s.ControlPlane.Version) {
		return 0
	}
	return max(s.Lacked[g.Name], 0)
}

// lacked returns what Lacked is from now on.
func (s State) lacked() map[string]int32 {
	var missing map[string]int32
	for _, g := range s.Groups {
		if g.Missing <= 0 || !g.Exists || g.Deleting {
			continue
		}
		if missing == nil {
			missing = map[string]int32{}
		}
		missing[g.Name] = g.Missing
	}
	return missing
}

// approved returns the target for which BeforeClusterUpgrade passed in the upgrade under way; zero
// when nothing proves one. Another engine that ends an upgrade leaves the record of its target, which
// then seems to belong to the next upgrade. The record is of the upgrade under way if one of these
// holds: the Cluster's spec, and with it the target, is unchanged since the record; the control plane
// has not moved since; or it has this engine's stamp, which another engine removes when it ends an
// upgrade.
func (s State) approved() version.Version {
	at := s.ControlPlane.Version
	if s.ChainGeneration == s.Generation || s.ChainAt.Equal(at) || s.ControlPlane.Stamp.Equal(at) {
		return s.ChainTarget
	}
	return version.Version{}
}

// complete reports whether only the hooks that end it are missing from the upgrade under way:
// everything is at the control plane's version, and no target beyond that is approved.
func (s State) complete() bool {
	at, target := s.ControlPlane.Version, s.approved()
	beyond := !target.IsZero() && !target.Equal(at) && version.Compare(target, at) != version.Less
	return !beyond && !s.ControlPlane.Upgrading &&
		!slices.ContainsFunc(s.Groups, func(g Group) bool { return g.Exists && !g.Deleting && !g.stable(at) })
}

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
	// Target is spec.topology.version.
	Target version.Version
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
	Skew          version.SkewPolicy
	// Concurrency is how many groups of one kind may be upgrading at once; below 1 it counts as 1.
	Concurrency int
	Pending     Pending
	// Intent is the control plane step that has been announced and may or may not have been taken.
	Intent *Intent
	// ChainTarget is the target that the upgrade under way was heading for when that was last recorded; zero when no upgrade is
	// under way, or when one was begun by an engine that does not record it.
	ChainTarget version.Version
	// UpgradeStep is the control plane's step that is recorded as under way, by this engine or another; zero when no upgrade is.
	UpgradeStep version.Version
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
	// Short says that there are fewer machines at Version than the group should have.
	Short bool
	// Defer and Hold are the annotations of the topology.
	Defer, Hold bool
	// MaxMinorStep bounds what the group's update method can do at once, in minors; 0 means any jump that skew allows.
	MaxMinorStep uint32
}

// Intent announces one step of the control plane. It is recorded when BeforeControlPlaneUpgrade has let the step pass.
type Intent struct {
	From version.Version `json:"from"`
	To   version.Version `json:"to"`
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
	// Since is when the hook first gave an answer that did not let the Cluster pass this step, Until when it is called again.
	Since, Until time.Time
}

// stable reports whether the group's machines are where its template wants them, at v.
func (g Group) stable(v version.Version) bool {
	return g.Exists && !g.Upgrading && g.Version.Equal(v)
}

// With returns s with what is recorded replaced.
func (s State) With(r Recorded) State {
	s.Pending, s.Intent, s.OKToDelete, s.UpgradeStep, s.ChainTarget = r.Pending, r.Intent, r.OKToDelete, r.UpgradeStep, version.Version{}
	if r.Chain != nil {
		s.ChainTarget = r.Chain.Target
	}
	return s
}

func (s State) kind(kind plan.GroupKind) []Group {
	var groups []Group
	for _, g := range s.Groups {
		if g.Kind == kind {
			groups = append(groups, g)
		}
	}
	return groups
}

// moves reports whether the group is on its way.
func (g Group) moves() bool { return g.Exists && !g.Deleting && g.Upgrading }

// moving counts the groups of a kind that are on their way, or have arrived at the control plane's version and lack machines.
func (s State) moving(kind plan.GroupKind) int {
	n := 0
	short := setOf(s.short(s.ControlPlane.Version))
	for _, g := range s.kind(kind) {
		if g.moves() || short.has(g) {
			n++
		}
	}
	return n
}

func (s State) anyUpgrading() bool { return slices.ContainsFunc(s.Groups, Group.moves) }

// short are the groups at v that lack machines. While the control plane is at v too, they can be made; kubelets join only beside a control
// plane of their own minor, so once it has gone on they cannot, until the group's own next stop.
func (s State) short(v version.Version) []Group {
	return slices.DeleteFunc(slices.Clone(s.Groups), func(g Group) bool {
		return !g.Short || !g.Exists || g.Deleting || g.Upgrading || !g.Version.Equal(v)
	})
}

// completeAt reports whether an upgrade to v is done but for the hooks that end it.
func (s State) completeAt(v version.Version) bool {
	if !s.ControlPlane.Version.Equal(v) || s.ControlPlane.Upgrading {
		return false
	}
	return !slices.ContainsFunc(s.Groups, func(g Group) bool { return g.Exists && !g.Deleting && !g.stable(v) })
}

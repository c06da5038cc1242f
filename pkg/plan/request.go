package plan

import (
	"github.com/windlass-dev/windlass/pkg/version"
)

// GroupKind is the kind of object that owns a group of workers.
type GroupKind string

// The kinds of worker groups. MachineDeployments move before MachinePools.
const (
	MachineDeployment GroupKind = "MachineDeployment"
	MachinePool       GroupKind = "MachinePool"
)

// Group is a pool of worker machines that move together.
type Group struct {
	// Name is unique within an Inventory. For a managed topology it is the topology's name.
	Name string
	// Kind is MachineDeployment when empty.
	Kind GroupKind
	// Version is the oldest version that the group's machines have.
	Version version.Version
	// MaxMinorStep bounds what the group's update method can do at once, in minors. 0 means any jump that skew allows,
	// as replacing machines does; kubeadm in place, for one, can move 1.
	MaxMinorStep uint32
}

// Inventory is what a cluster runs now.
type Inventory struct {
	// ControlPlane is the version that the control plane has.
	ControlPlane version.Version
	// Groups stand in the order of cluster.spec.topology.workers, which is the order in which they are upgraded.
	Groups []Group
	// WorkersUpgrading says that workers have begun to follow the control plane to its present version (the intent to call
	// AfterWorkersUpgrade is recorded). Where they share one list, those that are still below it follow, unless leaving that
	// stop out takes fewer stops: without this, a plan made in the middle of a stop could put it off for the rest of them.
	WorkersUpgrading bool
}

// Workers selects whether worker groups share one list of stops.
type Workers string

const (
	// WorkersShared sends every group that is below a stop to that stop, as stock Cluster API does: the
	// GenerateUpgradePlan response has one list for all workers. The list is computed anew whenever a group has moved, so
	// groups that come after those that made a stop necessary may be spared it. It is the default.
	WorkersShared Workers = "Shared"
	// WorkersPerGroup gives each group its own fewest stops, for an engine that can move groups apart.
	WorkersPerGroup Workers = "PerGroup"
)

// Policy holds what may differ between sites. The zero Policy is upstream Kubernetes with shared workers.
type Policy struct {
	// Skew is the version skew policy; the zero policy means version.KubernetesSkew.
	Skew version.SkewPolicy
	// Workers decides which of the two worker plans Plan.Operations follows; empty means WorkersShared.
	Workers Workers
}

// Request is everything that a Plan depends on.
type Request struct {
	Inventory Inventory
	// Target is the version that the control plane and every group must end at.
	Target version.Version
	// Source says where intermediate versions come from; nil means NextMinor.
	Source Source
	Policy Policy
}

// kubernetesSkew is only read.
var kubernetesSkew = version.KubernetesSkew()

// withDefaults fills what was left out, in a copy.
func (r Request) withDefaults() Request {
	if r.Policy.Skew.Name == "" && len(r.Policy.Skew.Rules) == 0 {
		r.Policy.Skew = kubernetesSkew
	}
	if r.Policy.Workers == "" {
		r.Policy.Workers = WorkersShared
	}
	if r.Source == nil {
		r.Source = NextMinor{}
	}
	return r
}

// OperationKind is what an Operation upgrades.
type OperationKind string

// The kinds of operations, in the words of the proposal.
const (
	ControlPlaneUpgrade OperationKind = "ControlPlaneUpgrade"
	WorkersUpgrade      OperationKind = "WorkersUpgrade"
)

// Operation is one step of a Plan. Operations run one after another, in order; the groups of one operation move in the
// order in which they are listed. That is what happens when one group is upgraded at a time; an engine that is allowed
// more may begin with several groups of one stop at once.
type Operation struct {
	Kind OperationKind
	// Groups is empty for a control plane upgrade. All groups of an operation have the same kind.
	Groups   []string
	From, To version.Version
	Reason   Reason
}

// GroupPlan is the fewest stops for one group alone.
type GroupPlan struct {
	Name     string
	Kind     GroupKind
	From     version.Version
	Upgrades []version.Version
}

// Plan is a legal chain. It is empty when everything is at the target. By convention the current version is left out of
// every list and the target is included.
type Plan struct {
	// ControlPlane lists the versions that the control plane goes through.
	ControlPlane []version.Version
	// Workers is the shared list: the fewest stops that are legal for all groups together. It is not the union of the
	// groups' own plans, because a group that moves early may need fewer stops later.
	Workers []version.Version
	// Groups holds each group's own plan, in the order of upgrade: MachineDeployments, then MachinePools.
	Groups []GroupPlan
	// Operations is the interleaved sequence, with the workers that Policy.Workers selects.
	Operations []Operation
}

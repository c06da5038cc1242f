package scenario

import (
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/simulate/fleet"
)

// File is a scenario. Durations are one word, as package dist parses them: "10m" is fixed, "10m..15m" anything between, "p50=12m,p90=15m" mostly near
// the first and one in ten above the second, "[9m,10m,12m]" what was measured. Rates are parts from 0 to 1. What is left out has a default; those that
// are guesses are listed in Simulation.Assumptions.
type File struct {
	// Begin is when the first upgrade is asked for, such as 2026-01-05T08:00:00Z. Only gates with windows depend on it. The default is DefaultBegin.
	Begin string `json:"begin,omitempty"`
	// Runs is how many times the upgrade is simulated, each with other random numbers; DefaultRuns where it is 0.
	Runs int `json:"runs,omitempty"`
	// Seed is what random numbers are made of: the same seed gives the same result. The default is 1.
	Seed uint64 `json:"seed,omitempty"`
	// ClustersAtOnce is how many clusters are upgraded at the same time, in their order; 0 means all.
	ClustersAtOnce int       `json:"clustersAtOnce,omitempty"`
	Clusters       []Cluster `json:"clusters,omitempty"`
	Policies       []Policy  `json:"policies,omitempty"`
	Durations      Durations `json:"durations,omitzero"`
	Failures       Failures  `json:"failures,omitzero"`
	// Gates are what holds steps until a window opens.
	Gates []Gate `json:"gates,omitempty"`
	// Faults disturb Windlass itself; none by default.
	Faults Faults `json:"faults,omitzero"`
	// Budget is what Windlass may ask of the API server.
	Budget *fleet.Budget `json:"budget,omitempty"`
	// Costs are what Cluster API's own controllers write.
	Costs *fleet.Costs `json:"costs,omitempty"`
	// Compare are other ways to do the same upgrade, to be simulated beside the scenario itself.
	Compare []Variant `json:"compare,omitempty"`
}

// Variant is what is different in another way to do the upgrade. What is left out is as in the scenario.
type Variant struct {
	// Name is unique, and none of those that every comparison may have; Description is a sentence about what is different.
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	// ClustersAtOnce and PoolsAtOnce take the place of the file's and of every cluster's.
	ClustersAtOnce int `json:"clustersAtOnce,omitempty"`
	PoolsAtOnce    int `json:"poolsAtOnce,omitempty"`
	// Policies take the place of those with the same names.
	Policies []Policy `json:"policies,omitempty"`
	// Durations take the place of the file's, each for itself.
	Durations Durations `json:"durations,omitzero"`
}

// Cluster is a cluster, or several that are alike.
type Cluster struct {
	// Name is the cluster's, unique among all. Where Count is above 1 there are that many, called NAME-1, NAME-2 and so on.
	Name  string `json:"name"`
	Count int    `json:"count,omitempty"`
	// From is the version that runs, To the one to upgrade to.
	From string `json:"from"`
	To   string `json:"to"`
	// Versions are those that there are, as ClusterClass spec.kubernetesVersions lists them. Without any, there is a .0 of each minor between From and
	// To, and To.
	Versions []string `json:"versions,omitempty"`
	// SkewPolicy says how far kubelets may lag: kubernetes (the default) or k0s.
	SkewPolicy   string       `json:"skewPolicy,omitempty"`
	ControlPlane ControlPlane `json:"controlPlane,omitzero"`
	Pools        []Pool       `json:"pools,omitempty"`
	// PoolsAtOnce is how many pools of a kind may be upgrading at once, as the annotation topology.cluster.x-k8s.io/upgrade-concurrency says; 1 by
	// default.
	PoolsAtOnce int `json:"poolsAtOnce,omitempty"`
}

// ControlPlane is a cluster's control plane.
type ControlPlane struct {
	// Replicas is 3 by default.
	Replicas *int `json:"replicas,omitempty"`
	// MaxSurge is 1 by default: a new machine first. 0 deletes one first, needs MinSurgelessReplicas, and is the default where the policy is InPlace.
	MaxSurge *int `json:"maxSurge,omitempty"`
	Machines
}

// Machines are what a control plane and a pool have in common.
type Machines struct {
	// Policy is the name of one of File.Policies; without one, machines are replaced.
	Policy string `json:"policy,omitempty"`
	// Updaters are the names of those of the policy's that change these machines; all by default.
	Updaters []string `json:"updaters,omitempty"`
	// FailureDomains are those that the machines are spread over, one after the other.
	FailureDomains []string `json:"failureDomains,omitempty"`
	// Durations take the place of the file's, each for itself.
	Durations Durations `json:"durations,omitzero"`
}

// Pool is a MachineDeployment or MachinePool, or several that are alike.
type Pool struct {
	// Name is unique in the cluster. Where Count is above 1 there are that many, called NAME-1, NAME-2 and so on.
	Name  string `json:"name"`
	Count int    `json:"count,omitempty"`
	// Kind is MachineDeployment (the default) or MachinePool.
	Kind string `json:"kind,omitempty"`
	// Replicas is how many machines each pool has.
	Replicas int `json:"replicas"`
	// Version is what the pool asks for; the cluster's From by default.
	Version string `json:"version,omitempty"`
	// Oldest is an older version that Lagging of the machines still have.
	Oldest  string `json:"oldest,omitempty"`
	Lagging int    `json:"lagging,omitempty"`
	// MaxSurge and MaxUnavailable are numbers of machines, or parts of them such as "10%", rounded as Kubernetes does: up and down. They are 1 and 0 by
	// default, as in MachineDeployments, and 0 and 1 where the policy is InPlace: with a surge Cluster API makes a machine before it asks.
	MaxSurge       *intstr.IntOrString `json:"maxSurge,omitempty"`
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// Labels are those of the machines that count for Rollout.Order, one after the other as with
	// FailureDomains. Several of them were set on machines: machines that replace others have none. A
	// single one is the template's.
	Labels []map[string]string `json:"labels,omitempty"`
	// MaxMinorStep bounds how many minors the pool can be moved at once. Without it, it follows from the policy's updaters.
	MaxMinorStep int `json:"maxMinorStep,omitempty"`
	Machines
}

// The words of a Policy.
const (
	// StrategyInPlace has updaters change running machines; in an UpdatePolicy it is called ExternalUpdate.
	StrategyInPlace = "InPlace"
	// StrategyReplace has machines replaced; in an UpdatePolicy it is called RollingUpdate.
	StrategyReplace = "Replace"
	// FallbackReplace lets machines be replaced where updaters cannot do it all. It is StrategyReplace's word: what happens is the same.
	FallbackReplace = "Replace"
	// FallbackNone guards machines against replacement.
	FallbackNone = "None"
)

// Policy is an UpdatePolicy, with the defaults of one. Pools name it. Its updaters are taken to cover every change of the version.
type Policy struct {
	Name string `json:"name"`
	// Strategy is InPlace or Replace.
	Strategy string `json:"strategy"`
	// Fallback goes with InPlace: None (the default) or Replace.
	Fallback string `json:"fallback,omitempty"`
	// MaxInFlight is how many machines of a cluster's MachineDeployments under this policy are updated at once; 1 by default.
	MaxInFlight int `json:"maxInFlight,omitempty"`
	// Canary is 1 if the first machine of each MachineDeployment is updated alone, until its update has finished or failed finally; 0 if not; 1 by default.
	Canary *int `json:"canary,omitempty"`
	// Rollout is what windlass manager applies to the rollouts of MachineDeployments. Without it
	// another engine drives the clusters.
	Rollout *Rollout `json:"rollout,omitempty"`
	// Drain has nodes drained before the first updater that needs it; false by default.
	Drain *bool `json:"drain,omitempty"`
	// Soak is how long a node must be Ready at the new version before its update counts as done, such as 5m.
	Soak string `json:"soak,omitempty"`
	// MaxAttempts is how often an updater may try; 3 by default.
	MaxAttempts int `json:"maxAttempts,omitempty"`
	// AttemptTimeout is how long an attempt may take; 30m by default.
	AttemptTimeout string `json:"attemptTimeout,omitempty"`
	// Remediate has a machine replaced whose update failed finally. Without it, such a machine waits for a person: see Durations.Attend.
	Remediate bool `json:"remediate,omitempty"`
	// Updaters change machines, in this order. Without any, there is one called DefaultUpdater.
	Updaters []Updater `json:"updaters,omitempty"`
}

// Rollout are the limits of an UpdatePolicy that only windlass manager reads. Numbers and
// percentages are of the machines of a MachineDeployment.
type Rollout struct {
	// RolloutLimits are as in an UpdatePolicy. A canary is 1 by default, and holds the rollout if it
	// fails. Order reads Labels of pools, and their FailureDomains.
	v1alpha1.RolloutLimits `json:",inline"`
	// MaxFailures is how many failed machines hold the rollout; 0 for any number.
	MaxFailures int `json:"maxFailures,omitempty"`
	// MachineDeadline is how long the change of a machine may take, and GroupDeadline how long the
	// rollout of a pool may take, until the rollout is held, such as 30m. Without one there is no
	// deadline.
	MachineDeadline string `json:"machineDeadline,omitempty"`
	GroupDeadline   string `json:"groupDeadline,omitempty"`
}

// Updater is what counts of an Updater.
type Updater struct {
	Name string `json:"name"`
	// NeedsDrain says that the node should be drained before it runs, where the policy drains.
	NeedsDrain bool `json:"needsDrain,omitempty"`
	// MaxMinors is how many minors it moves a kubelet at once; 0 means any number.
	MaxMinors int `json:"maxMinors,omitempty"`
	// SetsVersion says that it is the one that moves the kubelet; where none of a policy's says so, the last one does.
	SetsVersion bool `json:"setsVersion,omitempty"`
}

// Durations say how long things take on one machine.
type Durations struct {
	// Create is from asking for a Machine until its node is Ready; DefaultCreate.
	Create string `json:"create,omitempty"`
	// Delete is from deleting a Machine, its drain included, until it is gone; DefaultDelete.
	Delete string `json:"delete,omitempty"`
	// Drain is the drain before an update in place; DefaultDrain.
	Drain string `json:"drain,omitempty"`
	// Updater is the work of an updater, DefaultUpdate; Updaters is that of those that take another time, by name.
	Updater  string            `json:"updater,omitempty"`
	Updaters map[string]string `json:"updaters,omitempty"`
	// Settle is from the end of an updater's work until the node is Ready; DefaultSettle.
	Settle string `json:"settle,omitempty"`
	// React is how long a controller takes to notice a change and act on it; DefaultReact.
	React string `json:"react,omitempty"`
	// Attend is how long it takes a person to have a machine retried whose update failed finally; nobody comes by default.
	Attend string `json:"attend,omitempty"`
	// GiveUp is after how long a new machine that does not get Ready is deleted; DefaultGiveUp. It is above zero where machines fail.
	GiveUp string `json:"giveUp,omitempty"`
}

// Failures say how often things go wrong.
type Failures struct {
	// CreateFails is the part of new machines that never get Ready.
	CreateFails float64 `json:"createFails,omitempty"`
	// UpdateFails is the part of attempts in place that fail when the work is done, UpdateHangs the part that never end.
	UpdateFails float64 `json:"updateFails,omitempty"`
	UpdateHangs float64 `json:"updateHangs,omitempty"`
	// OutageEvery is the time between two outages of a failure domain, OutageTakes how long one is. Give both or none.
	OutageEvery string `json:"outageEvery,omitempty"`
	OutageTakes string `json:"outageTakes,omitempty"`
}

// Gate is an UpgradeGate, as far as the clock decides.
type Gate struct {
	Name string `json:"name"`
	// Clusters are the names of those that it is for, as they stand in File.Clusters; empty means all.
	Clusters []string `json:"clusters,omitempty"`
	// Steps and Windows are as in an UpgradeGate.
	Steps   []v1alpha1.GateStep   `json:"steps"`
	Windows []v1alpha1.GateWindow `json:"windows"`
}

// Faults disturb Windlass itself. Rates are for each request.
type Faults struct {
	// Conflict is how often somebody else has written an object between a read and a write.
	Conflict float64 `json:"conflict,omitempty"`
	// Stale is how often an object is read as it was Lag ago.
	Stale float64 `json:"stale,omitempty"`
	Lag   string  `json:"lag,omitempty"`
	// Lost is how often a request fails, half of them after it was done.
	Lost float64 `json:"lost,omitempty"`
	// Crash is how often Windlass dies at a request. It is back after Restart.
	Crash   float64 `json:"crash,omitempty"`
	Restart string  `json:"restart,omitempty"`
}

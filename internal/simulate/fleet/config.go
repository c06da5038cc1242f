package fleet

import (
	"context"
	"time"

	"github.com/windlass-dev/windlass/internal/chain"
	"github.com/windlass-dev/windlass/internal/gate"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/pool"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// Config is what is simulated. Runs never change it, and may share it.
type Config struct {
	// Clusters are upgraded in this order, ClustersAtOnce at a time; below 1 all at once.
	Clusters       []Cluster
	ClustersAtOnce int
	// Begin is when the first upgrade is asked for. Only maintenance windows depend on it.
	Begin time.Time
	// Horizon is when a run is given up; zero means DefaultHorizon.
	Horizon time.Duration
	Faults  Faults
	Budget  Budget
	Costs   Costs
	// Verify checks invariants after every step. Detail keeps what charts are drawn from.
	Verify, Detail bool
	// Engine is what is simulated; its zero value is the product's.
	Engine Engine
}

// DefaultHorizon is when a run is given up.
const DefaultHorizon = 2 * 365 * 24 * time.Hour

// Cluster is one cluster to be upgraded.
type Cluster struct {
	// Name is unique among all clusters.
	Name string
	// Target is what spec.topology.version is set to.
	Target       version.Version
	Source       plan.Source
	Skew         version.SkewPolicy
	ControlPlane ControlPlane
	// Pools stand in the order of the topology, MachineDeployments before MachinePools; their names are unique.
	Pools []Pool
	// PoolsAtOnce is how many of one kind may be upgrading at once; below 1 it counts as 1.
	PoolsAtOnce int
	// Gates are those at a step of the upgrade. It may be nil, and must be safe for concurrent use.
	Gates func(gate.Step) []gate.Gate
}

// ControlPlane is the machines of a control plane. They are replaced one at a time, as KubeadmControlPlane does, the new one first where MaxSurge is
// above zero; or updated in place one at a time.
type ControlPlane struct {
	Version  version.Version
	Replicas int
	MaxSurge int
	Update   Update
}

// Pool is the machines of a MachineDeployment or MachinePool.
type Pool struct {
	Name string
	Kind plan.GroupKind
	// Version is what its template asks for. Oldest is the oldest version that a machine has, and Lagging how many machines have it; zero for none.
	Version, Oldest version.Version
	Lagging         int
	Replicas        int
	// MaxSurge and MaxUnavailable are numbers of machines, as in the MachineDeployment; where both are zero, MaxUnavailable counts as 1.
	MaxSurge, MaxUnavailable int
	// MaxMinorStep bounds what the pool's update method can do at once, in minors; 0 means any jump that skew allows.
	MaxMinorStep uint32
	Update       Update
}

// Limits returns what bounds a rollout of the pool.
func (p *Pool) Limits() pool.Budget {
	return pool.NewBudget(int32Of(p.Replicas), int32Of(p.MaxSurge), int32Of(p.MaxUnavailable))
}

// Update is how the machines of a group get to another version, and how long that takes.
type Update struct {
	// InPlace says that updaters change running machines, by Steps; otherwise they are replaced. Guarded says that the policy forbids replacing.
	InPlace, Guarded bool
	Steps            []inplace.Step
	// PolicyName names what shares Policy.MaxInFlight within a cluster.
	PolicyName string
	Policy     policy.Policy
	// Limits are those that windlass manager applies to rollouts; nil for none.
	Limits  *pool.Limits
	Timings Timings
	// Domains are the failure domains that the machines are spread over, one after the other; none is one without a name.
	Domains []string
	// Labels are those of the machines that count for the order of Limits, one after the other. If
	// there are several, machines that replace others have none.
	Labels []map[string]string
}

// Timings are how long things take on one machine.
type Timings struct {
	// Create is from asking for a Machine until its node is Ready, Delete from deleting one, its drain included, until it is gone.
	Create, Delete Distribution
	// Drain is the drain before an update in place. Updaters is the work of an updater, by its name; that of "" counts for those that have none.
	Drain    Distribution
	Updaters map[string]Distribution
	// Settle is from the end of an updater's work until the node is Ready at its version.
	Settle Distribution
	// React is how long a controller takes to notice a change and act on it.
	React Distribution
	// Attend is how long it takes a person to have a machine retried whose update has failed finally; zero means that nobody comes.
	Attend Distribution
	// CreateFails is the part of new machines that never get Ready; each is deleted after GiveUp, and made anew.
	CreateFails float64
	GiveUp      Distribution
	// UpdateFails is the part of attempts in place that fail when the work is done, UpdateHangs the part that never end.
	UpdateFails, UpdateHangs float64
}

// Faults disturb the engine. Rates are probabilities from 0 to 1; the zero Faults disturb nothing.
type Faults struct {
	// Conflict is how often somebody else has written an object between a read and a write.
	Conflict float64
	// Stale is how often the engine reads objects of others as they were Lag ago.
	Stale float64
	Lag   time.Duration
	// Lost is how often a request fails, half of them after it was done.
	Lost float64
	// Crash is how often the engine's process dies at a request. It is back after Restart.
	Crash   float64
	Restart time.Duration
	// OutageEvery is how often a failure domain is away, for Outage: its nodes and updaters cannot be reached. Zero means never.
	OutageEvery, Outage Distribution
}

// Any reports whether anything is disturbed.
func (f Faults) Any() bool {
	return f.Conflict > 0 || f.Stale > 0 || f.Lost > 0 || f.Crash > 0 || !f.OutageEvery.IsZero()
}

// Budget bounds the engine's requests to the API server. The zero Budget does not.
type Budget struct {
	// QPS is how many requests a second, Burst how many at once.
	QPS   float64 `json:"qps"`
	Burst int     `json:"burst"`
}

// Costs are API writes that others make, which no engine here counts: Cluster API's own controllers.
type Costs struct {
	// Replace is how many there are for each machine that is replaced, InPlace for each that is updated in place.
	Replace float64 `json:"replace"`
	InPlace float64 `json:"inPlace"`
}

// Engine decides and acts. A nil function is the product's.
type Engine struct {
	Chain   func(chain.State, time.Time) chain.Decision
	Carry   func(context.Context, chain.State, chain.Recorded, chain.Decision, time.Time, chain.Effects) (chain.Outcome, error)
	Machine func(context.Context, inplace.Facts, inplace.Effects) (inplace.Reply, error)
	// ControlPlane is a model of KubeadmControlPlane's controller. Pool decides about the MachineSets of a worker group.
	ControlPlane func(Rollout) RolloutMove
	Pool         func(pool.Rollout) pool.Rollout
	// Canary reports whether a machine whose update failed is a canary of its group.
	Canary func(pool.Limits, pool.Progress) bool
}

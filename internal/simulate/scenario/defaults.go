package scenario

import (
	"time"

	"github.com/windlass-dev/windlass/internal/simulate/fleet"
)

// Bounds on what is simulated: far above what there is, and below what would exhaust memory.
const (
	MaxMachines = 1_000_000
	// MaxGroups bounds control planes and pools together, MaxPools the pools of one cluster: every step of an upgrade looks at all of these.
	MaxGroups = 100_000
	MaxPools  = 2_000
	MaxRuns   = 100_000
)

// What a scenario leaves out.
const (
	DefaultRuns = 20
	DefaultSeed = 1
	// DefaultUpdater is the name of the updater of policies that name none.
	DefaultUpdater  = "updater"
	defaultReplicas = 3
	// defaultSurge is that of KubeadmControlPlanes and MachineDeployments.
	defaultSurge = 1
	// MinSurgelessReplicas is how many replicas a KubeadmControlPlane must have before its webhook accepts maxSurge 0.
	MinSurgelessReplicas = 3
)

// DefaultReact is how long a controller takes to notice a change and act on it: Cluster API's reconcile an object at most once a second.
const DefaultReact = time.Second

// DefaultBegin is a Monday morning in UTC. It is fixed so that the same scenario always gives the same result.
func DefaultBegin() time.Time { return time.Date(2026, time.January, 5, 8, 0, 0, 0, time.UTC) }

// DefaultBudget is what the flags of `windlass manager` allow when nothing is said.
func DefaultBudget() fleet.Budget { return fleet.Budget{QPS: 100, Burst: 200} }

// DefaultCosts were measured with Cluster API v1.14 and its kubeadm providers: all writes of an upgrade of 13 machines by the machines that it replaced,
// and those of 100 machines updated in place at once without those of Windlass.
func DefaultCosts() fleet.Costs { return fleet.Costs{Replace: 130, InPlace: 31.6} }

// Guesses for virtual machines. Whoever has measured better ones should say so in the scenario, or have them fitted.
var (
	defaultCreate = fleet.LogNormal(5*time.Minute, 8*time.Minute)
	defaultDelete = fleet.FixedDuration(time.Minute)
	defaultDrain  = fleet.FixedDuration(time.Minute)
	defaultUpdate = fleet.FixedDuration(3 * time.Minute)
	defaultSettle = fleet.FixedDuration(10 * time.Second)
	defaultReact  = fleet.FixedDuration(DefaultReact)
	// defaultGiveUp is the time that a MachineHealthCheck gives a node to start up.
	defaultGiveUp = fleet.FixedDuration(10 * time.Minute)
)

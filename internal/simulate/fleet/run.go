package fleet

import (
	"time"

	"github.com/windlass-dev/windlass/pkg/version"
)

// Run is what one simulated upgrade came to. All times are from the beginning of the run.
type Run struct {
	Seed    uint64
	Outcome Outcome
	// Why says what an upgrade that did not end waits for; empty for one that did.
	Why      string
	Duration time.Duration
	// Clusters stand in the order of Config.Clusters, Groups by cluster, the control plane before its pools.
	Clusters []ClusterRun
	Groups   []GroupRun
	Machines int
	// MaxInFlight is the greatest number of machines that were in flight at once: updated, or being replaced.
	MaxInFlight int
	Writes      Writes
	// Path is the critical path, in the order of time, with neighbours of the same kind put together: what the run's duration is made of.
	Path []Segment
	// Violation is the first invariant that did not hold; nil if none was found, or none was looked for.
	Violation *Violation
	// Events counts what happened: what the simulation's own cost grows with.
	Events int
	// Detail is nil unless Config.Detail.
	Detail *Detail
}

// Outcome is how a run ended.
type Outcome string

// The outcomes. They are part of the stable interface of windlass simulate.
const (
	// Completed: every cluster is at its target.
	Completed Outcome = "Completed"
	// Stuck: nothing happens any more without a person.
	Stuck Outcome = "Stuck"
	// GivenUp: the horizon was reached.
	GivenUp Outcome = "GivenUp"
	// Violated: an invariant did not hold, and the run ended there.
	Violated Outcome = "Violated"
)

// ClusterRun is one cluster's upgrade.
type ClusterRun struct {
	Name         string
	Began, Ended time.Duration
	// Why says what it waits for; empty when it has ended.
	Why string
}

// ControlPlaneGroup is the name of a control plane's group.
const ControlPlaneGroup = "control plane"

// GroupRun is what happened to the machines of one group.
type GroupRun struct {
	Cluster, Group string
	Machines       int
	// Stops is how many times the group went to another version.
	Stops int
	// Updated counts updates in place that ended well, Replaced machines that took the place of others, Drained nodes that were drained for either.
	Updated, Replaced, Drained int
	// Failed counts attempts that failed or ran out of time, and new machines that never got Ready; GaveUp machines whose update failed finally.
	Failed, GaveUp int
	// MaxDown is the greatest number of machines that were down at once: drained, updated or missing.
	MaxDown int
	// Down is the time that machines were down, added up.
	Down time.Duration
}

// Writes are requests that change something in the management cluster.
type Writes struct {
	// Engine counts those of Windlass, Others estimates those of Cluster API by Config.Costs.
	Engine, Others int
	// Waited is how long the engine's requests waited for its budget, added up.
	Waited time.Duration
}

// Segment is a part of the critical path.
type Segment struct {
	// Cluster is empty for what is no cluster's. Group is ControlPlaneGroup or a pool; empty for waits of the chain.
	Cluster, Group string
	// Limit says what bounded it, such as "maxInFlight 10", "maxUnavailable 1" or "one machine at a time"; of a wait, what was waited for.
	Limit string
	Began time.Duration
	Took  time.Duration
}

// Violation is an invariant that does not hold.
type Violation struct {
	At      time.Duration
	Cluster string
	Problem string
	// Trace are the last things that happened to the cluster before it, oldest first.
	Trace []string
}

// Detail is what charts are drawn from.
type Detail struct {
	// Operations are in the order of their beginning: one for each group and stop.
	Operations []Operation
	// InFlight is how many machines were in flight from a time on, until the next; Versions how many machines had each of Order.
	InFlight []Sample
	Order    []version.Version
	Versions []VersionSample
	// Holds are times during which the chain of some cluster waited for a gate.
	Holds []Operation
}

// Operation is one group's way to one version.
type Operation struct {
	Cluster, Group string
	From, To       version.Version
	InPlace        bool
	Began, Ended   time.Duration
	// Limit is as in Segment.
	Limit string
}

// Sample is a value from a time on.
type Sample struct {
	At    time.Duration
	Value int
}

// VersionSample is how many machines have each version from a time on.
type VersionSample struct {
	At     time.Duration
	Counts []int
}

package rollouts

import (
	"fmt"
	"slices"
	"strings"

	"github.com/windlass-dev/windlass/internal/pool"
)

// Scenario is a group whose template changes, and what may happen to it. The world has room for a
// few Machines only.
type Scenario struct {
	// Replicas, Surge and Unavailable are spec.replicas, maxSurge and maxUnavailable, in Machines.
	Replicas, Surge, Unavailable int8
	// OnDelete says that people delete the Machines. Keep says that the UpdatePolicy keeps them.
	OnDelete, Keep bool
	// UpdatesOnDelete says that the strategy is OnDelete, and that the UpdatePolicy has Machines
	// updated in place. It goes with Keep, and Machines are kept while the policy counts.
	UpdatesOnDelete bool
	// Covered says that updates in place can bridge all changes to a later template.
	Covered bool
	// Scales are the values that people set spec.replicas to.
	Scales []int8
	Limits
	Faults Faults
	// Engine is what is explored; its zero value is the product's.
	Engine Engine

	// gateOff says that the feature gate InPlaceUpdates is off, notBegun that the template has not
	// changed yet.
	gateOff, notBegun bool
	// alone turns the comparison with stock off, blind hides the Machines of other MachineSets from
	// MachineSets.
	alone, blind bool
}

// Limits are those of an UpdatePolicy, in Machines. 0 means none.
type Limits struct {
	MaxInFlight, Canary, Batch, Partition int8
}

// Faults bound how often disturbances may happen on one path, and what people do.
type Faults struct {
	// Crashes end a reconcile after some of its writes. Races let others act between two writes.
	Crashes, Races int8
	// Lags are caches that stop for a while, of MachineSets or of Machines.
	Lags int8
	// Swaps put Cluster API's own engine in the place of this one, or back.
	Swaps int8
	// Outages are times without an updater that answers.
	Outages int8
	// Breaks are Machines that break. Hangs are updates that do not end.
	Breaks, Hangs int8
	// Deletes are Machines that people delete. Scales change spec.replicas.
	Deletes, Scales int8
	// Changes are later templates, Reverts go back to an earlier one.
	Changes, Reverts int8
	// Pauses pause the MachineDeployment.
	Pauses int8
	// Flips take the limits of the UpdatePolicy away, or bring them back; with UpdatesOnDelete the
	// whole policy. Retries are those that people ask for.
	Flips, Retries int8
	// Fails are reconciles of a MachineSet that end with an error; Sticks are MachineSets all of whose
	// reconciles do. Quotas keep Machines from being created. Halts pause a MachineSet.
	Fails, Sticks, Quotas, Halts int8
}

// Engine decides for a MachineDeployment.
type Engine struct {
	Needs  func(pool.Group) ([]pool.Question, error)
	Decide func(pool.Group, map[string]pool.Coverage) (pool.Plan, error)
}

// Describe names the group to people, without its Faults.
func (s *Scenario) Describe() string {
	parts := []string{fmt.Sprintf("%d machines", s.Replicas)}
	if s.Replicas == 1 {
		parts[0] = "1 machine"
	}
	add := func(possible bool, format string, args ...any) {
		if possible {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	onDelete := s.OnDelete || s.UpdatesOnDelete
	add(s.OnDelete, "strategy OnDelete, people delete them")
	add(s.UpdatesOnDelete, "strategy OnDelete, updated in place by the UpdatePolicy")
	add(!onDelete, "maxSurge %d, maxUnavailable %d", s.Surge, s.Unavailable)
	add(!onDelete && s.Covered, "updated in place")
	add(!s.OnDelete && !s.Covered && s.Keep, "no updater covers the change")
	add(!onDelete && !s.Covered && !s.Keep, "replaced")
	add(!s.UpdatesOnDelete && s.Keep, "kept by the UpdatePolicy")
	for _, limit := range []struct {
		name string
		n    int8
	}{
		{"maxInFlight", s.MaxInFlight}, {"canary", s.Canary}, {"batches", s.Batch},
		{"partition", s.Partition},
	} {
		add(limit.n > 0, "%s %d", limit.name, limit.n)
	}
	return strings.Join(parts, ", ")
}

// replicasInWorld is the highest spec.replicas of a world. It leaves room for Machines that are
// created, and for those that are being deleted.
const replicasInWorld = 6

// check returns an error if the world has no room for a scenario.
func (s *Scenario) check() error {
	for _, n := range append(slices.Clone(s.Scales), s.Replicas) {
		if n < 0 || n > replicasInWorld {
			return fmt.Errorf("exploring %d replicas: between 0 and %d are possible", n, replicasInWorld)
		}
	}
	counts := []int8{s.Surge, s.Unavailable, s.MaxInFlight, s.Canary, s.Batch, s.Partition}
	if least, most := slices.Min(counts), slices.Max(counts); least < 0 || most > replicasInWorld {
		return fmt.Errorf("exploring maxSurge, maxUnavailable and limits between %d and %d: "+
			"between 0 and %d are possible", least, most, replicasInWorld)
	}
	return nil
}

// keeps reports whether Machines are kept now. A flip takes only the limits of a policy away,
// unless UpdatesOnDelete is set.
func (s *Scenario) keeps(v *view) bool { return s.Keep && (!s.UpdatesOnDelete || !v.md.open) }

// covers reports whether an update in place bridges the change from one template to another.
func (s *Scenario) covers(from, to uint8) bool { return s.Covered && from < to }

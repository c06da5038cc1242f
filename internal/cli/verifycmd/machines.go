package verifycmd

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/cli/planinput"
	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/pool"
	"github.com/windlass-dev/windlass/internal/simulate/rollouts"
	"github.com/windlass-dev/windlass/internal/snapshot"
	"github.com/windlass-dev/windlass/internal/text"
	"github.com/windlass-dev/windlass/internal/view"
	"github.com/windlass-dev/windlass/pkg/plan"
)

// maxRollouts is how many different rollouts are explored.
const maxRollouts = 4

// notInPlace names a known fault that no study explores. It does not make the answer incomplete.
const notInPlace = "known fault, not explored: if the template changes or is reverted while " +
	"machines are about to be updated in place, more of them than maxUnavailable, the canary or a " +
	"batch allows may be updated at once. Fix: change the template of such a group only while no " +
	"machine of it is in flight (windlass status)"

// rollout is what is explored of the machines of groups that are alike.
type rollout struct {
	// groups are their names; the first one names the study.
	groups []string
	// scenarios are without disturbances. There are two if nobody knows whether updaters cover a
	// change.
	scenarios []rollouts.Scenario
}

// machines are the rollouts of a Cluster.
type machines struct {
	rollouts []rollout
	notes    []string
	// handedOver are the groups that an updater gets as a whole.
	handedOver []string
	// unknown are the groups whose rollout is not known, by the reason.
	unknown []unknown
	// incomplete says that a group is not explored, and that the answer is no proof.
	incomplete bool
}

// unknown are groups that cannot be explored for one reason.
type unknown struct {
	reason string
	groups []string
}

// defaultStrategy is Cluster API's, for a group of which nothing is known.
var defaultStrategy = rollouts.Group{Budget: pool.NewBudget(rollouts.MaxReplicas, 1, 0)}

// machinesOf finds out how the machines of a Cluster's MachineDeployments change.
func machinesOf(ctx context.Context, r planinput.Request, p plan.Plan) machines {
	var m machines
	for _, g := range r.Request.Inventory.Groups {
		if g.Kind == plan.MachinePool {
			m.note("the machines of MachinePools are not explored: their provider decides about them")
			break
		}
	}
	switch u := r.Updates; {
	case u == nil:
		m.addDefaults(r.Request.Inventory.Groups)
	case u.Problem != "":
		m.incomplete = true
		m.note("the machines of groups are not explored: %s", u.Problem)
	default:
		// The manager's engine is explored, whoever drives the Cluster now.
		asked := *u
		asked.Facts.Engine = v1alpha1.EngineManager
		updates := asked.Answer(ctx, p)
		policies := policy.CompileAll(u.Facts.Policies)
		for i, g := range snapshot.UpdateGroups(u.Facts.Objects, u.Facts.Class) {
			if !g.ControlPlane && g.Name != "" {
				m.addGroup(g, policies, updates[i])
			}
		}
	}
	m.describe()
	return m
}

func (m *machines) note(format string, args ...any) {
	m.notes = append(m.notes, fmt.Sprintf(format, args...))
}

// addDefaults adds groups of which only the names are known.
func (m *machines) addDefaults(groups []plan.Group) {
	for _, g := range groups {
		if g.Kind != plan.MachinePool {
			m.add(g.Name, rollouts.Represent(defaultStrategy))
		}
	}
}

// addGroup adds a group by its objects.
func (m *machines) addGroup(
	g snapshot.UpdateGroup, policies policy.Set, update cover.Update,
) {
	selected, err := policies.Select(g.Group)
	md := g.Deployment()
	budget, broken := budgetOf(md, g.IsOnDelete())
	if err = cmp.Or(err, broken); err != nil {
		m.addUnknown(g.Name, err.Error())
		return
	}
	if selected.HandOver {
		m.handedOver = append(m.handedOver, g.Name)
		return
	}
	of := rollouts.Group{
		Budget: budget, OnDelete: g.IsOnDelete(), UpdateOnDelete: selected.UpdateOnDelete,
		Keep: pool.Keeps(selected, md), Limits: pool.LimitsOf(selected, md),
	}
	var scenarios []rollouts.Scenario
	if update.Outcome == cover.InPlace || update.Outcome == cover.Unknown {
		of.Covered = true
		scenarios = append(scenarios, rollouts.Represent(of))
	}
	if update.Outcome != cover.InPlace {
		of.Covered = false
		scenarios = append(scenarios, rollouts.Represent(of))
	}
	m.add(g.Name, slices.CompactFunc(scenarios, func(a, b rollouts.Scenario) bool {
		return reflect.DeepEqual(a, b)
	})...)
}

// budgetOf returns the budget of a MachineDeployment. Percentages need at least one machine.
func budgetOf(md *clusterv1.MachineDeployment, onDelete bool) (pool.Budget, error) {
	replicas := max(*cmp.Or(md.Spec.Replicas, new(int32(1))), 1)
	if onDelete {
		return pool.Budget{Replicas: replicas}, nil
	}
	limits := md.Spec.Rollout.Strategy.RollingUpdate
	return pool.Resolve(replicas, cmp.Or(limits.MaxSurge, new(intstr.FromInt32(1))),
		limits.MaxUnavailable)
}

// addUnknown adds a group that cannot be explored.
func (m *machines) addUnknown(name, reason string) {
	at := slices.IndexFunc(m.unknown, func(u unknown) bool { return u.reason == reason })
	if at < 0 {
		m.unknown = append(m.unknown, unknown{reason: reason, groups: []string{name}})
		return
	}
	m.unknown[at].groups = append(m.unknown[at].groups, name)
}

// add adds a group. Groups that are alike are explored once.
func (m *machines) add(name string, scenarios ...rollouts.Scenario) {
	at := slices.IndexFunc(m.rollouts, func(r rollout) bool {
		return reflect.DeepEqual(r.scenarios, scenarios)
	})
	if at < 0 {
		m.rollouts = append(m.rollouts, rollout{groups: []string{name}, scenarios: scenarios})
		return
	}
	m.rollouts[at].groups = append(m.rollouts[at].groups, name)
}

// describe adds the notes. It drops rollouts beyond maxRollouts.
func (m *machines) describe() {
	m.describeUnexplored()
	if len(m.rollouts) > maxRollouts {
		var groups []string
		for _, r := range m.rollouts[maxRollouts:] {
			groups = append(groups, r.groups...)
		}
		m.rollouts, m.incomplete = m.rollouts[:maxRollouts], true
		m.note("the machines of %s are not explored: at most %d different rollouts are explored",
			some(groups), maxRollouts)
	}
	inPlace := false
	for _, r := range m.rollouts {
		ways := make([]string, 0, len(r.scenarios))
		for _, s := range r.scenarios {
			ways = append(ways, s.Describe())
			inPlace = inPlace || s.Covered && !s.Keep
		}
		m.note("the machines of %s are represented by %s", some(r.groups),
			strings.Join(ways, "; and, as it is unknown whether updaters cover the change, by "))
	}
	if inPlace {
		m.notes = append(m.notes, notInPlace)
	}
}

// describeUnexplored adds notes on groups of which no machines are explored.
func (m *machines) describeUnexplored() {
	if len(m.handedOver) > 0 {
		m.note("the machines of %s are handed over to an updater: Windlass' rules for hand-overs are "+
			"not explored", some(m.handedOver))
	}
	const most = 3
	var others []string
	for i, u := range m.unknown {
		m.incomplete = true
		if i >= most {
			others = append(others, u.groups...)
			continue
		}
		m.note("the machines of %s are not explored: %s", some(u.groups), u.reason)
	}
	if len(others) > 0 {
		m.note("the machines of %s are not explored, for similar reasons", some(others))
	}
}

// some joins the names of groups. It names at most three.
func some(groups []string) string {
	const most = 3
	return text.JoinSome(groups, most, ", ")
}

// explore visits all that can happen to the machines.
func (r rollout) explore(
	ctx context.Context, maxStates int,
) (view.VerifiedStudy, *view.Counterexample, error) {
	study := view.VerifiedStudy{Name: "machines of " + r.groups[0], Complete: true}
	began := time.Now()
	var varies []string
	for _, scenario := range r.scenarios {
		for _, s := range rollouts.Studies(scenario) {
			if !slices.Contains(varies, s.Varies) {
				varies = append(varies, s.Varies)
			}
			report, err := rollouts.Explore(ctx, s.Scenario, maxStates)
			if err != nil {
				return study, nil, fmt.Errorf("exploring %s: %w", study.Name, err)
			}
			study.States += report.States
			study.Transitions += report.Transitions
			study.Complete = study.Complete && report.Complete
			study.Seconds = time.Since(began).Seconds()
			if report.Violation != nil {
				study.Varies = s.Varies
				found := counterexample(study.Name, report.Violation)
				found.Trace = slices.Insert(found.Trace, 0, "begin: "+scenario.Describe())
				return study, found, nil
			}
		}
	}
	study.Varies = "one of: " + strings.Join(varies, "; ")
	return study, nil, nil
}

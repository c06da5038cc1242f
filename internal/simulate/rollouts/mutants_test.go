package rollouts

import (
	"slices"
	"strings"
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/pool"
	"github.com/windlass-dev/windlass/internal/simulate/search"
)

// edited is an engine that reads changed facts, or whose plan is changed.
func edited(in func(*pool.Group), out func(pool.Group, *pool.Plan)) Engine {
	return Engine{
		Needs: pool.Needs,
		Decide: func(g pool.Group, answers map[string]pool.Coverage) (pool.Plan, error) {
			seen := g
			if in != nil {
				in(&seen)
			}
			p, err := pool.Decide(seen, answers)
			if err == nil && out != nil {
				out(g, &p)
			}
			return p, err
		},
	}
}

// copyOf lets objects of a group be changed.
func copyOf(g *pool.Group) {
	g.MachineDeployment = g.MachineDeployment.DeepCopy()
	g.MachineSets, g.Machines = slices.Clone(g.MachineSets), slices.Clone(g.Machines)
	for i, set := range g.MachineSets {
		g.MachineSets[i] = set.DeepCopy()
	}
	for i, m := range g.Machines {
		g.Machines[i] = m.DeepCopy()
	}
}

// silent turns the comparison with stock off: invariants alone must find the fault.
func silent(s Scenario) Scenario {
	s.alone = true
	return s
}

// faulty are engines that are broken in one way each, and what the exploration says about them.
func faulty() map[string]struct {
	engine   Engine
	scenario Scenario
	want     string
} {
	type m = struct {
		engine   Engine
		scenario Scenario
		want     string
	}
	set := func(plan *pool.SetPlan, key, value string) {
		if plan != nil {
			plan.Desired.Annotations[key] = value
		}
	}
	return map[string]m{
		"takes another surge": {
			edited(func(g *pool.Group) {
				copyOf(g)
				g.MachineDeployment.Spec.Rollout.Strategy.RollingUpdate.MaxSurge.IntVal++
			}, nil),
			Scenario{Replicas: 2, Surge: 1}, "and at most 3 are allowed",
		},
		"takes another maxUnavailable": {
			edited(func(g *pool.Group) {
				copyOf(g)
				g.MachineDeployment.Spec.Rollout.Strategy.RollingUpdate.MaxUnavailable.IntVal++
			}, nil),
			Scenario{Replicas: 3, Surge: 1, Unavailable: 1}, "are available, and at least 2 must be",
		},
		"believes old counters": {
			edited(func(g *pool.Group) {
				g.Count = func(s *clusterv1.MachineSet, _ []*clusterv1.Machine) pool.Counts {
					return pool.StatusCounts(s)
				}
			}, nil),
			Scenario{Replicas: 2, Surge: 1, Unavailable: 1, notBegun: true, Scales: []int8{0, 2},
				Faults: Faults{Scales: 2, Changes: 1}},
			"allowed",
		},
		"believes that each spec was read": {
			edited(func(g *pool.Group) {
				copyOf(g)
				for _, s := range g.MachineSets {
					s.Status.Conditions[0].ObservedGeneration = s.Generation
				}
			}, nil),
			Scenario{Replicas: 3, Unavailable: 1, Keep: true, Covered: true,
				Faults: Faults{Changes: 1, Reverts: 1, Races: 1}}, "is counted twice",
		},
		"forgets which moves it counted": {
			edited(nil, func(_ pool.Group, p *pool.Plan) {
				if p.New != nil {
					delete(p.New.Desired.Annotations, clusterv1.AcknowledgedMoveAnnotation)
				}
			}),
			Scenario{Replicas: 2, Unavailable: 1, Covered: true}, "is counted twice",
		},
		"counts a move twice": {
			edited(nil, func(_ pool.Group, p *pool.Plan) {
				if len(p.Acknowledged) > 0 {
					*p.New.Desired.Spec.Replicas++
				}
			}),
			Scenario{Replicas: 2, Unavailable: 1, Covered: true}, "and at most 2 are allowed",
		},
		"does not let the new MachineSet receive": {
			edited(nil, func(_ pool.Group, p *pool.Plan) {
				if p.New != nil {
					delete(p.New.Desired.Annotations, clusterv1.MachineSetReceiveMachinesFromMachineSetsAnnotation)
				}
			}),
			Scenario{Replicas: 2, Unavailable: 1, Covered: true}, "the rollout has ended",
		},
		"moves what cannot be updated": {
			edited(nil, func(_ pool.Group, p *pool.Plan) {
				for i := range p.Old {
					set(&p.Old[i], clusterv1.MachineSetMoveMachinesToMachineSetAnnotation, p.New.Desired.Name)
					set(p.New, clusterv1.MachineSetReceiveMachinesFromMachineSetsAnnotation, p.Old[i].Desired.Name)
				}
			}),
			Scenario{Replicas: 2, Unavailable: 1}, "no update in place leads there",
		},
		"never scales down": {
			edited(nil, func(_ pool.Group, p *pool.Plan) {
				for _, old := range p.Old {
					*old.Desired.Spec.Replicas = *old.Current.Spec.Replicas
				}
			}),
			Scenario{Replicas: 2, Surge: 1}, "the rollout has ended",
		},
		"forgets an old MachineSet": {
			edited(func(g *pool.Group) {
				g.MachineSets = g.MachineSets[max(len(g.MachineSets)-2, 0):]
			}, nil),
			Scenario{Replicas: 2, Surge: 1, Faults: Faults{Changes: 1}}, "allowed",
		},
		"replaces kept Machines": {
			edited(func(g *pool.Group) { g.Keep = false }, nil),
			Scenario{Replicas: 2, Surge: 1, Keep: true}, "the rollout has ended", // MachineSets do not obey.
		},
		"does not look at the group": {
			Engine{}, Scenario{
				Replicas: 2, Unavailable: 2, Keep: true, blind: true, Covered: true,
				Faults: Faults{Reverts: 1, Races: 1},
			}, "there are 3 Machines",
		},
		"does not name the Machines that return": {
			edited(nil, func(_ pool.Group, p *pool.Plan) {
				for _, old := range p.Old {
					delete(old.Desired.Annotations, v1alpha1.ReturnMachinesAnnotation)
				}
			}),
			Scenario{Replicas: 2, Unavailable: 2, Keep: true, Covered: true,
				Faults: Faults{Reverts: 1}}, "the rollout has ended",
		},
		"keeps marks of a paused group": {
			edited(nil, func(g pool.Group, p *pool.Plan) {
				if *g.MachineDeployment.Spec.Replicas == 2 && p.New != nil {
					set(p.New, clusterv1.MachineSetReceiveMachinesFromMachineSetsAnnotation, "md-00009")
				}
			}),
			Scenario{Replicas: 2, Unavailable: 1, Covered: true}, "has marks",
		},
		"drops the mark to receive with the policy": {
			edited(nil, func(g pool.Group, p *pool.Plan) {
				if !g.Keep {
					delete(p.New.Desired.Annotations, clusterv1.MachineSetReceiveMachinesFromMachineSetsAnnotation)
				}
			}),
			Scenario{Replicas: 3, Unavailable: 2, Keep: true, UpdatesOnDelete: true, Covered: true,
				Limits: Limits{MaxInFlight: 2}, Faults: Faults{Flips: 1, Races: 1, Lags: 1}},
			"and the policy keeps Machines",
		},
		"lets Machines be deleted that were to move": {
			edited(nil, func(g pool.Group, p *pool.Plan) {
				for _, old := range p.Old {
					if !g.Keep {
						*old.Desired.Spec.Replicas = *old.Current.Spec.Replicas
					}
				}
			}),
			Scenario{Replicas: 2, Unavailable: 1, Keep: true, UpdatesOnDelete: true, Covered: true,
				Faults: Faults{Flips: 1}}, "the rollout deletes m00, and the policy keeps Machines",
		},
		"breaks deadlocks too early": {
			edited(nil, func(_ pool.Group, p *pool.Plan) {
				for _, old := range p.Old {
					if *old.Desired.Spec.Replicas > 0 && old.Counts.Available < old.Counts.Machines {
						*old.Desired.Spec.Replicas = 0
					}
				}
			}),
			Scenario{Replicas: 3, Unavailable: 1, Faults: Faults{Breaks: 1}}, "must be",
		},
	}
}

// TestExploreFindsFaults breaks the engine on purpose: invariants must find each fault without the
// comparison with stock, or the exploration proves nothing.
func TestExploreFindsFaults(t *testing.T) {
	t.Parallel()
	for name, tt := range faulty() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			finds(t, silent(tt.scenario), tt.engine, tt.want)
		})
	}
}

// finds explores what a broken engine does, and checks that a violation contains want.
func finds(t *testing.T, s Scenario, broken Engine, want string) *search.Violation {
	t.Helper()
	s.Engine = broken
	r, err := Explore(t.Context(), s, 20_000)
	if err != nil || !strings.Contains(r.Violation.String(), want) {
		t.Errorf("the fault is not found in %d states: want %q, got\n%v, %v", r.States, want,
			r.Violation, err)
	}
	return r.Violation
}

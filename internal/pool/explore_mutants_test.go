package pool_test

import (
	"slices"
	"strings"
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/pool"
)

// edited is a decider that reads changed facts, or whose plan is changed.
func edited(in func(*pool.Group), out func(pool.Group, *pool.Plan)) decider {
	return decider{
		needs: pool.Needs,
		decide: func(g pool.Group, answers map[string]pool.Coverage) (pool.Plan, error) {
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
func silent(s scenario) scenario {
	s.alone = true
	return s
}

// faulty are deciders that are broken in one way each, and what the exploration says about them.
func faulty() map[string]struct {
	decider  decider
	scenario scenario
	want     string
} {
	type m = struct {
		decider  decider
		scenario scenario
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
			scenario{replicas: 2, surge: 1}, "and at most 3 are allowed",
		},
		"takes another maxUnavailable": {
			edited(func(g *pool.Group) {
				copyOf(g)
				g.MachineDeployment.Spec.Rollout.Strategy.RollingUpdate.MaxUnavailable.IntVal++
			}, nil),
			scenario{replicas: 3, surge: 1, unavailable: 1}, "are available, and at least 2 must be",
		},
		"believes old counters": {
			edited(func(g *pool.Group) {
				g.Count = func(s *clusterv1.MachineSet, _ []*clusterv1.Machine) pool.Counts { return pool.StatusCounts(s) }
			}, nil),
			scenario{replicas: 2, surge: 1, unavailable: 1, notBegun: true, scales: []int8{0, 2}, faults: faults{scales: 2, changes: 1}},
			"allowed",
		},
		"believes that each spec was read": {
			edited(func(g *pool.Group) {
				copyOf(g)
				for _, s := range g.MachineSets {
					s.Status.Conditions[0].ObservedGeneration = s.Generation
				}
			}, nil),
			scenario{replicas: 3, unavailable: 1, keep: true, covered: upwards, faults: faults{changes: 1, reverts: 1, races: 1}}, "is counted twice",
		},
		"forgets which moves it counted": {
			edited(nil, func(_ pool.Group, p *pool.Plan) {
				if p.New != nil {
					delete(p.New.Desired.Annotations, clusterv1.AcknowledgedMoveAnnotation)
				}
			}),
			scenario{replicas: 2, unavailable: 1, covered: upwards}, "is counted twice",
		},
		"counts a move twice": {
			edited(nil, func(_ pool.Group, p *pool.Plan) {
				if len(p.Acknowledged) > 0 {
					*p.New.Desired.Spec.Replicas++
				}
			}),
			scenario{replicas: 2, unavailable: 1, covered: upwards}, "and at most 2 are allowed",
		},
		"does not let the new MachineSet receive": {
			edited(nil, func(_ pool.Group, p *pool.Plan) {
				if p.New != nil {
					delete(p.New.Desired.Annotations, clusterv1.MachineSetReceiveMachinesFromMachineSetsAnnotation)
				}
			}),
			scenario{replicas: 2, unavailable: 1, covered: upwards}, "the rollout has ended",
		},
		"moves what cannot be updated": {
			edited(nil, func(_ pool.Group, p *pool.Plan) {
				for i := range p.Old {
					set(&p.Old[i], clusterv1.MachineSetMoveMachinesToMachineSetAnnotation, p.New.Desired.Name)
					set(p.New, clusterv1.MachineSetReceiveMachinesFromMachineSetsAnnotation, p.Old[i].Desired.Name)
				}
			}),
			scenario{replicas: 2, unavailable: 1}, "no update in place leads there",
		},
		"never scales down": {
			edited(nil, func(_ pool.Group, p *pool.Plan) {
				for _, old := range p.Old {
					*old.Desired.Spec.Replicas = *old.Current.Spec.Replicas
				}
			}),
			scenario{replicas: 2, surge: 1}, "the rollout has ended",
		},
		"forgets an old MachineSet": {
			edited(func(g *pool.Group) { g.MachineSets = g.MachineSets[max(len(g.MachineSets)-2, 0):] }, nil),
			scenario{replicas: 2, surge: 1, faults: faults{changes: 1}}, "allowed",
		},
		"replaces kept Machines": {
			edited(func(g *pool.Group) { g.Keep = false }, nil),
			scenario{replicas: 2, surge: 1, keep: true}, "the rollout has ended", // MachineSets do not obey.
		},
		"does not look at the group": {
			sound, scenario{
				replicas: 2, unavailable: 2, keep: true, blind: true, covered: upwards, faults: faults{reverts: 1, races: 1},
			}, "there are 3 Machines",
		},
		"does not name the Machines that return": {
			edited(nil, func(_ pool.Group, p *pool.Plan) {
				for _, old := range p.Old {
					delete(old.Desired.Annotations, v1alpha1.ReturnMachinesAnnotation)
				}
			}),
			scenario{replicas: 2, unavailable: 2, keep: true, covered: upwards,
				faults: faults{reverts: 1}}, "the rollout has ended",
		},
		"keeps marks of a paused group": {
			edited(nil, func(g pool.Group, p *pool.Plan) {
				if *g.MachineDeployment.Spec.Replicas == 2 && p.New != nil {
					set(p.New, clusterv1.MachineSetReceiveMachinesFromMachineSetsAnnotation, "md-00009")
				}
			}),
			scenario{replicas: 2, unavailable: 1, covered: upwards}, "has marks",
		},
		"drops the mark to receive with the policy": {
			edited(nil, func(g pool.Group, p *pool.Plan) {
				if !g.Keep {
					delete(p.New.Desired.Annotations, clusterv1.MachineSetReceiveMachinesFromMachineSetsAnnotation)
				}
			}),
			scenario{replicas: 3, unavailable: 2, keep: true, updatesOnDelete: true, covered: upwards,
				bounds: bounds{maxInFlight: 2}, faults: faults{flips: 1, races: 1, lags: 1}},
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
			scenario{replicas: 2, unavailable: 1, keep: true, updatesOnDelete: true, covered: upwards,
				faults: faults{flips: 1}}, "the rollout deletes m00, and the policy keeps Machines",
		},
		"breaks deadlocks too early": {
			edited(nil, func(_ pool.Group, p *pool.Plan) {
				for _, old := range p.Old {
					if *old.Desired.Spec.Replicas > 0 && old.Counts.Available < old.Counts.Machines {
						*old.Desired.Spec.Replicas = 0
					}
				}
			}),
			scenario{replicas: 3, unavailable: 1, faults: faults{breaks: 1}}, "must be",
		},
	}
}

// TestExploreFindsFaults breaks the decider on purpose: invariants must find each fault without the
// comparison with stock, or the exploration proves nothing.
func TestExploreFindsFaults(t *testing.T) {
	t.Parallel()
	for name, tt := range faulty() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := explore(silent(tt.scenario), tt.decider, 20_000)
			if !strings.Contains(r.violation, tt.want) {
				t.Errorf("the fault is not found in %d states: want %q, got\n%s", r.states, tt.want, r.violation)
			}
		})
	}
}

package rollouts

import (
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/pool"
)

// forgedView draws objects that nobody's controller has left: any counters, marks and owners.
func forgedView(t *rapid.T) view {
	small := rapid.Int8Range(0, 6)
	maybe := rapid.Bool()
	v := view{md: deployment{
		replicas: small.Draw(t, "replicas"), template: rapid.Uint8Range(0, maxTemplates-1).Draw(t,
			"template"),
		revision: rapid.Uint8().Draw(t, "revision"), observed: true,
	}}
	for i := range v.sets {
		v.sets[i] = machineSet{
			exists: maybe.Draw(t, "set exists"), born: uint8(i), observed: maybe.Draw(t, "observed"),
			setSpec: setSpec{
				replicas: small.Draw(t, "set replicas"), moveTo: rapid.Uint8Range(0, maxTemplates).Draw(t,
					"to"),
				receive:      rapid.Uint8Range(0, 7).Draw(t, "receive"),
				acknowledged: rapid.Uint16Range(0, 255).Draw(t, "acknowledged"), revision: rapid.Uint8().Draw(t,
					"set revision"),
			},
			status: numbers{small.Draw(t, "machines"), small.Draw(t, "available"),
				small.Draw(t, "upToDate")},
		}
	}
	for i := range 6 {
		v.machines[i] = machine{
			exists: maybe.Draw(t, "exists"), owner: rapid.Uint8Range(0, maxTemplates-1).Draw(t, "owner"),
			node: maybe.Draw(t, "node"), available: maybe.Draw(t, "is available"), broken: maybe.Draw(t,
				"broken"),
			deleting: maybe.Draw(t, "deleting"), updating: maybe.Draw(t, "updating"),
			pending: maybe.Draw(t, "pending"), hook: maybe.Draw(t, "hook"),
		}
	}
	return v
}

// TestForgedObjects: whatever people write to MachineSets and Machines, a plan has no more Machines
// of the template than spec.replicas, raises no old MachineSet beyond the moves that it counts, and
// takes no more Machines from a kept group than are too many.
func TestForgedObjects(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		v := forgedView(t)
		s := Scenario{Surge: 1, Unavailable: 1, Keep: rapid.Bool().Draw(t, "keep")}
		if rapid.Bool().Draw(t, "limited") {
			s.Limits = Limits{Canary: 1, Batch: 1, Partition: 1, MaxInFlight: 1}
		}
		g := s.group(v)
		forgeTexts(t, g)
		questions, err := pool.Needs(g)
		if err != nil {
			return
		}
		answers := map[string]pool.Coverage{}
		for _, q := range questions {
			answers[q.Old.Name] = pool.Coverage{
				Answer: rapid.SampledFrom([]pool.Answer{pool.AnswerYes, pool.AnswerNo}).Draw(t, "answer"),
			}
		}
		p, err := pool.Decide(g, answers)
		if err != nil {
			return
		}
		checkForged(t, &v, s, p)
	})
}

// forgeTexts sets annotations to text that no controller writes.
func forgeTexts(t *rapid.T, g pool.Group) {
	text := rapid.SampledFrom([]string{",", ",,md-00009,", "-1", "md-00008", "99999999999999999999",
		"\x00", "m00,m00,m01"})
	for _, set := range g.MachineSets {
		for _, key := range []string{
			clusterv1.MachineSetMoveMachinesToMachineSetAnnotation, clusterv1.AcknowledgedMoveAnnotation,
			clusterv1.MachineSetReceiveMachinesFromMachineSetsAnnotation,
			clusterv1.DesiredReplicasAnnotation,
			clusterv1.MaxReplicasAnnotation, clusterv1.DisableMachineCreateAnnotation,
		} {
			if rapid.IntRange(0, 3).Draw(t, "forge") == 0 {
				set.Annotations[key] = text.Draw(t, key)
			}
		}
	}
	for _, m := range g.Machines {
		if rapid.IntRange(0, 3).Draw(t, "hook text") == 0 {
			m.Annotations[runtimev1.PendingHooksAnnotation] = text.Draw(t, "hooks")
		}
	}
}

func checkForged(t *rapid.T, v *view, s Scenario, p pool.Plan) {
	wanted := int32(v.md.replicas)
	if n := *p.New.Desired.Spec.Replicas; n < 0 || !s.Keep && n > wanted {
		t.Fatalf("the new MachineSet gets %d replicas of %d", n, wanted)
	}
	alive, deleted := int32(v.alive()), int32(0)
	for _, set := range p.Sets() {
		n, id := *set.Desired.Spec.Replicas, slotOf(set.Desired.Name)
		have := int32(0)
		for _, m := range v.machines {
			if m.exists && !m.deleting && m.owner == id {
				have++
			}
		}
		if set.Desired.Annotations[clusterv1.MachineSetMoveMachinesToMachineSetAnnotation] == "" {
			deleted += max(have-n, 0)
		}
		isNew := set.Desired.Name == p.New.Desired.Name
		if n < 0 || !isNew && !s.Keep && n > int32(v.sets[id].replicas)+int32(len(p.Acknowledged)) {
			t.Fatalf("%s gets %d replicas and had %d", set.Desired.Name, n, v.sets[id].replicas)
		}
	}
	foreign := int32(0) // Their MachineSet does not exist: no plan counts them.
	for _, m := range v.machines {
		if m.exists && !m.deleting && !v.sets[m.owner].exists && m.owner != v.md.template {
			foreign++
		}
	}
	if most := max(alive-foreign-wanted, 0); s.Keep && deleted > most {
		t.Fatalf("%d kept Machines are deleted, and %d are too many: %+v", deleted, most, p.Decisions)
	}
}

// TestForgedReplicas: a plan for a group with very many replicas is no longer than that of a few.
func TestForgedReplicas(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		keep   bool
		paused *bool
	}{
		"replaced": {}, "kept": {keep: true}, "kept, paused": {keep: true, paused: new(true)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := Scenario{Replicas: 2, Unavailable: 1, Keep: tt.keep, notBegun: tt.paused != nil}
			g := s.group(newExplorer(s).Begin().view)
			g.MachineDeployment.Spec.Replicas = new(int32(math.MaxInt32))
			g.MachineDeployment.Spec.Paused = tt.paused
			p, err := pool.Decide(g, map[string]pool.Coverage{setName(0): {Answer: pool.AnswerNo}})
			if err != nil {
				t.Fatal(err)
			}
			creates := slices.ContainsFunc(p.Decisions, func(d pool.Decision) bool {
				return d.Action == pool.Create
			})
			if !creates || len(p.Decisions) != len(g.Machines)+1 {
				t.Errorf("%d decisions about %d Machines: %v", len(p.Decisions), len(g.Machines), p.Decisions)
			}
		})
	}
}

// TestForeignMachines: Machines that match the selector and belong to another group, as where two
// MachineDeployments have one selector, neither take a turn nor count as in flight.
func TestForeignMachines(t *testing.T) {
	t.Parallel()
	for name, keep := range map[string]bool{"kept": true, "not kept": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := Scenario{Replicas: 2, Unavailable: 1, Keep: keep}
			w := newExplorer(s).Begin()
			allow := func(foreign bool) pool.Allowance {
				v := w.view
				if foreign {
					v.machines[5] = machine{exists: true, owner: 2, node: true, updating: true, hook: true}
				}
				g := s.group(v)
				g.Limits = &pool.Limits{
					MaxInFlight: 1, Order: policy.Order{Labels: []string{"rack"}, OneAtATime: true},
				}
				for i, m := range g.Machines {
					m.Labels = map[string]string{"rack": []string{"b", "c", "a"}[i]}
				}
				p, err := pool.Decide(g, map[string]pool.Coverage{setName(0): {Answer: pool.AnswerNo}})
				if err != nil {
					t.Fatal(err)
				}
				return p.Allowance
			}
			if diff := cmp.Diff(allow(false), allow(true)); diff != "" {
				t.Errorf("the allowance with a foreign Machine (-without +with):\n%s", diff)
			}
		})
	}
}

// TestKeptDeparturesInOrder: the MachineSet controller gives up the Machine whose turn it is.
func TestKeptDeparturesInOrder(t *testing.T) {
	t.Parallel()
	s := Scenario{Replicas: 2, Unavailable: 1, Keep: true}
	g := s.group(newExplorer(s).Begin().view)
	for i, m := range g.Machines {
		m.Labels = map[string]string{"rack": []string{"b", "a"}[i]}
	}
	f := pool.SetFacts{
		MachineSet: g.MachineSets[0], Machines: g.Machines, Deployment: g.MachineDeployment, Now: g.Now,
		Policy: policy.Policy{
			Guarded: true, Order: policy.Order{Labels: []string{"rack"}, OneAtATime: true},
		},
	}
	leave, err := f.Departures(2)
	if err != nil || len(leave) != 1 || leave[0].Machine.Name != machineName(1) {
		t.Errorf("departures %v, error %v, want only %s", leave, err, machineName(1))
	}
}

package verifycmd

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/pool"
	"github.com/windlass-dev/windlass/internal/simulate/rollouts"
	"github.com/windlass-dev/windlass/internal/snapshot"
	"github.com/windlass-dev/windlass/pkg/plan"
)

// TestFaultInMachines: the study of the default group finds an engine that ignores maxSurge. The
// counterexample begins with the group.
func TestFaultInMachines(t *testing.T) {
	t.Parallel()
	var m machines
	m.addDefaults([]plan.Group{{Name: "a"}, {Name: "b"}, {Name: "p", Kind: plan.MachinePool}})
	if len(m.rollouts) != 1 {
		t.Fatalf("%d groups are explored, want 1", len(m.rollouts))
	}
	r := m.rollouts[0]
	study, found, err := r.explore(t.Context(), 1_000)
	if err != nil || found != nil || study.Complete {
		t.Errorf("cut off: %+v, %+v, %v", study, found, err)
	}
	decide := func(g pool.Group, answers map[string]pool.Coverage) (pool.Plan, error) {
		g.MachineDeployment = g.MachineDeployment.DeepCopy()
		g.MachineDeployment.Spec.Rollout.Strategy.RollingUpdate.MaxSurge = new(intstr.FromInt32(2))
		return pool.Decide(g, answers)
	}
	for i := range r.scenarios {
		r.scenarios[i].Engine = rollouts.Engine{Decide: decide}
	}
	study, found, err = r.explore(t.Context(), defaultMaxStates)
	if err != nil || found == nil || found.Study != "machines of a" || study.Name != found.Study {
		t.Fatalf("the fault is not found: %+v, %+v, %v", study, found, err)
	}
	const begin = "begin: 3 machines, maxSurge 1, maxUnavailable 0, replaced"
	if len(found.Trace) < 2 || found.Trace[0] != begin ||
		!strings.Contains(found.Problem, "stock writes") {
		t.Errorf("the counterexample is %+v", found)
	}
}

// TestMachinesOfGroups: what is explored of a group depends on its strategy, policy and coverage.
func TestMachinesOfGroups(t *testing.T) {
	t.Parallel()
	group := func(name string) snapshot.UpdateGroup {
		return snapshot.UpdateGroup{
			Group: policy.Group{Namespace: "ns", Cluster: "prod", Topology: name, Object: name},
			Name:  name, MachineDeployment: &clusterv1.MachineDeployment{},
		}
	}
	bad := group("bad")
	bad.MachineDeployment.Spec.Rollout.Strategy.RollingUpdate.MaxSurge = new(intstr.FromString("x"))
	newPolicy := func(name string, spec v1alpha1.UpdatePolicySpec) v1alpha1.UpdatePolicy {
		p := v1alpha1.UpdatePolicy{Spec: spec}
		p.Namespace, p.Name = "ns", name
		p.Spec.Strategy = v1alpha1.ExternalUpdate
		p.Spec.Targets = []v1alpha1.UpdateTarget{{
			MachineDeployments: []v1alpha1.MachineDeploymentName{v1alpha1.MachineDeploymentName(name)},
		}}
		return p
	}
	policies := policy.CompileAll([]v1alpha1.UpdatePolicy{
		newPolicy("kept", v1alpha1.UpdatePolicySpec{}),
		newPolicy("handed", v1alpha1.UpdatePolicySpec{HandOver: v1alpha1.HandOverGroup}),
	})
	var m machines
	m.addGroup(group("plain"), policies, cover.Update{Outcome: cover.Replace})
	m.addGroup(group("alike"), policies, cover.Update{Outcome: cover.Replace})
	m.addGroup(group("kept"), policies, cover.Update{Outcome: cover.Unknown})
	m.addGroup(group("handed"), policies, cover.Update{Outcome: cover.InPlace})
	only := machines{rollouts: slices.Clone(m.rollouts)}
	if only.describe(); slices.Contains(only.notes, notInPlace) {
		t.Error("a known fault is noted, and only kept groups are updated in place")
	}
	m.addGroup(group("moved"), policies, cover.Update{Outcome: cover.InPlace})
	empty, onDelete := group("empty"), group("on-delete")
	empty.MachineDeployment.Spec.Replicas = new(int32(0))
	limits := &empty.MachineDeployment.Spec.Rollout.Strategy.RollingUpdate
	limits.MaxSurge = new(intstr.FromString("25%"))
	m.addGroup(empty, policies, cover.Update{Outcome: cover.Replace})
	onDelete.MachineDeployment.Spec.Rollout.Strategy = bad.MachineDeployment.Spec.Rollout.Strategy
	onDelete.MachineDeployment.Spec.Rollout.Strategy.Type =
		clusterv1.OnDeleteMachineDeploymentStrategyType
	m.addGroup(onDelete, policies, cover.Update{Outcome: cover.Unknown})
	if len(m.unknown) > 0 {
		t.Errorf("groups are unknown: %+v", m.unknown)
	}
	m.addGroup(bad, policies, cover.Update{Outcome: cover.Replace})
	if m.describe(); !m.incomplete {
		t.Error("a group whose strategy cannot be read is not unknown")
	}
	const kept = "1 machine, maxSurge 1, maxUnavailable 0, "
	want := []string{
		"the machines of handed are handed over to an updater: Windlass' rules for hand-overs are " +
			"not explored",
		"the machines of plain, alike, empty are represented by " + kept + "replaced",
		"the machines of kept are represented by " + kept +
			"updated in place, kept by the UpdatePolicy, maxInFlight 1, canary 1; " +
			"and, as it is unknown whether updaters cover the change, by " + kept +
			"no updater covers the change, kept by the UpdatePolicy, maxInFlight 1, canary 1",
		"the machines of moved are represented by " + kept + "updated in place",
		"the machines of on-delete are represented by 1 machine, strategy OnDelete, people delete them",
		notInPlace,
	}
	if !strings.Contains(m.notes[1], "the machines of bad are not explored: reading maxSurge") {
		t.Errorf("the note is %q", m.notes[1])
	}
	if diff := cmp.Diff(want, append(m.notes[:1:1], m.notes[2:]...)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestManyGroups: a note has the names of a few groups, and the number of the others.
func TestManyGroups(t *testing.T) {
	t.Parallel()
	var m machines
	for i := range 5_000 {
		m.add(fmt.Sprintf("pool-%d", i), rollouts.Represent(defaultStrategy))
		m.addUnknown(fmt.Sprintf("bad-%d", i), "two policies")
	}
	for _, name := range []string{"a", "b", "c", "d"} {
		m.addUnknown(name, "two policies for "+name)
	}
	m.describe()
	want := []string{
		"the machines of bad-0, bad-1, bad-2 and 4997 more are not explored: two policies",
		"the machines of a are not explored: two policies for a",
		"the machines of b are not explored: two policies for b",
		"the machines of c, d are not explored, for similar reasons",
		"the machines of pool-0, pool-1, pool-2 and 4997 more are represented by " +
			"3 machines, maxSurge 1, maxUnavailable 0, replaced",
	}
	if diff := cmp.Diff(want, m.notes); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

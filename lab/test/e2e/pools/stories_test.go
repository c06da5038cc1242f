package pools_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/lab/internal/setup"
	"github.com/windlass-dev/windlass/lab/test/e2e/internal/rig"
)

// blockedPools are the pools whose change stays blocked: of testBlocked and testBlockedHealth.
var blockedPools = []string{"blocked", "blocked-health"}

// Behaviours of a pool's own updater.
const (
	failing  = `{"updater": {"mode": "Fail"}}`
	stalling = `{"updater": {"mode": "Stall"}}`
	working  = `{"updater": {"mode": "Normal"}}`
)

// kubeletAhead is the reason for which a kept machine waits that is newer than its group.
const kubeletAhead = "KubeletAhead"

// coverageUnknown is the reason for which a pool waits while nobody answers.
const coverageUnknown = "CoverageUnknown"

// heldByPartition is the reason for which a pool waits whose policy keeps all machines at the old
// template.
const heldByPartition = "Partition"

// story is a pool of kept machines with an updater of its own, and what happens to it. No guard
// keeps anybody from creating and deleting its Machines.
type story struct {
	pool rig.Pool
	test func(ctx context.Context, t *testing.T, pool rig.Pool, u *rig.Updater)
}

func (p *plane) stories() []story {
	policy := func(change func(*v1alpha1.UpdatePolicySpec)) v1alpha1.UpdatePolicySpec {
		spec := v1alpha1.UpdatePolicySpec{Fallback: v1alpha1.FallbackNone, MaxAttempts: 1, MaxInFlight: 4}
		if change != nil {
			change(&spec)
		}
		return spec
	}
	return []story{
		{rig.Pool{Name: "canary", Replicas: 3, MaxUnavailable: 3, Policy: policy(nil)}, p.testCanary},
		{rig.Pool{Name: "budget", Replicas: 4, MaxUnavailable: 2,
			Policy: policy(func(s *v1alpha1.UpdatePolicySpec) {
				s.Canary = new(intstr.FromInt32(0))
			})}, p.testBudget},
		{rig.Pool{Name: "racks", Replicas: 4, MaxUnavailable: 1,
			Policy: policy(func(s *v1alpha1.UpdatePolicySpec) {
				s.Canary, s.OnDelete = new(intstr.FromInt32(0)), v1alpha1.OnDeleteInPlace
				s.Order = v1alpha1.UpdateOrder{Labels: []string{rackLabel}, OneAtATime: true}
			})}, p.testRacks},
		{rig.Pool{Name: blockedPools[0], Replicas: 2, MaxUnavailable: 1, Policy: policy(nil)},
			p.testBlocked},
		{rig.Pool{Name: blockedPools[1], Replicas: 3, MaxUnavailable: 1, Policy: policy(nil)},
			p.testBlockedHealth},
		{rig.Pool{Name: "growing", Replicas: 2, MaxUnavailable: 1, Policy: policy(nil)}, p.testGrowing},
		{rig.Pool{Name: "reverted", Replicas: 3, MaxUnavailable: 3,
			Policy: policy(func(s *v1alpha1.UpdatePolicySpec) {
				s.MaxInFlight, s.Canary = 1, new(intstr.FromInt32(0))
			})}, p.testReverted},
		{rig.Pool{Name: "health", Replicas: 3, MaxUnavailable: 1,
			Policy: policy(func(s *v1alpha1.UpdatePolicySpec) {
				s.OnFailure = v1alpha1.FailureRemediate
			})}, p.testHealth},
		{rig.Pool{Name: "repaired", Replicas: 2, MaxUnavailable: 1,
			Policy: policy(func(s *v1alpha1.UpdatePolicySpec) {
				s.Partition = new(intstr.FromInt32(2))
			})}, p.testRepaired},
	}
}

// testStories runs the stories side by side.
func (p *plane) testStories(ctx context.Context, t *testing.T) {
	t.Helper()
	for _, s := range p.stories() {
		t.Run(s.pool.Name, func(t *testing.T) {
			t.Parallel()
			u := p.NewUpdater(ctx, t,
				setup.SimulatedUpdater{Name: s.pool.Name, Selector: rig.Labelled("pool", s.pool.Name)})
			s.test(ctx, t, s.pool, u)
		})
	}
}

// census is which Machines of a pool there ever were.
func (p *plane) census(pool string) rig.Census {
	return p.Census(rig.PoolsCluster, func(m *clusterv1.Machine) bool {
		return m.Labels[clusterv1.MachineDeploymentNameLabel] == pool
	})
}

func started(ctx context.Context, t *testing.T, u *rig.Updater) int {
	t.Helper()
	n := 0
	for _, m := range u.Stats(ctx, t).Machines {
		if m.Started > 0 {
			n++
		}
	}
	return n
}

// updating returns the Machines of a pool on which an updater is at work.
func (p *plane) updating(ctx context.Context, t *testing.T, pool string) []clusterv1.Machine {
	t.Helper()
	return slices.DeleteFunc(p.MachinesOf(ctx, t, rig.PoolsCluster, pool),
		func(m clusterv1.Machine) bool {
			progress := rig.ProgressOf(&m)
			return progress == nil || progress.Phase != inplace.Updating
		})
}

// testCanary has the update of a pool's first machine fail. It stays unavailable. The updater
// touches no other one, although the budgets allow all of them and the pool is scaled; a person
// who asks for a retry has all updated.
func (p *plane) testCanary(ctx context.Context, t *testing.T, pool rig.Pool, u *rig.Updater) {
	t.Helper()
	before := p.census(pool.Name)
	u.Behave(ctx, t, failing)
	p.Send(ctx, t, pool.Name, nextVersion)
	var failed *clusterv1.Machine
	p.History.Await(ctx, t, "waiting until the canary has failed", func() string {
		for _, m := range p.MachinesOf(ctx, t, rig.PoolsCluster, pool.Name) {
			c := rig.Blocked(m.Status.Conditions)
			if c != nil && c.Reason == v1alpha1.UpdateFailedReason {
				failed = &m
				return ""
			}
		}
		return "no Machine has failed its update"
	})
	// An edit has the engine decide again. The failure blocks that decision, too.
	p.scale(ctx, t, pool.Name, pool.Replicas+1)
	p.History.Await(ctx, t, "waiting for a machine that was added", func() string {
		if n := len(p.MachinesOf(ctx, t, rig.PoolsCluster, pool.Name)); n != int(pool.Replicas)+1 {
			return fmt.Sprintf("there are %d machines", n)
		}
		return ""
	})
	if n := started(ctx, t, u); n != 1 {
		t.Errorf("the updater has begun with %d machines, want the canary alone", n)
	}
	if ever := p.everMarked(pool.Name); len(ever) != 1 || !ever.Has(failed.Name) {
		t.Errorf("the Machines %q were marked, want the canary %s alone", sets.List(ever), failed.Name)
	}
	u.Behave(ctx, t, working)
	rig.AnnotateObject(ctx, t, p.Client, failed, map[string]any{v1alpha1.UpdateRetryAnnotation: ""})
	p.awaitPool(ctx, t, pool.Name, nextVersion, int(pool.Replicas)+1)
	after := p.census(pool.Name)
	if len(after.All) != len(before.All)+1 || len(after.Deleted) != 0 {
		t.Errorf("scaling added one machine; the Machines are %+v", after)
	}
}

// everMarked names the Machines of a pool that were ever marked for an update.
func (p *plane) everMarked(pool string) sets.Set[string] {
	names := sets.New[string]()
	for _, f := range p.facts(pool) {
		if m, ok := f.Object.(*clusterv1.Machine); ok &&
			(rig.Marked(m) || m.Annotations[runtimev1.PendingHooksAnnotation] != "") {
			names.Insert(m.Name)
		}
	}
	return names
}

// testBudget has two of four machines updated without end. No third one is touched.
func (p *plane) testBudget(ctx context.Context, t *testing.T, pool rig.Pool, u *rig.Updater) {
	t.Helper()
	before := p.census(pool.Name)
	u.Behave(ctx, t, stalling)
	p.Send(ctx, t, pool.Name, nextVersion)
	p.History.Await(ctx, t, "waiting until two machines are updated", func() string {
		if n := len(p.updating(ctx, t, pool.Name)); n != 2 {
			return fmt.Sprintf("there are %d", n)
		}
		return ""
	})
	u.Behave(ctx, t, working)
	p.awaitPool(ctx, t, pool.Name, nextVersion, int(pool.Replicas))
	p.checkLimits(t, pool.Name, limitsOf(pool))
	rig.CheckCensus(t, before, p.census(pool.Name))
}

// rackLabel is the label by which the pool of testRacks has its order.
const rackLabel = "example.com/rack"

// testRacks has a pool with the strategy OnDelete updated in place, one rack at a time. The updater
// does not end: all machines of the first rack begin, and none of the second.
func (p *plane) testRacks(ctx context.Context, t *testing.T, pool rig.Pool, u *rig.Updater) {
	t.Helper()
	before := p.census(pool.Name)
	rig.Patch(ctx, t, p.Client, rig.MachineDeployment(pool.Name), map[string]any{
		"spec": map[string]any{"rollout": map[string]any{"strategy": map[string]any{
			"type": clusterv1.OnDeleteMachineDeploymentStrategyType, "rollingUpdate": nil,
		}}},
	})
	// The names say nothing about the racks: the first and the last one are in the first rack.
	machines := p.MachinesOf(ctx, t, rig.PoolsCluster, pool.Name)
	for i := range machines {
		rack := map[string]any{rackLabel: []string{"a", "b", "b", "a"}[i]}
		rig.Patch(ctx, t, p.Client, &machines[i],
			map[string]any{"metadata": map[string]any{"labels": rack}})
	}
	u.Behave(ctx, t, stalling)
	p.Send(ctx, t, pool.Name, nextVersion)
	p.History.Await(ctx, t, "waiting until two machines are updated", func() string {
		if n := started(ctx, t, u); n != 2 {
			return fmt.Sprintf("the updater has begun with %d", n)
		}
		return ""
	})
	for _, m := range p.updating(ctx, t, pool.Name) {
		if m.Labels[rackLabel] != "a" {
			t.Errorf("Machine %s of rack %s is being updated, want those of rack a", m.Name,
				m.Labels[rackLabel])
		}
	}
	u.Behave(ctx, t, working)
	p.awaitPool(ctx, t, pool.Name, nextVersion, int(pool.Replicas))
	rig.CheckCensus(t, before, p.census(pool.Name))
}

// testBlocked scales a pool up and down while its change is covered by no updater. Only scaling
// creates and deletes machines; what it creates has the change.
func (p *plane) testBlocked(ctx context.Context, t *testing.T, pool rig.Pool, _ *rig.Updater) {
	t.Helper()
	p.block(ctx, t, pool.Name)
	p.scale(ctx, t, pool.Name, 4)
	p.AwaitPool(ctx, t, pool.Name, rig.FirstVersion, 4)
	p.scale(ctx, t, pool.Name, 3)
	p.AwaitPool(ctx, t, pool.Name, rig.FirstVersion, 3)
	p.BlockedOwner(ctx, t, pool.Name, isNotCovered)
	machines := p.census(pool.Name)
	if len(machines.All) != 4 || len(machines.Deleted) != 1 {
		t.Errorf("scaling added two machines and removed one; the Machines are %+v", machines)
	}
}

// block makes a change of a pool that no updater covers. No Machine is created or deleted for it.
func (p *plane) block(ctx context.Context, t *testing.T, pool string) {
	t.Helper()
	before := p.census(pool)
	rig.Patch(ctx, t, p.Client, rig.MachineDeployment(pool), map[string]any{
		"spec": map[string]any{"template": map[string]any{"spec": map[string]any{
			"infrastructureRef": map[string]any{"name": "worker-slow"},
		}}},
	})
	p.BlockedOwner(ctx, t, pool, isNotCovered)
	rig.CheckCensus(t, before, p.census(pool))
}

func isNotCovered(c *metav1.Condition) bool { return c.Reason == v1alpha1.NotCoveredReason }

// testGrowing scales a pool up and down while a machine of it is updated.
func (p *plane) testGrowing(ctx context.Context, t *testing.T, pool rig.Pool, u *rig.Updater) {
	t.Helper()
	u.Behave(ctx, t, stalling)
	p.Send(ctx, t, pool.Name, nextVersion)
	first := p.awaitUpdate(ctx, t, pool.Name)
	p.scale(ctx, t, pool.Name, 4)
	p.History.Await(ctx, t, "waiting for four machines", func() string {
		if n := len(p.MachinesOf(ctx, t, rig.PoolsCluster, pool.Name)); n != 4 {
			return fmt.Sprintf("there are %d", n)
		}
		return ""
	})
	p.scale(ctx, t, pool.Name, 3)
	p.History.Await(ctx, t, "waiting for three machines", func() string {
		if n := len(p.MachinesOf(ctx, t, rig.PoolsCluster, pool.Name)); n != 3 {
			return fmt.Sprintf("there are %d", n)
		}
		return ""
	})
	u.Behave(ctx, t, working)
	p.awaitPool(ctx, t, pool.Name, nextVersion, 3)
	machines := p.census(pool.Name)
	if len(machines.All) != 4 || len(machines.Deleted) != 1 {
		t.Errorf("scaling added two machines and removed one; the Machines are %+v", machines)
	}
	if !slices.Contains(p.uids(ctx, t, pool.Name), first.UID) {
		t.Errorf("Machine %s, which was being updated, was deleted", first.Name)
	}
}

// testReverted reverts a rollout in which one machine is being updated and two wait for their turn.
// The two go back without a call of the updater. The third ends its update, and stays ahead of the
// pool, because no kubelet goes back a version, until the rollout begins again.
func (p *plane) testReverted(ctx context.Context, t *testing.T, pool rig.Pool, u *rig.Updater) {
	t.Helper()
	before := p.census(pool.Name)
	u.Behave(ctx, t, stalling)
	p.Send(ctx, t, pool.Name, nextVersion)
	first := p.awaitUpdate(ctx, t, pool.Name)
	p.History.Await(ctx, t, "waiting until all machines have moved", func() string {
		for _, m := range p.MachinesOf(ctx, t, rig.PoolsCluster, pool.Name) {
			if m.Annotations[runtimev1.PendingHooksAnnotation] == "" {
				return fmt.Sprintf("Machine %s has the annotations %v", m.Name, m.Annotations)
			}
		}
		return ""
	})
	p.Send(ctx, t, pool.Name, rig.FirstVersion)
	p.awaitOthers(ctx, t, pool.Name, first.UID)
	if n := started(ctx, t, u); n != 1 {
		t.Errorf("the updater has begun with %d machines, want 1", n)
	}
	u.Behave(ctx, t, working)
	p.BlockedOwner(ctx, t, pool.Name,
		func(c *metav1.Condition) bool { return c.Reason == kubeletAhead })
	p.awaitOthers(ctx, t, pool.Name, first.UID)
	if n := started(ctx, t, u); n != 1 {
		t.Errorf("the updater has begun with %d machines after the revert, want 1", n)
	}
	p.Send(ctx, t, pool.Name, nextVersion)
	p.awaitPool(ctx, t, pool.Name, nextVersion, int(pool.Replicas))
	l := limitsOf(pool)
	l.updating = 1
	p.checkLimits(t, pool.Name, l)
	rig.CheckCensus(t, before, p.census(pool.Name))
}

// awaitOthers waits until all Machines of a pool but one are at the first version, without marks.
func (p *plane) awaitOthers(ctx context.Context, t *testing.T, pool string, but types.UID) {
	t.Helper()
	p.History.Await(ctx, t, "waiting until machines have gone back", func() string {
		for _, m := range p.MachinesOf(ctx, t, rig.PoolsCluster, pool) {
			missing := rig.NotAt(&m, rig.FirstVersion)
			if m.UID != but && (missing != "" || rig.Marked(&m)) {
				return fmt.Sprintf("Machine %s: %s", m.Name, missing)
			}
		}
		return ""
	})
}

// awaitUpdate waits until a Machine of a pool is being updated, and returns it.
func (p *plane) awaitUpdate(ctx context.Context, t *testing.T,
	pool string) (first clusterv1.Machine) {
	t.Helper()
	p.History.Await(ctx, t, "waiting for an update", func() string {
		all := p.updating(ctx, t, pool)
		if len(all) == 0 {
			return "no Machine is being updated"
		}
		first = all[0]
		return ""
	})
	return first
}

func (p *plane) uids(ctx context.Context, t *testing.T, pool string) (all []types.UID) {
	t.Helper()
	for _, m := range p.MachinesOf(ctx, t, rig.PoolsCluster, pool) {
		all = append(all, m.UID)
	}
	return all
}

func (p *plane) scale(ctx context.Context, t *testing.T, pool string, replicas int32) {
	t.Helper()
	scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: replicas}}
	err := p.Client.SubResource("scale").Update(ctx, rig.MachineDeployment(pool),
		client.WithSubResourceBody(scale))
	if err != nil {
		t.Fatal(err)
	}
}

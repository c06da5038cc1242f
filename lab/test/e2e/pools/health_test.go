package pools_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/internal/history"
	"github.com/windlass-dev/windlass/lab/test/e2e/internal/rig"
)

// testBlockedHealth breaks a machine of a pool whose change the extension refuses, so that no
// update will repair it. It is replaced, and no other one.
func (p *plane) testBlockedHealth(
	ctx context.Context, t *testing.T, pool rig.Pool, _ *rig.Updater,
) {
	t.Helper()
	p.block(ctx, t, pool.Name)
	if err := p.Client.Create(ctx, rig.HealthCheck(pool.Name)); err != nil {
		t.Fatal(err)
	}
	broken := p.MachinesOf(ctx, t, rig.PoolsCluster, pool.Name)[0]
	p.BreakMachine(ctx, t, &broken)
	p.awaitGone(ctx, t, pool.Name, broken.UID)
	p.AwaitPool(ctx, t, pool.Name, rig.FirstVersion, int(pool.Replicas))
	p.BlockedOwner(ctx, t, pool.Name, isNotCovered)
	if machines := p.census(pool.Name); len(machines.All) != 4 || len(machines.Deleted) != 1 {
		t.Errorf("one Machine was unhealthy; the Machines are %+v", machines)
	}
}

// testHealth has a machine turn unhealthy while it is updated, and another one after the rollout.
// Each is replaced once, after its update. While the second one is remediated no update begins,
// because the budget of the pool is spent.
func (p *plane) testHealth(ctx context.Context, t *testing.T, pool rig.Pool, u *rig.Updater) {
	t.Helper()
	if err := p.Client.Create(ctx, rig.HealthCheck(pool.Name)); err != nil {
		t.Fatal(err)
	}
	u.Behave(ctx, t, stalling)
	p.Send(ctx, t, pool.Name, nextVersion)
	first := p.awaitUpdate(ctx, t, pool.Name)
	p.BreakMachine(ctx, t, &first)
	p.AwaitHealthCheck(ctx, t, pool.Name)
	if machines := p.census(pool.Name); len(machines.All) != 3 || len(machines.Deleted) != 0 {
		t.Fatalf("a Machine is replaced in the middle of its update: %+v", machines)
	}
	u.Behave(ctx, t, working)
	p.awaitGone(ctx, t, pool.Name, first.UID)
	p.awaitPool(ctx, t, pool.Name, nextVersion, 3)

	l := limitsOf(pool)
	facts := p.facts(pool.Name)
	remediation := l
	remediation.after = facts[len(facts)-1].Revision
	remediation.updating, remediation.marked = 0, 0
	p.testRemediation(ctx, t, pool)
	p.checkLimits(t, pool.Name, remediation)
	// Before, a machine may have turned unhealthy when the budget was spent: the MachineHealthCheck
	// looked at the first one again when its update had ended.
	l.least--
	p.checkLimits(t, pool.Name, l)
	if machines := p.census(pool.Name); len(machines.All) != 5 || len(machines.Deleted) != 2 {
		t.Errorf("two Machines were unhealthy; the Machines are %+v", machines)
	}
	p.checkUndisturbed(t, pool.Name)
}

// checkUndisturbed replays everything that happened to a pool. No Machine was deleted in the middle
// of its update, and no MachineHealthCheck told its owner to replace it then.
func (p *plane) checkUndisturbed(t *testing.T, pool string) {
	t.Helper()
	updated, broken := 0, sets.New[string]()
	fail := func(f history.Fact, what string, details any) {
		if rule := f.Name + " " + what; !broken.Has(rule) {
			broken.Insert(rule)
			t.Errorf("Machine %s at revision %d, in the middle of its update, %s: %+v", f.Name, f.Revision,
				what, details)
		}
	}
	for _, f := range p.facts(pool) {
		progress := rig.ProgressOf(f.Object)
		if f.Kind != history.KindMachine || progress == nil {
			continue
		}
		updated++
		if f.Deleting {
			fail(f, "is being deleted", progress)
		}
		if c := f.Condition(clusterv1.MachineOwnerRemediatedCondition); c != nil {
			fail(f, "is to be replaced by its owner", c)
		}
	}
	if updated == 0 {
		t.Errorf("no Machine of pool %s was ever updated", pool)
	}
}

// testRepaired has a machine turn unhealthy that waits for its update, because a partition holds
// the rollout. It is not replaced. It is the first machine that is updated, although its name is
// the last one, and it is healthy again before its update ends.
func (p *plane) testRepaired(ctx context.Context, t *testing.T, pool rig.Pool, u *rig.Updater) {
	t.Helper()
	before := p.census(pool.Name)
	if err := p.Client.Create(ctx, rig.HealthCheck(pool.Name)); err != nil {
		t.Fatal(err)
	}
	u.Behave(ctx, t, stalling)
	p.Send(ctx, t, pool.Name, nextVersion)
	p.BlockedOwner(ctx, t, pool.Name,
		func(c *metav1.Condition) bool { return c.Reason == heldByPartition })
	broken := p.MachinesOf(ctx, t, rig.PoolsCluster, pool.Name)[pool.Replicas-1]
	p.BreakMachine(ctx, t, &broken)
	p.awaitCondition(ctx, t, broken, clusterv1.MachineOwnerRemediatedCondition, metav1.ConditionFalse,
		clusterv1.MachineSetMachineCannotBeRemediatedReason)
	// Unavailable machines move first.
	p.awaitCondition(ctx, t, broken, clusterv1.MachineAvailableCondition, metav1.ConditionFalse, "")
	policy := &v1alpha1.UpdatePolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: rig.PoolsCluster, Name: pool.Name},
	}
	rig.Patch(ctx, t, p.Client, policy, map[string]any{"spec": map[string]any{"partition": nil}})
	if first := p.awaitUpdate(ctx, t, pool.Name); first.UID != broken.UID {
		t.Errorf("Machine %s is updated first, want %s, which is unhealthy", first.Name, broken.Name)
	}
	p.RepairMachine(ctx, t, &broken)
	p.awaitCondition(ctx, t, broken, clusterv1.MachineHealthCheckSucceededCondition,
		metav1.ConditionTrue, "")
	u.Behave(ctx, t, working)
	p.awaitPool(ctx, t, pool.Name, nextVersion, int(pool.Replicas))
	rig.CheckCensus(t, before, p.census(pool.Name))
}

// awaitCondition waits until a condition of a Machine has a status, and a reason unless it is
// empty. The Machine must stay.
func (p *plane) awaitCondition(
	ctx context.Context, t *testing.T, machine clusterv1.Machine, kind string,
	status metav1.ConditionStatus, reason string,
) {
	t.Helper()
	p.History.Await(ctx, t, "waiting for "+machine.Name, func() string {
		f := p.History.Machines(machine.Namespace)[machine.UID]
		if f.Deleting {
			t.Fatalf("Machine %s is deleted; its conditions are %+v", f.Name,
				rig.MachineOf(f).Status.Conditions)
		}
		c := f.Condition(kind)
		if c == nil || c.Status != status || reason != "" && c.Reason != reason {
			return fmt.Sprintf("its condition %s is %+v, want %s %s", kind, c, status, reason)
		}
		return ""
	})
}

// testRemediation begins another rollout in the middle of a remediation. When the engine has
// decided about the rollout, it is reverted, and the remediation continues.
func (p *plane) testRemediation(ctx context.Context, t *testing.T, pool rig.Pool) {
	t.Helper()
	const held = "example.com/held"
	broken := p.MachinesOf(ctx, t, rig.PoolsCluster, pool.Name)[0]
	setFinalizers := func(names []string) {
		t.Helper()
		rig.Patch(ctx, t, p.Client, &broken,
			map[string]any{"metadata": map[string]any{"finalizers": names}})
	}
	setFinalizers(append(slices.Clone(broken.Finalizers), held))
	p.BreakMachine(ctx, t, &broken)
	p.History.Await(ctx, t, "waiting until nothing but a finalizer keeps a Machine", func() string {
		for _, f := range p.facts(pool.Name) {
			if f.UID == broken.UID && slices.Equal(f.Object.GetFinalizers(), []string{held}) {
				return ""
			}
		}
		return broken.Name + " has others"
	})
	p.Send(ctx, t, pool.Name, "v1.31.2")
	p.awaitDecisions(ctx, t, pool.Name)
	for _, m := range p.MachinesOf(ctx, t, rig.PoolsCluster, pool.Name) {
		if rig.Marked(&m) {
			t.Fatalf("Machine %s is updated in the middle of a remediation", m.Name)
		}
	}
	p.Send(ctx, t, pool.Name, nextVersion)
	p.awaitDecisions(ctx, t, pool.Name)
	setFinalizers(nil)
	p.awaitGone(ctx, t, pool.Name, broken.UID)
	p.awaitPool(ctx, t, pool.Name, nextVersion, int(pool.Replicas))
}

// awaitDecisions has the engine decide about a pool again, and waits until it has, twice: the first
// decision may have begun before.
func (p *plane) awaitDecisions(ctx context.Context, t *testing.T, pool string) {
	t.Helper()
	for i := range 2 {
		md := rig.MachineDeployment(pool)
		rig.Patch(ctx, t, p.Client, md, map[string]any{"spec": map[string]any{
			"remediation": map[string]any{"maxInFlight": 10 + i},
		}})
		p.History.Await(ctx, t, "waiting until the engine has decided", func() string {
			seen := &clusterv1.MachineDeployment{}
			p.Cached(ctx, t, rig.PoolsCluster, pool, seen)
			if seen.Status.ObservedGeneration < md.Generation {
				return fmt.Sprintf("generation %d of %s is the last one", seen.Status.ObservedGeneration, pool)
			}
			return ""
		})
	}
}

func (p *plane) awaitGone(ctx context.Context, t *testing.T, pool string, uid types.UID) {
	t.Helper()
	p.History.Await(ctx, t, "waiting until an unhealthy machine of "+pool+" is replaced",
		func() string {
			for _, m := range p.MachinesOf(ctx, t, rig.PoolsCluster, pool) {
				if m.UID == uid {
					return fmt.Sprintf("Machine %s is there; its conditions are %+v", m.Name, m.Status.Conditions)
				}
			}
			return ""
		})
}

package pools_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/internal/setup"
	"github.com/windlass-dev/windlass/lab/test/e2e/internal/rig"
)

// testDown sends pools to a version while the extension is down. Nothing is decided, created or
// deleted for it, not even where the policy permits replacements. A person scales one of them. The
// extension's return has the updates done.
func (p *plane) testDown(ctx context.Context, t *testing.T) {
	t.Helper()
	before := map[string]rig.Census{}
	for _, pool := range downPools() {
		before[pool.Name] = p.census(pool.Name)
	}
	if _, err := p.StopChild(ctx, setup.ExtensionName); err != nil {
		t.Fatal(err)
	}
	for _, pool := range downPools() {
		p.Send(ctx, t, pool.Name, nextVersion)
	}
	for _, pool := range downPools() {
		p.History.Await(ctx, t, "waiting until the engine has tried to decide", func() string {
			seen := &clusterv1.MachineDeployment{}
			p.Cached(ctx, t, rig.PoolsCluster, pool.Name, seen)
			if !conditions.IsFalse(seen, clusterv1.MachineDeploymentMachinesUpToDateCondition) {
				return pool.Name + " does not count outdated machines"
			}
			return ""
		})
		if pool.Policy.Fallback == "" {
			c := p.BlockedOwner(ctx, t, pool.Name,
				func(c *metav1.Condition) bool { return c.Reason == coverageUnknown })
			t.Logf("while the extension is down: %s: %s", c.Reason, c.Message)
		}
		for _, m := range p.MachinesOf(ctx, t, rig.PoolsCluster, pool.Name) {
			if rig.Marked(&m) || m.Spec.Version != rig.FirstVersion {
				t.Errorf("nothing was decided, and Machine %s is at %s", m.Name, m.Spec.Version)
			}
		}
	}
	scaled := downPools()[0]
	p.growDown(ctx, t, scaled)
	before[scaled.Name] = p.census(scaled.Name)
	if _, err := p.StartChild(ctx, setup.ExtensionName); err != nil {
		t.Fatal(err)
	}
	for _, pool := range downPools() {
		l := limitsOf(pool)
		if pool.Name == scaled.Name {
			pool.Replicas++
			l.most++
			l.least++
		}
		p.awaitPool(ctx, t, pool.Name, nextVersion, int(pool.Replicas))
		p.checkLimits(t, pool.Name, l)
		rig.CheckCensus(t, before[pool.Name], p.census(pool.Name))
	}
}

// growDown scales a pool up by one machine while nobody decides about its change. The other machines
// stay as they are.
func (p *plane) growDown(ctx context.Context, t *testing.T, pool rig.Pool) {
	t.Helper()
	old := p.uids(ctx, t, pool.Name)
	p.scale(ctx, t, pool.Name, pool.Replicas+1)
	p.History.Await(ctx, t, "waiting for another machine", func() string {
		machines := p.MachinesOf(ctx, t, rig.PoolsCluster, pool.Name)
		for _, m := range machines {
			if rig.ConditionOf(m.Status.Conditions, clusterv1.MachineAvailableCondition) != "True" {
				return fmt.Sprintf("Machine %s is not available", m.Name)
			}
		}
		if len(machines) != int(pool.Replicas)+1 {
			return fmt.Sprintf("there are %d", len(machines))
		}
		return ""
	})
	kept := 0
	for _, m := range p.MachinesOf(ctx, t, rig.PoolsCluster, pool.Name) {
		isOld := slices.Contains(old, m.UID)
		if isOld {
			kept++
		}
		if rig.Marked(&m) || isOld && rig.NotAt(&m, rig.FirstVersion) != "" {
			t.Errorf("scaling has changed Machine %s: %s", m.Name, rig.NotAt(&m, rig.FirstVersion))
		}
	}
	if kept != len(old) {
		t.Errorf("%d of %d machines are left", kept, len(old))
	}
}

// testDownInUpdate stops the extension while a machine is being updated. The update ends when the
// extension has returned, without a second call to begin it, and then the other one is updated.
func (p *plane) testDownInUpdate(ctx context.Context, t *testing.T) {
	t.Helper()
	pool := updatingDown()
	u := p.NewUpdater(ctx, t,
		setup.SimulatedUpdater{Name: pool.Name, Selector: rig.Labelled("pool", pool.Name)})
	before := p.census(pool.Name)
	u.Behave(ctx, t, stalling)
	p.Send(ctx, t, pool.Name, nextVersion)
	first := p.awaitUpdate(ctx, t, pool.Name)
	p.History.Await(ctx, t, "waiting until the updater has begun", func() string {
		if n := started(ctx, t, u); n != 1 {
			return fmt.Sprintf("it has begun with %d machines", n)
		}
		return ""
	})
	if _, err := p.StopChild(ctx, setup.ExtensionName); err != nil {
		t.Fatal(err)
	}
	u.Behave(ctx, t, working)
	p.awaitUnanswered(ctx, t, first)
	if s := u.Stats(ctx, t); s.Started != 1 || s.Completed != 0 {
		t.Errorf("while the extension is down the updater has begun %d updates and ended %d, want 1 and 0",
			s.Started, s.Completed)
	}
	if _, err := p.StartChild(ctx, setup.ExtensionName); err != nil {
		t.Fatal(err)
	}
	p.awaitPool(ctx, t, pool.Name, nextVersion, int(pool.Replicas))
	for name, s := range u.Stats(ctx, t).Machines {
		if s.Started != 1 || s.Completed != 1 {
			t.Errorf("Machine %s was updated %d times, and %d updates have ended, want 1 of each", name,
				s.Started, s.Completed)
		}
	}
	p.checkLimits(t, pool.Name, limitsOf(pool))
	rig.CheckCensus(t, before, p.census(pool.Name))
}

// awaitUnanswered waits until the manager has asked the extension about a Machine's update in vain.
func (p *plane) awaitUnanswered(ctx context.Context, t *testing.T, m clusterv1.Machine) {
	t.Helper()
	p.History.Await(ctx, t, "waiting until the extension was asked in vain", func() string {
		c := p.History.Machines(m.Namespace)[m.UID].Condition(clusterv1.MachineUpdatingCondition)
		if c == nil || c.Reason != clusterv1.MachineInPlaceUpdateFailedReason {
			return fmt.Sprintf("the condition is %+v", c)
		}
		return ""
	})
}

// downPools are sent to a version while the extension is down. The policy of the second one permits
// replacements.
func downPools() []rig.Pool {
	replaceable := keptPool("down-replaceable")
	replaceable.Policy.Fallback = v1alpha1.FallbackRollingUpdate
	return []rig.Pool{keptPool("down"), replaceable}
}

// updatingDown is a pool with an updater of its own that is updated when the extension stops.
func updatingDown() rig.Pool { return keptPool("down-updating") }

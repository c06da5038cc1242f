package pools_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/internal/history"
	"github.com/windlass-dev/windlass/lab/internal/setup"
	"github.com/windlass-dev/windlass/lab/test/e2e/internal/rig"
)

const killedPrefix = "killed-"

// killedPools are in the middle of a rollout while the manager is killed and frozen.
func killedPools() []rig.Pool {
	return []rig.Pool{
		{Name: killedPrefix + "kept", Replicas: 4, MaxUnavailable: 2,
			Policy: v1alpha1.UpdatePolicySpec{MaxInFlight: 2, Drain: true}},
		{Name: killedPrefix + "replaced", Replicas: 3, MaxSurge: 1, NoPolicy: true},
	}
}

// testKills sends two pools from version to version while the manager is killed and frozen at
// random points, until there were enough of both. Limits hold at each revision, and kept Machines
// are the same ones.
func (p *plane) testKills(ctx context.Context, t *testing.T) {
	t.Helper()
	kills, stops := 6, 3
	if long() {
		kills, stops = 50, 20
	}
	pools := killedPools()
	kept := func(m *clusterv1.Machine) bool {
		return m.Labels[clusterv1.MachineDeploymentNameLabel] == pools[0].Name
	}
	before := p.Census(rig.PoolsCluster, kept)
	var rounds sync.WaitGroup
	enough := make(chan struct{})
	for _, pool := range pools {
		rounds.Go(func() {
			for patch := 1; ; patch++ {
				version := fmt.Sprintf("v1.31.%d", patch)
				p.Send(ctx, t, pool.Name, version)
				p.awaitPool(ctx, t, pool.Name, version, int(pool.Replicas))
				select {
				case <-enough:
					t.Logf("pool %s is at %s", pool.Name, version)
					return
				default:
				}
			}
		})
	}
	p.harass(ctx, t, kills, stops)
	close(enough)
	rounds.Wait()
	for _, pool := range pools {
		p.checkLimits(t, pool.Name, limitsOf(pool))
	}
	rig.CheckCensus(t, before, p.Census(rig.PoolsCluster, kept))
}

// harass kills and freezes the manager, in a random order, at random points that are counted in
// states of the pools' objects. A signal counts if a rollout was under way before and after it.
func (p *plane) harass(ctx context.Context, t *testing.T, kills, stops int) {
	t.Helper()
	const (
		mostStates = 25
		mostDelay  = 400 * time.Millisecond
		mostFrozen = 3 * time.Second
	)
	random := rand.New(rand.NewPCG(*seed, 0))
	// What happens while nobody waits does not count.
	states := make(chan struct{})
	p.History.OnFact(func(f history.Fact) {
		if f.Group != killedPools()[0].Name && f.Group != killedPools()[1].Name {
			return
		}
		select {
		case states <- struct{}{}:
		default:
		}
	})
	await := func() {
		select {
		case <-states:
		case <-ctx.Done():
			t.Fatal(context.Cause(ctx))
		}
	}
	for kills+stops > 0 {
		for range 1 + random.IntN(mostStates) {
			await()
		}
		pause(ctx, time.Duration(random.Int64N(int64(mostDelay))))
		for !p.underWay(ctx, t, p.History) {
			await()
		}
		if random.IntN(kills+stops) < kills {
			kills -= p.killManager(ctx, t)
			continue
		}
		pid := p.pid(ctx, t, setup.ManagerName)
		signal(t, pid, syscall.SIGSTOP)
		stops -= p.counts(ctx, t)
		pause(ctx, time.Duration(random.Int64N(int64(mostFrozen))))
		signal(t, pid, syscall.SIGCONT)
	}
}

// killManager kills the manager and starts it again. It returns 1 if that counts.
func (p *plane) killManager(ctx context.Context, t *testing.T) (counted int) {
	t.Helper()
	if _, err := p.KillChild(ctx, setup.ManagerName); err != nil {
		t.Fatal(err)
	}
	counted = p.counts(ctx, t)
	// At once: the pauses between restarts grow when a process does not live long.
	if _, err := p.StartChild(ctx, setup.ManagerName); err != nil {
		t.Fatal(err)
	}
	return counted
}

// counts returns 1 if a rollout is under way in the API server now that the manager writes nothing,
// and 0 otherwise.
func (p *plane) counts(ctx context.Context, t *testing.T) int {
	t.Helper()
	if p.underWay(ctx, t, p.Client) {
		return 1
	}
	t.Log("the manager has ended a rollout before a signal, which does not count")
	return 0
}

// underWay reports whether a killed pool is in the middle of a rollout: one of its Machines is
// marked, is being deleted, or is not at the pool's version.
func (p *plane) underWay(ctx context.Context, t *testing.T, from client.Reader) bool {
	t.Helper()
	for _, pool := range killedPools() {
		md, machines := rig.MachineDeployment(pool.Name), &clusterv1.MachineList{}
		if err := from.Get(ctx, client.ObjectKeyFromObject(md), md); err != nil {
			t.Fatal(err)
		}
		if err := from.List(ctx, machines, client.InNamespace(md.Namespace),
			client.MatchingLabels{clusterv1.MachineDeploymentNameLabel: pool.Name}); err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(machines.Items, func(m clusterv1.Machine) bool {
			return rig.Marked(&m) || !m.DeletionTimestamp.IsZero() ||
				m.Spec.Version != md.Spec.Template.Spec.Version
		}) {
			return true
		}
	}
	return false
}

func signal(t *testing.T, pid int, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, s); err != nil {
		t.Fatalf("sending %s to the manager: %v", s, err)
	}
}

// pause lets random time pass: what matters is also what lies between two writes.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

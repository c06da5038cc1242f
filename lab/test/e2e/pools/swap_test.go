package pools_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/lab/internal/history"
	"github.com/windlass-dev/windlass/lab/internal/setup"
	"github.com/windlass-dev/windlass/lab/test/e2e/internal/rig"
)

// keepPrefix and rollPrefix begin the names of pools whose machines are kept, and replaced.
const (
	keepPrefix = "keep-"
	rollPrefix = "roll-"
)

var prefixes = []string{keepPrefix, rollPrefix}

// stage is a point of a rollout at which engines change: the first fact of the pool that matches.
type stage struct {
	name  string
	match func(history.Fact) bool
	// cordoned reports that a node of the pool is cordoned at this stage.
	cordoned bool
}

func annotated(kind, key string) func(history.Fact) bool {
	return func(f history.Fact) bool {
		_, is := f.Object.GetAnnotations()[key]
		return f.Kind == kind && !f.Gone && is
	}
}

func setOf(version string) func(history.Fact) bool {
	return func(f history.Fact) bool {
		set, ok := f.Object.(*clusterv1.MachineSet)
		return ok && set.Spec.Template.Spec.Version == version
	}
}

// keepStages are in the order of a rollout that keeps machines.
func keepStages() []stage {
	return []stage{
		{name: "the MachineSet is new", match: setOf(nextVersion)},
		{name: "a move is announced",
			match: annotated(kindSet, clusterv1.MachineSetMoveMachinesToMachineSetAnnotation)},
		{name: "a Machine has moved",
			match: annotated(history.KindMachine, clusterv1.PendingAcknowledgeMoveAnnotation)},
		{name: "a move is acknowledged",
			match: annotated(kindSet, clusterv1.AcknowledgedMoveAnnotation)},
		{name: "a Machine has its new version", match: func(f history.Fact) bool {
			return f.Kind == history.KindMachine && f.Version == nextVersion
		}},
		{name: "the hook is pending",
			match: annotated(history.KindMachine, runtimev1.PendingHooksAnnotation)},
		{name: "the updater is at work", cordoned: true, match: func(f history.Fact) bool {
			progress := rig.ProgressOf(f.Object)
			return f.Kind == history.KindMachine && progress != nil && progress.Phase == inplace.Updating
		}},
		{name: "a Machine is done", match: func(f history.Fact) bool {
			m := rig.MachineOf(f)
			return m != nil && rig.NotAt(m, nextVersion) == ""
		}},
	}
}

// rollStages are in the order of a rollout that replaces machines.
func rollStages() []stage {
	return []stage{
		{name: "the MachineSet is new", match: setOf(nextVersion)},
		{name: "a Machine is created", match: func(f history.Fact) bool {
			return f.Kind == history.KindMachine && f.Version == nextVersion
		}},
		{name: "a new Machine is ready", match: func(f history.Fact) bool {
			return f.Kind == history.KindMachine && f.At(nextVersion)
		}},
		{name: "a Machine is being deleted", match: func(f history.Fact) bool {
			return f.Kind == history.KindMachine && f.Deleting && !f.Gone
		}},
		{name: "a Machine is gone", match: func(f history.Fact) bool {
			return f.Kind == history.KindMachine && f.Gone
		}},
	}
}

// swap is a pool whose engine is changed at a stage.
type swap struct {
	stage
	pool rig.Pool
}

func keptPool(name string) rig.Pool {
	return rig.Pool{Name: keepPrefix + name, Replicas: 2, MaxUnavailable: 1,
		Policy: v1alpha1.UpdatePolicySpec{MaxInFlight: 2, Drain: true}}
}

func replacedPool(name string) rig.Pool {
	return rig.Pool{Name: rollPrefix + name, Replicas: 2, MaxSurge: 1, NoPolicy: true}
}

// shortSwaps is how many stages the short form has: other ones with each seed, and always one at
// which a node is cordoned.
const shortSwaps = 6

// swaps are one for each stage, twice: the number of stages is odd, so that each stage has both
// directions. The short form has some of them.
func swaps() []swap {
	var all []swap
	for round := range 2 {
		for i, s := range keepStages() {
			all = append(all, swap{s, keptPool(fmt.Sprintf("%d-%d", round, i))})
			if rolls := rollStages(); i < len(rolls) {
				all = append(all, swap{rolls[i], replacedPool(fmt.Sprintf("%d-%d", round, i))})
			}
		}
	}
	if long() {
		return all
	}
	random := rand.New(rand.NewPCG(*seed, 1))
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	cordoned := slices.IndexFunc(all, func(s swap) bool { return s.cordoned })
	if cordoned >= shortSwaps {
		last := shortSwaps - 1
		all[cordoned], all[last] = all[last], all[cordoned]
	}
	return all[:shortSwaps]
}

// basePools are updated by one engine alone.
func basePools() []rig.Pool {
	var pools []rig.Pool
	for _, engine := range []setup.Engine{setup.EngineWindlass, setup.EngineStock} {
		pools = append(pools, keptPool(string(engine)), replacedPool(string(engine)))
	}
	return pools
}

// crashedPools are those whose engine crashes.
func crashedPools() (pools []rig.Pool) {
	for _, s := range swaps() {
		pools = append(pools, s.pool)
	}
	return pools
}

// swapPools are all that testSwaps needs.
func swapPools() []rig.Pool { return append(basePools(), crashedPools()...) }

// testSwaps crashes the engine at every stage and puts the other one in its place. A pool's
// rollout is under way while engines change for the next pools, too. All pools end alike under each
// engine, and those that one engine alone has updated are alike, too.
func (p *plane) testSwaps(ctx context.Context, t *testing.T) {
	t.Helper()
	kept := func(m *clusterv1.Machine) bool {
		return strings.HasPrefix(m.Labels[clusterv1.MachineDeploymentNameLabel], keepPrefix)
	}
	before := p.Census(rig.PoolsCluster, kept)
	engine := setup.EngineWindlass
	for _, s := range swaps() {
		from := engine
		engine = p.crashAt(ctx, t, p.crashOf(ctx, t, s, from))
		t.Logf("%s: from %s to %s", s.name, from, engine)
	}
	for _, s := range swaps() {
		p.awaitPool(ctx, t, s.pool.Name, nextVersion, int(s.pool.Replicas))
	}
	p.Switch(ctx, t, setup.EngineStock)
	p.sendBase(ctx, t, setup.EngineStock)
	p.compareWith(ctx, t, setup.EngineStock, crashedPools())
	byStock := map[string][]string{}
	for _, prefix := range prefixes {
		byStock[prefix] = p.shape(ctx, t, prefix+string(setup.EngineStock))
	}
	p.Switch(ctx, t, setup.EngineWindlass)
	p.sendBase(ctx, t, setup.EngineWindlass)
	for _, prefix := range prefixes {
		p.awaitShape(ctx, t, prefix+string(setup.EngineWindlass), "one that Cluster API has updated",
			func() []string { return byStock[prefix] })
	}
	p.compareWith(ctx, t, setup.EngineWindlass, swapPools())
	for _, pool := range swapPools() {
		p.checkLimits(t, pool.Name, limitsOf(pool))
	}
	rig.CheckCensus(t, before, p.Census(rig.PoolsCluster, kept))
}

// crashOf is the crash of an engine at the stage of a swap.
func (p *plane) crashOf(ctx context.Context, t *testing.T, s swap, from setup.Engine) crash {
	t.Helper()
	return crash{
		from: from,
		at: func(f history.Fact) bool {
			return f.Group == s.pool.Name && f.Cluster.Namespace == rig.PoolsCluster && s.match(f)
		},
		act: func() { p.Send(ctx, t, s.pool.Name, nextVersion) },
		frozen: func() {
			if s.cordoned && len(p.cordons(ctx, t, s.pool.Name)) == 0 {
				t.Errorf("%s: no node of pool %s is cordoned", s.name, s.pool.Name)
			}
		},
	}
}

// sendBase has the engine that runs update its base pools.
func (p *plane) sendBase(ctx context.Context, t *testing.T, engine setup.Engine) {
	t.Helper()
	for _, prefix := range prefixes {
		p.Send(ctx, t, prefix+string(engine), nextVersion)
	}
	for _, prefix := range prefixes {
		p.awaitPool(ctx, t, prefix+string(engine), nextVersion, 2)
	}
}

// compareWith waits until the objects of pools have the shape of those that the engine which runs has
// updated alone.
func (p *plane) compareWith(
	ctx context.Context, t *testing.T, engine setup.Engine, pools []rig.Pool,
) {
	t.Helper()
	for _, pool := range pools {
		like := pool.Name[:len(keepPrefix)] + string(engine)
		p.awaitShape(ctx, t, pool.Name, like, func() []string { return p.shape(ctx, t, like) })
	}
}

// awaitPool is AwaitPool, and waits until nothing of a move is left, and the status counts all
// machines.
func (p *plane) awaitPool(ctx context.Context, t *testing.T, name, version string, replicas int) {
	t.Helper()
	p.AwaitPool(ctx, t, name, version, replicas)
	p.History.Await(ctx, t, "waiting for the status of pool "+name, func() string {
		md := &clusterv1.MachineDeployment{}
		if !p.Cached(ctx, t, rig.PoolsCluster, name, md) {
			return "there is no MachineDeployment"
		}
		s := md.Status
		for _, n := range []*int32{s.Replicas, s.AvailableReplicas, s.UpToDateReplicas} {
			if n == nil || int(*n) != replicas {
				return fmt.Sprintf("its status is %+v", s)
			}
		}
		return ""
	})
}

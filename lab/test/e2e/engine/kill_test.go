package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/lab/internal/history"
	"github.com/windlass-dev/windlass/lab/internal/setup"
	"github.com/windlass-dev/windlass/lab/test/e2e/internal/rig"
)

var killed = inAsked("killed")

// testKills upgrades a Cluster by two minors, in the long form three, while the manager is killed again and again: no step is lost or taken twice, and a hook is called again
// only across a kill.
func (w *world) testKills(ctx context.Context, t *testing.T) {
	t.Helper()
	// Most kills at once make a chain slow: a manager that has just started reads everything first.
	v := versions()
	target, least, mostStates := 3, 5, 60
	if long() {
		target, least, mostStates = 4, 50, 12
	}
	w.AwaitArrived(ctx, t, killed, v[1])
	stop := w.kill(ctx, t, mostStates)
	// A chain that ends before there were enough kills gets the others at its last hook, which holds it until then.
	last := rule{Cluster: killed.Name, Hook: "AfterClusterUpgrade", RetryAfterSeconds: 1, Message: "more kills"}
	w.extension.set(t, last)
	w.SetTarget(ctx, t, killed, v[target])
	w.awaitMessage(ctx, t, killed, "hook AfterClusterUpgrade")
	kills := stop()
	for ; kills < least; kills++ {
		if err := w.killOnce(ctx); err != nil {
			t.Fatal(err)
		}
	}
	w.extension.set(t, rule{Cluster: killed.Name, Hook: last.Hook})
	w.History.Await(ctx, t, "waiting until the last hook has passed", func() string { return w.History.Now(killed).Cluster.Hooks() })
	w.AwaitArrived(ctx, t, killed, v[target])

	w.History.CheckOrder(t, killed, rig.Ways{"": v[2 : target+1], "md-0": v[2 : target+1], "md-1": v[2 : target+1]}, 1)
	order, repeated := completed(w.extension.calls(t, killed))
	if diff := cmp.Diff(append(creationHooks(), upgradeHooks(v[2:target+1]...)...), order); diff != "" {
		t.Errorf("hooks (-want +got):\n%s", diff)
	}
	if len(repeated) > kills {
		t.Errorf("the manager was killed %d times, and these were called again: %q", kills, repeated)
	}
	t.Logf("killed %d times; called again: %q", kills, repeated)
}

// kill kills the manager at random points, counted in states of objects, mostStates apart at most, until the returned function is called; that one returns how often.
func (w *world) kill(ctx context.Context, t *testing.T, mostStates int) (stop func() int) {
	t.Helper()
	const mostDelay = 1500 * time.Millisecond
	t.Logf("the seed is %d", *seed)
	random := rand.New(rand.NewPCG(*seed, 0))
	states := make(chan struct{}, 1024)
	w.History.OnFact(func(f history.Fact) {
		if f.Cluster != killed {
			return
		}
		select {
		case states <- struct{}{}:
		default:
		}
	})
	ctx, cancel := context.WithCancel(ctx)
	kills := 0
	var group sync.WaitGroup
	group.Go(func() {
		for w.awaitPoint(ctx, states, 1+random.IntN(mostStates), time.Duration(random.Int64N(int64(mostDelay)))) {
			if err := w.killOnce(ctx); err != nil {
				t.Error(err)
				return
			}
			kills++
		}
	})
	return func() int {
		cancel()
		group.Wait()
		return kills
	}
}

// killOnce kills the manager, and starts it again, also if ctx ends meanwhile: a kill that nobody waits for
// would leave it dead.
func (w *world) killOnce(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	if _, err := w.KillChild(ctx, setup.ManagerName); err != nil {
		return fmt.Errorf("killing the manager: %w", err)
	}
	if _, err := w.StartChild(ctx, setup.ManagerName); err != nil {
		return fmt.Errorf("starting the manager again: %w", err)
	}
	return nil
}

// awaitPoint waits for states to be written and a while longer: what matters is also what lies between. It is false when ctx has ended.
func (w *world) awaitPoint(ctx context.Context, states <-chan struct{}, count int, delay time.Duration) bool {
	for range count {
		select {
		case <-states:
		case <-ctx.Done():
			return false
		}
	}
	select {
	case <-time.After(delay):
		return true
	case <-ctx.Done():
		return false
	}
}

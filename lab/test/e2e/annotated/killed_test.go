package annotated_test

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace/request"
	"github.com/windlass-dev/windlass/internal/updaters/k8sd/k8sdtest"
	"github.com/windlass-dev/windlass/lab/internal/history"
	"github.com/windlass-dev/windlass/lab/internal/setup"
)

const (
	channel        = "channel=1.32-classic/stable"
	channelVersion = "v1.32.5"
	// maxInFlight is that of the sample's UpdatePolicy.
	maxInFlight = 5
	leastKills  = 10
)

// testKilled upgrades the control plane and the workers at the same time, while the extension is killed again and again.
func (c *cluster) testKilled(ctx context.Context, t *testing.T) {
	t.Helper()
	c.story.Await(ctx, t, "waiting for the cluster", func() string { return c.notSettled(3, firstVersion) })
	before := c.story.uids(c.name)
	stop := sync.OnceValue(c.kill(ctx, t))
	defer stop()
	began := time.Now()
	waits := map[string]func() result{
		"controlplane":      c.begin(ctx, t, "upgrade", "controlplane", c.name, "-n", c.name, "--to", channel),
		"machinedeployment": c.begin(ctx, t, "upgrade", "machinedeployment", c.group().Name, "-n", c.name, "--to", channel),
	}
	for _, what := range slices.Sorted(maps.Keys(waits)) {
		if r := waits[what](); r.code != 0 {
			t.Fatalf("upgrade %s: exit status %d\n%s", what, r.code, r.output)
		}
	}
	ended := time.Since(began)
	c.story.Await(ctx, t, "waiting until the versions are raised", func() string { return c.notSettled(3, channelVersion) })
	kills := stop()
	t.Logf("the upgrade took %.0f s, and %.0f s with the versions raised; the extension was killed %d times", ended.Seconds(), time.Since(began).Seconds(), kills)
	if kills < leastKills {
		t.Errorf("the extension was killed %d times, want %d at least", kills, leastKills)
	}

	if diff := cmp.Diff(before, c.story.uids(c.name)); diff != "" {
		t.Errorf("Machines were replaced (-before +after):\n%s", diff)
	}
	c.checkEnd(t)
	c.checkOrder(t)
	c.checkRefreshes(ctx, t)
	c.checkEventsOnce(ctx, t, kills)
	c.checkTidy(ctx, t)
}

// checkEnd sees that the release is on everything, and nothing else is left.
func (c *cluster) checkEnd(t *testing.T) {
	t.Helper()
	all := append(c.story.now(c.name, kindMachine), c.story.one(kindControlPlane, c.key()), c.story.one(kindGroup, c.group()))
	for _, s := range all {
		if s.marks != (request.Marks{Status: request.Done, Release: channel}) || s.upgrade != nil || s.condition != nil {
			t.Errorf("at the end: %s", s)
		}
		if s.kind == kindMachine && s.kubelet != channelVersion {
			t.Errorf("the kubelet is at %s: %s", s.kubelet, s)
		}
	}
}

// checkOrder replays what was recorded on Machines: the control plane comes first, one machine at a time, then one worker alone, then no more workers
// than the policy says.
func (c *cluster) checkOrder(t *testing.T) {
	t.Helper()
	flying := map[bool]map[string]bool{true: {}, false: {}}
	done := map[string]bool{}
	most := map[bool]int{}
	first := false // A worker has the release.
	for _, s := range c.story.states(c.name) {
		if s.kind != kindMachine {
			continue
		}
		delete(flying[s.controlPlane], s.key.Name)
		if s.upgrade.IsRunning() {
			flying[s.controlPlane][s.key.Name] = true
			if !s.controlPlane && len(done) < 3 {
				t.Errorf("revision %d: worker %s is upgraded while the control plane has %v", s.revision, s.key.Name, slices.Sorted(maps.Keys(done)))
			}
		}
		if s.marks.Release == channel {
			first = first || !s.controlPlane
			if s.controlPlane {
				done[s.key.Name] = true
			}
		}
		if beside := len(flying[false]); !first && beside > 1 {
			t.Errorf("revision %d: %d workers are upgraded, and none has the release", s.revision, beside)
		}
		for _, controlPlane := range []bool{true, false} {
			most[controlPlane] = max(most[controlPlane], len(flying[controlPlane]))
		}
	}
	if most[true] != 1 {
		t.Errorf("%d control plane machines were in flight at once, want 1", most[true])
	}
	if most[false] < 2 || most[false] > maxInFlight {
		t.Errorf("%d workers were in flight at once, want some and %d at most", most[false], maxInFlight)
	}
}

// checkRefreshes compares with what k8sd saw: each refresh begun once, and no two of the control plane at the same time.
func (c *cluster) checkRefreshes(ctx context.Context, t *testing.T) {
	t.Helper()
	refreshed := c.k8sd(ctx, t)
	var ofControlPlane []k8sdtest.Change
	for _, m := range c.story.now(c.name, kindMachine) {
		done := refreshed[m.key.Name]
		if done.Refreshes != 1 || done.Completed != 1 || len(done.Changes) != 1 {
			t.Errorf("k8sd began %d refreshes of Machine %s and completed %d, want one of each: %+v", done.Refreshes, m.key.Name, done.Completed, done.Changes)
		}
		if m.controlPlane {
			ofControlPlane = append(ofControlPlane, done.Changes...)
		}
	}
	slices.SortFunc(ofControlPlane, func(a, b k8sdtest.Change) int { return a.Begun.Compare(b.Begun) })
	for i := range ofControlPlane[1:] {
		if ofControlPlane[i+1].Begun.Before(ofControlPlane[i].Ended) {
			t.Errorf("two refreshes of control plane machines overlap: %+v", ofControlPlane[i:i+2])
		}
	}
}

// checkEventsOnce sees one Event for each change of state. A process that is killed between recording a change and saying so says nothing.
func (c *cluster) checkEventsOnce(ctx context.Context, t *testing.T, kills int) {
	t.Helper()
	want := []string{v1alpha1.InPlaceUpgradeInProgressEvent, v1alpha1.InPlaceUpgradeDoneEvent}
	all := append(c.story.now(c.name, kindMachine), c.story.one(kindControlPlane, c.key()), c.story.one(kindGroup, c.group()))
	missing, extra := 0, 0
	for _, s := range all {
		said := map[string]int{}
		for _, text := range c.story.events(ctx, t, s.kind, s.key) {
			reason, _, _ := strings.Cut(text, ":")
			said[reason]++
		}
		for _, reason := range want {
			missing += max(0, 1-said[reason])
			extra += max(0, said[reason]-1)
			delete(said, reason)
		}
		if len(said) > 0 {
			t.Errorf("%s %s has Events that nothing is a reason for: %v", s.kind, s.key.Name, said)
		}
	}
	t.Logf("of %d Events, %d are missing and %d came twice", len(all)*len(want), missing, extra)
	if missing > kills || extra > kills {
		t.Errorf("%d Events are missing and %d came twice, with %d kills", missing, extra, kills)
	}
}

// checkTidy waits until nobody holds the lock, and sees that no node is left cordoned.
func (c *cluster) checkTidy(ctx context.Context, t *testing.T) {
	t.Helper()
	c.story.awaitNoLock(ctx, t, c.key())
	for name, node := range c.nodes(ctx, t) {
		if node.Spec.Unschedulable {
			t.Errorf("Node %s is left cordoned", name)
		}
	}
}

// kill kills the extension at random points, counted in states of the cluster's objects, until the returned function is called; that one returns how often.
func (c *cluster) kill(ctx context.Context, t *testing.T) (stop func() int) {
	t.Helper()
	const (
		mostStates = 60
		mostDelay  = time.Second
	)
	t.Logf("the seed is %d", *seed)
	random := rand.New(rand.NewPCG(*seed, 0))
	states := make(chan struct{}, 4096)
	c.story.OnFact(func(f history.Fact) {
		if !isState(f) || f.Cluster.Namespace != c.name {
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
		for awaitPoint(ctx, states, 1+random.IntN(mostStates), time.Duration(random.Int64N(int64(mostDelay)))) {
			if _, err := c.KillChild(ctx, setup.ExtensionName); err != nil {
				if ctx.Err() == nil {
					t.Errorf("killing the extension: %v", err)
				}
				return
			}
			kills++
			// At once: the pauses between restarts grow when a process does not live long.
			if _, err := c.StartChild(context.WithoutCancel(ctx), setup.ExtensionName); err != nil {
				t.Errorf("starting the extension again: %v", err)
				return
			}
		}
	})
	return func() int {
		cancel()
		group.Wait()
		return kills
	}
}

// awaitPoint waits for states to be written and a while longer: what matters is also what lies between. It is false when ctx has ended.
func awaitPoint(ctx context.Context, states <-chan struct{}, count int, delay time.Duration) bool {
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

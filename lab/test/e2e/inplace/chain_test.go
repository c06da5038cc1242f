package inplace_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/types"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/internal/guard"
	"github.com/windlass-dev/windlass/lab/internal/demo"
	"github.com/windlass-dev/windlass/lab/internal/history"
	"github.com/windlass-dev/windlass/lab/internal/setup"
	"github.com/windlass-dev/windlass/lab/test/e2e/internal/agree"
	"github.com/windlass-dev/windlass/lab/test/e2e/internal/rig"
	"github.com/windlass-dev/windlass/pkg/version"
)

// chain is a cluster whose control plane and workers go several minors up, in place.
type chain struct {
	*plane
	scenario demo.Scenario
	updaters []*rig.Updater
	// replicas is how many machines there are.
	replicas int
	start    string
	steps    *stepLog
}

// stepLog counts, as Machine objects show it, how often each Machine was sent to another version.
type stepLog struct {
	mu   sync.Mutex
	at   map[types.NamespacedName]string
	sent map[types.NamespacedName]int
}

func (l *stepLog) see(f history.Fact) {
	l.mu.Lock()
	defer l.mu.Unlock()
	name := client.ObjectKeyFromObject(f.Object)
	if before, known := l.at[name]; known && before != f.Version {
		l.sent[name]++
	}
	l.at[name] = f.Version
}

// newChain creates the cluster, with workers in each of its MachineDeployments, and does not wait for it.
func (p *plane) newChain(ctx context.Context, t *testing.T, workers int32, duration time.Duration) *chain {
	t.Helper()
	s, err := demo.DefaultInPlace()
	if err != nil {
		t.Fatal(err)
	}
	topology := &s.Cluster.Spec.Topology
	topology.Workers.MachineDeployments = slices.DeleteFunc(topology.Workers.MachineDeployments, func(md clusterv1.MachineDeploymentTopology) bool {
		return md.Name == "batch"
	})
	c := &chain{plane: p, scenario: s, replicas: int(*topology.ControlPlane.Replicas), start: topology.Version}
	for i := range topology.Workers.MachineDeployments {
		topology.Workers.MachineDeployments[i].Replicas = &workers
		c.replicas += int(workers)
	}
	for _, u := range s.InPlace.Updaters {
		// Other tests on the plane have updaters of their own.
		u.Selector = rig.Labelled(clusterv1.ClusterNameLabel, s.Cluster.Name)
		// The other one is done at once.
		u.Duration = 0
		if u.Name == "kubelet" {
			u.Duration = duration
		}
		c.updaters = append(c.updaters, p.NewUpdater(ctx, t, u))
	}
	p.applyScenario(ctx, t, s)
	return c
}

// await waits until the whole cluster is at a version and Cluster API takes nothing for pending.
func (c *chain) await(ctx context.Context, t *testing.T, v string) {
	t.Helper()
	c.History.Await(ctx, t, "waiting for the chain's cluster at "+v, func() string {
		cluster := &clusterv1.Cluster{}
		if !c.Cached(ctx, t, c.scenario.Namespace, c.scenario.Cluster.Name, cluster) {
			return "there is no Cluster"
		}
		machines := &clusterv1.MachineList{}
		if err := c.History.List(ctx, machines, client.InNamespace(c.scenario.Namespace)); err != nil {
			return err.Error()
		}
		if len(machines.Items) != c.replicas {
			return fmt.Sprintf("there are %d machines of %d", len(machines.Items), c.replicas)
		}
		for i := range machines.Items {
			if missing := rig.NotAt(&machines.Items[i], v); missing != "" {
				return missing
			}
		}
		hooks := cluster.Annotations[runtimev1.PendingHooksAnnotation]
		if hooks != "" || rig.ConditionOf(cluster.Status.Conditions, clusterv1.ClusterTopologyReconciledCondition) != "True" {
			return fmt.Sprintf("the topology is not reconciled (hooks %q): %+v", hooks, cluster.Status.Conditions)
		}
		return ""
	})
}

// upgrade goes up to a version while the extension is killed at random points, kills times at least.
func (c *chain) upgrade(ctx context.Context, t *testing.T, to version.Version, kills int) {
	t.Helper()
	c.await(ctx, t, c.start)
	before := c.Census(c.scenario.Namespace, nil)
	c.steps = &stepLog{at: map[types.NamespacedName]string{}, sent: map[types.NamespacedName]int{}}
	for _, f := range c.History.Machines(c.scenario.Namespace) {
		c.steps.see(f)
	}
	c.History.OnFact(func(f history.Fact) {
		if f.Kind == history.KindMachine && f.Cluster.Namespace == c.scenario.Namespace {
			c.steps.see(f)
		}
	})
	stopKilling := sync.OnceValue(c.kill(ctx, t))
	t.Cleanup(func() { stopKilling() })
	began := time.Now()
	c.send(ctx, t, to)
	c.await(ctx, t, to.String())
	killed := stopKilling()
	t.Logf("from %s to %s took %.0f s, with the extension killed %d times", c.start, to, time.Since(began).Seconds(), killed)
	if killed < kills {
		t.Errorf("the extension was killed %d times, want at least %d", killed, kills)
	}
	rig.CheckCensus(t, before, c.Census(c.scenario.Namespace, nil))
	c.checkSteps(ctx, t, to)
}

// send sends the cluster to a version.
func (c *chain) send(ctx context.Context, t *testing.T, to version.Version) {
	t.Helper()
	cluster := c.scenario.Cluster.DeepCopy()
	cluster.Namespace = c.scenario.Namespace
	rig.Patch(ctx, t, c.Client, cluster, map[string]any{"spec": map[string]any{"topology": map[string]any{"version": to.String()}}})
}

// simulate goes the rest of the way undisturbed, and compares that with its simulation.
func (c *chain) simulate(ctx context.Context, t *testing.T, from version.Version) {
	t.Helper()
	key, to := types.NamespacedName{Namespace: c.scenario.Namespace, Name: c.scenario.Cluster.Name}, demo.DefaultTarget()
	before := agree.Cluster{NamespacedName: key, Windlass: c.Programs.Windlass, Kubeconfig: c.KubeconfigPath()}.Record(ctx, t, from.String(), to.String())
	for _, u := range c.updaters {
		// KubeadmControlPlane sometimes looks away for 5 s; the longer updates take, the less that is.
		u.Behave(ctx, t, `{"updater": {"duration": "2s"}}`)
	}
	earlier, began := len(c.History.Changes(key)), time.Now()
	c.send(ctx, t, to)
	c.AwaitArrived(ctx, t, key, to.String())
	before.Check(ctx, t, agree.Happened(c.History.Changes(key)[earlier:], began))
}

// checkSteps compares what updaters did with how often the Machines were sent to another version.
func (c *chain) checkSteps(ctx context.Context, t *testing.T, to version.Version) {
	t.Helper()
	from := version.MustParse(c.start)
	minors, _ := from.Minor().Lag(to.Minor())
	c.steps.mu.Lock()
	defer c.steps.mu.Unlock()
	for _, u := range c.updaters {
		done := u.Stats(ctx, t)
		for name := range c.steps.at {
			sent, machine := c.steps.sent[name], done.Machines[name.String()]
			if sent == 0 || sent > int(minors) {
				t.Errorf("Machine %s was sent to another version %d times in %d minors", name, sent, minors)
			}
			// An updater that is asked again to do what is done starts nothing; that it was asked shows in the operations.
			if machine.Started != sent || machine.Completed != sent || len(machine.Operations) != sent {
				t.Errorf("updater %s started %d updates of Machine %s and completed %d, want %d of each: %+v",
					u.Name, machine.Started, name, machine.Completed, sent, machine.Operations)
			}
		}
		if len(done.Machines) != len(c.steps.at) {
			t.Errorf("updater %s was asked about %d machines, want %d", u.Name, len(done.Machines), len(c.steps.at))
		}
	}
}

// kill kills the extension at random points, counted in states of Machines, until the returned function is called; that one
// returns how often.
func (c *chain) kill(ctx context.Context, t *testing.T) (stop func() int) {
	t.Helper()
	const (
		mostStates = 8
		mostDelay  = 400 * time.Millisecond
	)
	t.Logf("the seed is %d", *seed)
	random := rand.New(rand.NewPCG(*seed, 0))
	states := make(chan struct{}, 1024)
	c.History.OnFact(func(f history.Fact) {
		if f.Kind != history.KindMachine || f.Cluster.Namespace != c.scenario.Namespace {
			return
		}
		select {
		case states <- struct{}{}:
		default:
		}
	})
	ctx, cancel := context.WithCancel(ctx)
	killed := 0
	var group sync.WaitGroup
	group.Go(func() {
		for {
			for range 1 + random.IntN(mostStates) {
				select {
				case <-states:
				case <-ctx.Done():
					return
				}
			}
			// States come when something was written; what matters is also what lies between.
			select {
			case <-time.After(time.Duration(random.Int64N(int64(mostDelay)))):
			case <-ctx.Done():
				return
			}
			if _, err := c.KillChild(ctx, setup.ExtensionName); err != nil {
				if ctx.Err() == nil {
					t.Errorf("killing the extension: %v", err)
				}
				return
			}
			killed++
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
		return killed
	}
}

// refuseRollout sees that the guard refuses what Cluster API does without asking any hook: a control plane whose machines
// are older than spec.rollout.after is replaced machine by machine.
func (c *chain) refuseRollout(ctx context.Context, t *testing.T) {
	t.Helper()
	before := c.Census(c.scenario.Namespace, nil)
	list := &controlplanev1.KubeadmControlPlaneList{}
	if err := c.History.List(ctx, list, client.InNamespace(c.scenario.Namespace)); err != nil || len(list.Items) != 1 {
		t.Fatalf("reading the control plane: %v, %d of them", err, len(list.Items))
	}
	controlPlane := &list.Items[0]
	rollout := func(after any) {
		rig.Patch(ctx, t, c.Client, controlPlane.DeepCopy(), map[string]any{"spec": map[string]any{"rollout": map[string]any{"after": after}}})
	}
	rollout(time.Now().UTC().Format(time.RFC3339))
	c.History.Await(ctx, t, "waiting until the guard refuses to replace a control plane machine", func() string {
		events := &eventsv1.EventList{}
		if err := c.History.List(ctx, events, client.InNamespace(c.scenario.Namespace)); err != nil {
			return err.Error()
		}
		for i := range events.Items {
			if e := &events.Items[i]; e.Reason == string(guard.WouldReplace) && e.Regarding.Kind == history.KindControlPlane {
				t.Logf("the guard's Event: %s", e.Note)
				return ""
			}
		}
		return fmt.Sprintf("none of %d Events says so", len(events.Items))
	})
	rollout(nil)
	rig.CheckCensus(t, before, c.Census(c.scenario.Namespace, nil))
}

// applyScenario applies the objects of a scenario of the demo, and its Cluster.
func (p *plane) applyScenario(ctx context.Context, t *testing.T, s demo.Scenario) {
	t.Helper()
	if err := setup.ApplyAll(ctx, p.Client, s.Namespace, s.Objects); err != nil {
		t.Fatal(err)
	}
	cluster := s.Cluster.DeepCopy()
	cluster.Namespace = s.Namespace
	if err := setup.Apply(ctx, p.Client, cluster); err != nil {
		t.Fatal(err)
	}
}

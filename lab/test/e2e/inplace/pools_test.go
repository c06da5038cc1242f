package inplace_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/lab/internal/history"
	"github.com/windlass-dev/windlass/lab/internal/setup"
	"github.com/windlass-dev/windlass/lab/test/e2e/internal/rig"
)

// flightPrefix begins the names of the pools that share a policy.
const flightPrefix = "flight-"

// testRetry sees a failed update wait for a person: one who asks for a retry, then one who asks to abandon it.
func (p *plane) testRetry(ctx context.Context, t *testing.T) {
	t.Helper()
	const pool = "retry"
	u := p.NewUpdater(ctx, t, setup.SimulatedUpdater{Name: pool, Selector: rig.Labelled("pool", pool)})
	u.Behave(ctx, t, `{"updater": {"mode": "Fail"}}`)
	p.Send(ctx, t, pool, "v1.31.1")
	m := p.AwaitFailed(ctx, t, pool, 1)
	if text := rig.Blocked(m.Status.Conditions).Message; !strings.Contains(text, `updater "retry"`) || !strings.Contains(text, "as it was told to") ||
		!strings.Contains(text, v1alpha1.UpdateRetryAnnotation) {
		t.Errorf("the Machine does not say which updater failed, why, and what to do: %s", text)
	}

	rig.AnnotateObject(ctx, t, p.Client, m, map[string]any{v1alpha1.UpdateRetryAnnotation: ""})
	m = p.AwaitFailed(ctx, t, pool, 2)
	if _, is := m.Annotations[v1alpha1.UpdateRetryAnnotation]; is {
		t.Error("the wish for a retry is still there though it was granted")
	}

	// While the MachineDeployment desires just this version, to abandon the update would make the Machine count as up to date.
	rig.AnnotateObject(ctx, t, p.Client, m, map[string]any{v1alpha1.UpdateAbandonAnnotation: ""})
	u.Behave(ctx, t, `{"updater": {"mode": "Normal"}}`)
	p.Send(ctx, t, pool, "v1.31.2")
	p.AwaitPool(ctx, t, pool, "v1.31.2", 1)
	m = p.OnlyMachine(ctx, t, pool)
	if _, is := m.Annotations[v1alpha1.UpdateAbandonAnnotation]; is {
		t.Error("the wish to abandon the update is still there though it was granted")
	}
	if c := rig.Blocked(m.Status.Conditions); c != nil {
		t.Errorf("the Machine still says that its update does not go on: %+v", c)
	}
	name := client.ObjectKeyFromObject(m).String()
	if done := u.Stats(ctx, t).Machines[name]; done.Completed != 1 || done.Started != 3 {
		t.Errorf("the updater completed %d updates of %d that it started, want 1 of 3: %+v", done.Completed, done.Started, done.Operations)
	}
}

// testUncovered sees that a change that no updater covers changes nothing, and that the guard keeps the machine.
func (p *plane) testUncovered(ctx context.Context, t *testing.T) {
	t.Helper()
	const pool = "uncovered"
	p.NewUpdater(ctx, t, setup.SimulatedUpdater{Name: pool, Selector: rig.Labelled("pool", pool)})
	template := func(name string) {
		rig.Patch(ctx, t, p.Client, rig.MachineDeployment(pool), map[string]any{
			"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"infrastructureRef": map[string]any{"name": name}}}},
		})
	}
	template("worker-slow")
	c := p.BlockedOwner(ctx, t, pool, func(c *metav1.Condition) bool { return c.Reason == v1alpha1.NotCoveredReason })
	const path = "/spec/template/spec/backend/inMemory/vm/provisioning/startupDuration"
	if !strings.Contains(c.Message, path) {
		t.Errorf("the MachineDeployment does not name %s: %s", path, c.Message)
	}
	p.History.Await(ctx, t, "waiting for the Event", func() string {
		events := &eventsv1.EventList{}
		if err := p.History.List(ctx, events, client.InNamespace(rig.PoolsCluster)); err != nil {
			return err.Error()
		}
		for i := range events.Items {
			e := &events.Items[i]
			if e.Reason == v1alpha1.NotCoveredReason && e.Regarding.Kind == "MachineDeployment" && e.Regarding.Name == pool && strings.Contains(e.Note, path) {
				return ""
			}
		}
		return fmt.Sprintf("none of %d Events says so", len(events.Items))
	})
	m := p.OnlyMachine(ctx, t, pool)
	if rig.Marked(m) || m.Status.Phase != string(clusterv1.MachinePhaseRunning) {
		t.Errorf("the Machine is in phase %s, marked as updating: %t", m.Status.Phase, rig.Marked(m))
	}
	err := p.Client.Delete(ctx, m.DeepCopy())
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), v1alpha1.AllowReplacementAnnotation) {
		t.Fatalf("deleting the Machine by hand gave %v, want a refusal that says how to permit it", err)
	}

	// Back to where it was: nothing is to be done, and nothing is blocked any more.
	template("worker")
	p.History.Await(ctx, t, "waiting until the MachineDeployment is not blocked any more", func() string {
		object := &clusterv1.MachineDeployment{}
		p.Cached(ctx, t, rig.PoolsCluster, pool, object)
		if c := rig.Blocked(object.Status.Conditions); c != nil {
			return "it says " + c.Message
		}
		return ""
	})
	p.Send(ctx, t, pool, "v1.31.1")
	p.AwaitPool(ctx, t, pool, "v1.31.1", 1)
}

// testInFlight sees that no more machines than the policy allows are updated at once, over two MachineDeployments both of
// whose machines Cluster API hands over at the same time, and that the first machine of each is updated alone.
func (p *plane) testInFlight(ctx context.Context, t *testing.T) {
	t.Helper()
	const most = 2
	pools := []v1alpha1.MachineDeploymentName{flightPrefix + "a", flightPrefix + "b"}
	p.CreatePolicy(ctx, t, rig.PoolsCluster, "flight", v1alpha1.UpdatePolicySpec{
		Strategy: v1alpha1.ExternalUpdate, MaxInFlight: most, Targets: []v1alpha1.UpdateTarget{{ClusterName: rig.PoolsCluster, MachineDeployments: pools}},
	})
	u := p.NewUpdater(ctx, t, setup.SimulatedUpdater{
		Name: "flight",
		Selector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
			Key: "pool", Operator: metav1.LabelSelectorOpIn, Values: []string{string(pools[0]), string(pools[1])},
		}}},
	})
	u.Behave(ctx, t, `{"updater": {"mode": "Stall"}}`)
	var mu sync.Mutex
	under, peak, waited := map[string]bool{}, 0, false
	canaries := canaries{under: map[string]map[string]bool{}, ended: map[string]bool{}}
	p.History.OnFact(func(f history.Fact) {
		m := rig.MachineOf(f)
		if m == nil || !strings.HasPrefix(m.Labels["pool"], flightPrefix) || m.Namespace != rig.PoolsCluster {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		under[m.Name] = rig.ProgressOf(m) != nil
		canaries.note(t, m)
		now := 0
		for _, is := range under {
			if is {
				now++
			}
		}
		peak = max(peak, now)
		for _, c := range m.Status.Conditions {
			waited = waited || c.Type == clusterv1.MachineUpdatingCondition && strings.Contains(c.Message, "not started")
		}
	})
	for _, name := range pools {
		p.Send(ctx, t, string(name), "v1.31.1")
	}
	// Nothing ends before as many as may are under way, and another one waits.
	p.History.Await(ctx, t, "waiting until the limit is reached", func() string {
		mu.Lock()
		defer mu.Unlock()
		if peak < most || !waited {
			return fmt.Sprintf("%d machines are being updated, another one waits: %t", peak, waited)
		}
		return ""
	})
	u.Behave(ctx, t, `{"updater": {"mode": "Normal"}}`)
	for _, name := range pools {
		p.AwaitPool(ctx, t, string(name), "v1.31.1", 3)
	}
	mu.Lock()
	defer mu.Unlock()
	if peak > most {
		t.Errorf("at most %d machines were updated at once, want %d", peak, most)
	}
	if !waited {
		t.Error("no Machine said that it waits for others")
	}
}

// canaries are the machines of each pool that are updated before one of them has ended its update.
type canaries struct {
	under map[string]map[string]bool
	ended map[string]bool
}

// note takes a change of a Machine.
func (c canaries) note(t *testing.T, m *clusterv1.Machine) {
	t.Helper()
	pool := m.Labels["pool"]
	if c.under[pool] == nil {
		c.under[pool] = map[string]bool{}
	}
	switch {
	case rig.ProgressOf(m) != nil:
		c.under[pool][m.Name] = true
	case c.under[pool][m.Name]:
		c.ended[pool] = true
	}
	if n := len(c.under[pool]); n > 1 && !c.ended[pool] {
		t.Errorf("%d machines of pool %s are updated, and none has ended its update", n, pool)
	}
}

// testDrain sees a node cordoned during its update, and schedulable after it. The simulated workload clusters have neither
// evictions nor PodDisruptionBudgets; internal/workload tests what a budget that blocks looks like.
func (p *plane) testDrain(ctx context.Context, t *testing.T) {
	t.Helper()
	const pool = "drained"
	u := p.NewUpdater(ctx, t, setup.SimulatedUpdater{Name: pool, Selector: rig.Labelled("pool", pool), Transitions: v1alpha1.Transitions{NeedsDrain: true}})
	u.Behave(ctx, t, `{"updater": {"mode": "Stall"}}`)
	workload := p.Workload(ctx, t, rig.PoolsCluster)
	unschedulable := func(m *clusterv1.Machine) bool {
		node := &corev1.Node{}
		if err := workload.Get(ctx, client.ObjectKey{Name: m.Status.NodeRef.Name}, node); err != nil {
			t.Fatal(err)
		}
		return node.Spec.Unschedulable
	}
	if unschedulable(p.OnlyMachine(ctx, t, pool)) {
		t.Fatal("the node is cordoned before its update")
	}
	p.Send(ctx, t, pool, "v1.31.1")
	m := p.AwaitMachine(ctx, t, pool, "waiting for the updater to work on a drained node", func(m *clusterv1.Machine) string {
		if progress := rig.ProgressOf(m); progress == nil || progress.Phase != inplace.Updating || !progress.Cordoned {
			return fmt.Sprintf("the progress is %+v", progress)
		}
		return ""
	})
	if !unschedulable(m) {
		t.Error("the node is not cordoned while it is being updated")
	}
	u.Behave(ctx, t, `{"updater": {"mode": "Normal"}}`)
	p.AwaitPool(ctx, t, pool, "v1.31.1", 1)
	if unschedulable(m) {
		t.Error("the node is still cordoned after its update")
	}
}

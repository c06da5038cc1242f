package inplace_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/lab/internal/history"
	"github.com/windlass-dev/windlass/lab/internal/setup"
)

// flightPrefix begins the names of the pools that share a policy.
const flightPrefix = "flight-"

// onlyMachine returns a pool's only Machine.
func (p *plane) onlyMachine(ctx context.Context, t *testing.T, pool string) *clusterv1.Machine {
	t.Helper()
	machines := p.machinesOf(ctx, t, poolsCluster, pool)
	if len(machines) != 1 {
		t.Fatalf("pool %s has %d machines, want 1", pool, len(machines))
	}
	return &machines[0]
}

// awaitMachine waits until check returns "" for a pool's only Machine.
func (p *plane) awaitMachine(ctx context.Context, t *testing.T, pool, what string, check func(*clusterv1.Machine) string) *clusterv1.Machine {
	t.Helper()
	var found *clusterv1.Machine
	p.History.Await(ctx, t, what, func() string {
		machines := p.machinesOf(ctx, t, poolsCluster, pool)
		if len(machines) != 1 {
			return fmt.Sprintf("pool %s has %d machines", pool, len(machines))
		}
		found = &machines[0]
		return check(found)
	})
	return found
}

// awaitFailed waits until the update of a pool's only Machine has failed for good, for the n-th time.
func (p *plane) awaitFailed(ctx context.Context, t *testing.T, pool string, n int) *clusterv1.Machine {
	t.Helper()
	return p.awaitMachine(ctx, t, pool, "waiting for the final failure of the update of "+pool, func(m *clusterv1.Machine) string {
		c, progress := blocked(m.Status.Conditions), progressOf(m)
		if c == nil || c.Reason != v1alpha1.UpdateFailedReason || progress == nil || progress.Phase != inplace.Failed || progress.Operations < n {
			return fmt.Sprintf("its condition is %+v, its progress %+v", c, progress)
		}
		return ""
	})
}

// marked reports whether Cluster API has marked a Machine as updating.
func marked(m *clusterv1.Machine) bool {
	_, is := m.Annotations[clusterv1.UpdateInProgressAnnotation]
	return is
}

// testRetry sees a failed update wait for a person: one who asks for a retry, then one who asks to abandon it.
func (p *plane) testRetry(ctx context.Context, t *testing.T) {
	t.Helper()
	const pool = "retry"
	u := p.updater(ctx, t, setup.SimulatedUpdater{Name: pool, Selector: labelled("pool", pool)})
	u.behave(ctx, t, `{"updater": {"mode": "Fail"}}`)
	p.send(ctx, t, pool, "v1.31.1")
	m := p.awaitFailed(ctx, t, pool, 1)
	if text := blocked(m.Status.Conditions).Message; !strings.Contains(text, `updater "retry"`) || !strings.Contains(text, "as it was told to") ||
		!strings.Contains(text, v1alpha1.UpdateRetryAnnotation) {
		t.Errorf("the Machine does not say which updater failed, why, and what to do: %s", text)
	}

	annotate(ctx, t, p.client, m, map[string]any{v1alpha1.UpdateRetryAnnotation: ""})
	m = p.awaitFailed(ctx, t, pool, 2)
	if _, is := m.Annotations[v1alpha1.UpdateRetryAnnotation]; is {
		t.Error("the wish for a retry is still there though it was granted")
	}

	// While the MachineDeployment desires just this version, to abandon the update would make the Machine count as up to date.
	annotate(ctx, t, p.client, m, map[string]any{v1alpha1.UpdateAbandonAnnotation: ""})
	u.behave(ctx, t, `{"updater": {"mode": "Normal"}}`)
	p.send(ctx, t, pool, "v1.31.2")
	p.awaitPool(ctx, t, pool, "v1.31.2", 1)
	m = p.onlyMachine(ctx, t, pool)
	if _, is := m.Annotations[v1alpha1.UpdateAbandonAnnotation]; is {
		t.Error("the wish to abandon the update is still there though it was granted")
	}
	if c := blocked(m.Status.Conditions); c != nil {
		t.Errorf("the Machine still says that its update does not go on: %+v", c)
	}
	name := client.ObjectKeyFromObject(m).String()
	if done := u.stats(ctx, t).Machines[name]; done.Completed != 1 || done.Started != 3 {
		t.Errorf("the updater completed %d updates of %d that it started, want 1 of 3: %+v", done.Completed, done.Started, done.Operations)
	}
}

// testUncovered sees that a change that no updater covers changes nothing, and that the guard keeps the machine.
func (p *plane) testUncovered(ctx context.Context, t *testing.T) {
	t.Helper()
	const pool = "uncovered"
	p.updater(ctx, t, setup.SimulatedUpdater{Name: pool, Selector: labelled("pool", pool)})
	template := func(name string) {
		patch(ctx, t, p.client, machineDeployment(pool), map[string]any{
			"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"infrastructureRef": map[string]any{"name": name}}}},
		})
	}
	template("worker-slow")
	c := p.blockedOwner(ctx, t, pool, func(c *metav1.Condition) bool { return c.Reason == v1alpha1.NotCoveredReason })
	const path = "/spec/template/spec/backend/inMemory/vm/provisioning/startupDuration"
	if !strings.Contains(c.Message, path) {
		t.Errorf("the MachineDeployment does not name %s: %s", path, c.Message)
	}
	p.History.Await(ctx, t, "waiting for the Event", func() string {
		events := &eventsv1.EventList{}
		if err := p.History.List(ctx, events, client.InNamespace(poolsCluster)); err != nil {
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
	m := p.onlyMachine(ctx, t, pool)
	if marked(m) || m.Status.Phase != string(clusterv1.MachinePhaseRunning) {
		t.Errorf("the Machine is in phase %s, marked as updating: %t", m.Status.Phase, marked(m))
	}
	err := p.client.Delete(ctx, m.DeepCopy())
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), v1alpha1.AllowReplacementAnnotation) {
		t.Fatalf("deleting the Machine by hand gave %v, want a refusal that says how to permit it", err)
	}

	// Back to where it was: nothing is to be done, and nothing is blocked any more.
	template("worker")
	p.History.Await(ctx, t, "waiting until the MachineDeployment is not blocked any more", func() string {
		object := &clusterv1.MachineDeployment{}
		p.get(ctx, t, poolsCluster, pool, object)
		if c := blocked(object.Status.Conditions); c != nil {
			return "it says " + c.Message
		}
		return ""
	})
	p.send(ctx, t, pool, "v1.31.1")
	p.awaitPool(ctx, t, pool, "v1.31.1", 1)
}

// testInFlight sees that no more machines than the policy allows are updated at once, over two MachineDeployments both of
// whose machines Cluster API hands over at the same time, and that the first machine of each is updated alone.
func (p *plane) testInFlight(ctx context.Context, t *testing.T) {
	t.Helper()
	const most = 2
	pools := []v1alpha1.MachineDeploymentName{flightPrefix + "a", flightPrefix + "b"}
	p.createPolicy(ctx, t, poolsCluster, "flight", v1alpha1.UpdatePolicySpec{
		Strategy: v1alpha1.ExternalUpdate, MaxInFlight: most, Targets: []v1alpha1.UpdateTarget{{ClusterName: poolsCluster, MachineDeployments: pools}},
	})
	u := p.updater(ctx, t, setup.SimulatedUpdater{
		Name: "flight",
		Selector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
			Key: "pool", Operator: metav1.LabelSelectorOpIn, Values: []string{string(pools[0]), string(pools[1])},
		}}},
	})
	u.behave(ctx, t, `{"updater": {"mode": "Stall"}}`)
	var mu sync.Mutex
	under, peak, waited := map[string]bool{}, 0, false
	canaries := canaries{under: map[string]map[string]bool{}, ended: map[string]bool{}}
	p.History.OnFact(func(f history.Fact) {
		m := machineOf(f)
		if m == nil || !strings.HasPrefix(m.Labels["pool"], flightPrefix) || m.Namespace != poolsCluster {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		under[m.Name] = progressOf(m) != nil
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
		p.send(ctx, t, string(name), "v1.31.1")
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
	u.behave(ctx, t, `{"updater": {"mode": "Normal"}}`)
	for _, name := range pools {
		p.awaitPool(ctx, t, string(name), "v1.31.1", 3)
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
	case progressOf(m) != nil:
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
	u := p.updater(ctx, t, setup.SimulatedUpdater{Name: pool, Selector: labelled("pool", pool), Transitions: v1alpha1.Transitions{NeedsDrain: true}})
	u.behave(ctx, t, `{"updater": {"mode": "Stall"}}`)
	workload := p.workload(ctx, t, poolsCluster)
	unschedulable := func(m *clusterv1.Machine) bool {
		node := &corev1.Node{}
		if err := workload.Get(ctx, client.ObjectKey{Name: m.Status.NodeRef.Name}, node); err != nil {
			t.Fatal(err)
		}
		return node.Spec.Unschedulable
	}
	if unschedulable(p.onlyMachine(ctx, t, pool)) {
		t.Fatal("the node is cordoned before its update")
	}
	p.send(ctx, t, pool, "v1.31.1")
	m := p.awaitMachine(ctx, t, pool, "waiting for the updater to work on a drained node", func(m *clusterv1.Machine) string {
		if progress := progressOf(m); progress == nil || progress.Phase != inplace.Updating || !progress.Cordoned {
			return fmt.Sprintf("the progress is %+v", progress)
		}
		return ""
	})
	if !unschedulable(m) {
		t.Error("the node is not cordoned while it is being updated")
	}
	u.behave(ctx, t, `{"updater": {"mode": "Normal"}}`)
	p.awaitPool(ctx, t, pool, "v1.31.1", 1)
	if unschedulable(m) {
		t.Error("the node is still cordoned after its update")
	}
}

// workload returns a client for a workload cluster, whose API server only the plane's own processes reach directly.
func (p *plane) workload(ctx context.Context, t *testing.T, cluster string) client.Client {
	t.Helper()
	secret := &corev1.Secret{}
	if err := p.client.Get(ctx, client.ObjectKey{Namespace: cluster, Name: cluster + "-kubeconfig"}, secret); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(secret.Data["value"])
	if err != nil {
		t.Fatal(err)
	}
	config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		return p.DialContext(ctx, network, address)
	}
	c, err := client.New(config, client.Options{Scheme: p.client.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

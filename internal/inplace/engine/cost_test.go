package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/port"
	"github.com/windlass-dev/windlass/internal/port/porttest"
	"github.com/windlass-dev/windlass/test/fakeapi"
)

var (
	infrastructureKind = schema.GroupVersionKind{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta2", Kind: "X"}
	// padding is as long as the managed fields of a real Machine.
	padding = strings.Repeat("x", 4096)
)

// cost is what the update of one machine took: requests of the management cluster, reads of its node, and calls of the hook.
type cost struct {
	Reads, Writes, Nodes, Calls int
	// InVain are the calls that found no slot, of which all but the first are free.
	InVain int
}

// call is one that Cluster API will make.
type call struct {
	at      time.Time
	machine int
}

// add puts a call in its place among others.
func add(queue []call, c call) []call {
	at, _ := slices.BinarySearchFunc(queue, c, func(a, b call) int { return cmp.Or(a.at.Compare(b.at), a.machine-b.machine) })
	return slices.Insert(queue, at, c)
}

// workerPool is a MachineDeployment whose machines are updated in place, one call after the other.
type workerPool struct {
	testing.TB
	store  *fakeapi.Store
	engine *Engine
	nodes  *porttest.Nodes
	now    time.Time
	began  map[string]time.Time
	costs  []cost
	// done counts machines, flying those that have begun and not ended, most how many that were at most.
	done, flying, most int
	// statuses counts writes of the status of the Updater. There is one a minute, whatever the number of machines.
	statuses int
	start    time.Time
}

func newPool(tb testing.TB, machines, maxInFlight int) *workerPool {
	tb.Helper()
	scheme := apiruntime.NewScheme()
	for _, add := range []func(*apiruntime.Scheme) error{v1alpha1.AddToScheme, clusterv1.AddToScheme, corev1.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			tb.Fatal(err)
		}
	}
	p := &workerPool{
		TB: tb, store: fakeapi.NewStore(tb, scheme), nodes: porttest.NewNodes(), now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		began: map[string]time.Time{}, costs: make([]cost, machines),
	}
	p.start = p.now
	p.store.Index(machineKind.GroupKind(), InFlightIndex, IndexInFlight)
	policy := external(func(s *v1alpha1.UpdatePolicySpec) {
		s.MaxInFlight, s.Targets = int32(maxInFlight), []v1alpha1.UpdateTarget{{ClusterName: "c"}}
	})
	objects := append(providerKinds(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		&clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "c", UID: "c-uid"}},
		&v1alpha1.UpdatePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "keep"}, Spec: policy},
		&v1alpha1.Updater{ObjectMeta: metav1.ObjectMeta{Name: "kubelet"}, Spec: v1alpha1.UpdaterSpec{
			Remote: &v1alpha1.RemoteUpdater{URL: "https://127.0.0.1:1", TimeoutSeconds: 1, FailurePolicy: v1alpha1.UpdaterFail},
		}},
		deployment(), machineSet("old", from), machineSet("new", to), provided("XTemplate", "x", nil),
	)
	for i := range machines {
		m := machine(nameOf(i), "new", to)
		m.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: padding}}
		objects = append(objects, m, provided("X", m.Name, map[string]string{clusterv1.UpdateInProgressAnnotation: ""}))
		p.nodes.Set(inCluster, m.Name, porttest.ReadyNode(from, p.now.Add(-time.Hour)))
	}
	for _, o := range objects {
		p.store.Put(o)
	}
	updater := &scripted{patch: versionPatch}
	updater.answer = func(operation string) inplace.Answer {
		updater.updates, updater.told = nil, nil // They would be most of the heap.
		return p.answer(operation)
	}
	ids := 0
	p.engine = New(Options{
		Client: p.store.Client(), Live: p.store.Live(), Nodes: p.nodes, Events: &events.FakeRecorder{},
		Now:   func() time.Time { return p.now },
		NewID: func() string { ids++; return fmt.Sprintf("id%d", ids) },
		Open:  func(context.Context, *v1alpha1.Updater) (port.Updater, error) { return updater, nil },
	})
	p.decide()
	p.store.Counts, p.store.ReadsOf = fakeapi.Counts{}, map[string]int{}
	p.store.Changed = func(_, after *metav1.PartialObjectMetadata) {
		if after.Kind == "Updater" {
			p.statuses++
		}
	}
	return p
}

func nameOf(i int) string { return fmt.Sprintf("m%05d", i) }

func provided(kind, name string, annotations map[string]string) *unstructured.Unstructured {
	spec := map[string]any{"providerID": "x:////" + name}
	if kind == "XTemplate" {
		spec = map[string]any{"template": map[string]any{"spec": map[string]any{}}}
	}
	o := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	o.SetGroupVersionKind(infrastructureKind.GroupVersion().WithKind(kind))
	o.SetNamespace(namespace)
	o.SetName(name)
	o.SetAnnotations(annotations)
	return o
}

// answer is that of an updater that works for a minute on each machine.
func (p *workerPool) answer(operation string) inplace.Answer {
	began, known := p.began[operation]
	if !known {
		p.began[operation] = p.now
	}
	if !known || p.now.Sub(began) < time.Minute {
		return inplace.Answer{Outcome: inplace.InProgress, RetryAfter: 15 * time.Second}
	}
	return inplace.Answer{Outcome: inplace.Finishes}
}

// decide has the update of the MachineDeployment decided on, as Cluster API does.
func (p *workerPool) decide() {
	p.Helper()
	md := deployment()
	md.Spec.Template = machineSet("new", to).Spec.Template
	p.store.Put(md)
	sent := apiruntime.RawExtension{Raw: infrastructure.Raw}
	if _, err := p.engine.CanUpdateMachineSet(p.Context(), &runtimehooksv1.CanUpdateMachineSetRequest{
		Current: runtimehooksv1.CanUpdateMachineSetRequestObjects{MachineSet: *machineSet("old", from), InfrastructureMachineTemplate: sent},
		Desired: runtimehooksv1.CanUpdateMachineSetRequestObjects{MachineSet: *machineSet("new", to), InfrastructureMachineTemplate: sent},
	}); err != nil {
		p.Fatal(err)
	}
}

// request is UpdateMachine as Cluster API calls it.
func (p *workerPool) request(name string) *runtimehooksv1.UpdateMachineRequest {
	p.Helper()
	key := types.NamespacedName{Namespace: namespace, Name: name}
	m, x := &clusterv1.Machine{}, &unstructured.Unstructured{}
	x.SetGroupVersionKind(infrastructureKind)
	for _, o := range []client.Object{m, x} {
		if err := p.store.Peek().Get(p.Context(), key, o); err != nil {
			p.Fatal(err)
		}
	}
	m = sent(m)
	raw, err := json.Marshal(x)
	if err != nil {
		p.Fatal(err)
	}
	return &runtimehooksv1.UpdateMachineRequest{Desired: runtimehooksv1.UpdateMachineRequestObjects{Machine: *m, InfrastructureMachine: apiruntime.RawExtension{Raw: raw}}}
}

// run has Cluster API call until all machines are updated, no sooner than it is told to. each is called after each call.
func (p *workerPool) run(each func()) {
	p.Helper()
	var queue []call
	for i := range p.costs {
		queue = append(queue, call{p.now.Add(time.Duration(i) * time.Millisecond), i})
	}
	for len(queue) > 0 {
		next := queue[0]
		p.now, queue = next.at, queue[1:]
		reply := p.call(next.machine)
		if !reply.Done {
			queue = add(queue, call{p.now.Add(time.Duration(math.Ceil(reply.RetryAfter.Seconds())) * time.Second), next.machine})
		}
		each()
	}
}

func (p *workerPool) call(machine int) inplace.Reply {
	p.Helper()
	name, spent := nameOf(machine), &p.costs[machine]
	if p.nodes.Node(p.Context(), inCluster, name).Kubelet.String() == from && p.isUpdated(name) {
		p.nodes.Set(inCluster, name, porttest.ReadyNode(to, p.now))
	}
	before, nodes, statuses := p.store.Counts, p.nodes.Calls()[porttest.NodeMethod], p.statuses
	reply, err := p.engine.UpdateMachine(ctrl.LoggerInto(p.Context(), logr.Discard()), p.request(name))
	if err != nil {
		p.Fatal(err)
	}
	counts := p.store.Counts.Sub(before)
	spent.Reads += counts.Reads
	spent.Writes += counts.Writes - (p.statuses - statuses)
	spent.Nodes += p.nodes.Calls()[porttest.NodeMethod] - nodes
	spent.Calls++
	switch {
	case strings.Contains(reply.Message, "not started"):
		spent.InVain++
	case reply.Done:
		p.done++
		p.flying--
		// Cluster API takes its mark away.
		p.store.Patch(machineKind, types.NamespacedName{Namespace: namespace, Name: name}, fmt.Sprintf(
			`{"metadata":{"annotations":{%q:null,%q:null}}}`, clusterv1.UpdateInProgressAnnotation, runtimev1.PendingHooksAnnotation))
	case spent.Calls == spent.InVain+1:
		p.flying++
		p.most = max(p.most, p.flying)
	}
	return reply
}

// isUpdated reports whether the updater has worked long enough on a machine for its node to show it.
func (p *workerPool) isUpdated(name string) bool {
	m := &clusterv1.Machine{}
	if err := p.store.Peek().Get(p.Context(), types.NamespacedName{Namespace: namespace, Name: name}, m); err != nil {
		p.Fatal(err)
	}
	progress, err := readAnnotation[inplace.Progress](m, v1alpha1.UpdateProgressAnnotation)
	if err != nil || progress == nil {
		return false
	}
	began, known := p.began[progress.Operation]
	return known && p.now.Sub(began) >= time.Minute
}

// TestCostPerMachine holds that what the update of a machine costs does not depend on how many others there are: from the first
// call, in which it finds no slot, to the last.
func TestCostPerMachine(t *testing.T) {
	t.Parallel()
	const maxInFlight = 5
	seen := map[int]cost{}
	for _, machines := range []int{10, 100, 1000} {
		p := newPool(t, machines, maxInFlight)
		p.run(func() {})
		if p.done != machines || p.most != maxInFlight {
			t.Fatalf("%d of %d machines were updated, %d at once", p.done, machines, p.most)
		}
		p.checkBudget()
		// The first ones find a slot at once. All others cost the same.
		for i, c := range p.costs[maxInFlight:] {
			if c.InVain == 0 {
				t.Errorf("%d machines: machine %d did not wait", machines, i)
			}
			c.Calls, c.InVain = c.Calls-c.InVain, 0
			if i == 0 {
				seen[machines] = c
			} else if diff := gocmp.Diff(seen[machines], c); diff != "" {
				t.Errorf("%d machines: machine %d costs something else (-first +it):\n%s", machines, i, diff)
			}
		}
		if minutes := int(p.now.Sub(p.start)/time.Minute) + 1; p.statuses > minutes {
			t.Errorf("%d machines: the status of the Updater was written %d times in %d minutes", machines, p.statuses, minutes)
		}
		// A free slot waits for about a second: PollQueue divided by the slots. The canary takes a minute.
		if took, least := p.now.Sub(p.start), time.Duration(machines/maxInFlight+1)*time.Minute; took > least*5/4+time.Minute {
			t.Errorf("%d machines took %s, and would take %s if no slot were ever free", machines, took, least)
		}
	}
	if seen[100] != seen[10] || seen[1000] != seen[10] {
		t.Errorf("a machine costs %+v", seen)
	}
	t.Logf("a machine costs %+v", seen[1000])
}

// checkBudget holds that a call reads no kind more than once, on average, as the simulator of fleets takes it; see there, postpone.
func (p *workerPool) checkBudget() {
	p.Helper()
	calls := 0
	for _, c := range p.costs {
		calls += c.Calls - c.InVain + min(c.InVain, 1)
	}
	for kind, reads := range p.store.ReadsOf {
		if reads > calls {
			p.Errorf("%d machines: %d reads of %ss in %d calls", len(p.costs), reads, kind, calls)
		}
	}
}

// TestManyMachinesCost publishes in docs/explanation/reliability.md what a MachineDeployment of 5,000 Machines costs.
func TestManyMachinesCost(t *testing.T) {
	if os.Getenv("WINDLASS_LONG") != "1" {
		t.Skip("set WINDLASS_LONG=1 to update 5,000 Machines; it takes two minutes")
	}
	const machines, maxInFlight = 5000, 50
	p := newPool(t, machines, maxInFlight)
	base, peak, n := heapBytes(), uint64(0), 0
	p.run(func() {
		if n++; n%5000 == 0 {
			peak = max(peak, heapBytes())
		}
	})
	after := heapBytes()
	p.engine = nil
	kept := after - min(after, heapBytes())
	c, inVain := p.store.Counts, 0
	for _, spent := range p.costs {
		inVain += spent.InVain
	}
	t.Logf("%d machines, %d at once, in %s: %d calls, %d of them in vain", p.done, p.most, p.now.Sub(p.start).Round(time.Minute), n, inVain)
	t.Logf("%d reads of %d objects, %d writes, %d reads of nodes", c.Reads, c.Objects, c.Writes, p.nodes.Calls()[porttest.NodeMethod]-n)
	t.Logf("%d KB read, %d KB written, %d KB watched", c.ReadBytes>>10, c.WriteBytes>>10, c.WatchBytes>>10)
	t.Logf("heap: %d KB with the API server and its cache before, %d KB at most, %d KB of the engine at the end", base>>10, peak>>10, kept>>10)
	if p.done != machines || p.most > maxInFlight {
		t.Fatalf("%d of %d machines were updated, %d at once", p.done, machines, p.most)
	}
}

func heapBytes() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

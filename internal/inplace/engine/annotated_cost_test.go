package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	capicontract "sigs.k8s.io/cluster-api/util/contract"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/inplace/request"
	"github.com/windlass-dev/windlass/internal/port"
	"github.com/windlass-dev/windlass/internal/port/porttest"
	"github.com/windlass-dev/windlass/test/fakeapi"
)

// minute is an updater that works for a minute on each machine.
type minute struct {
	port.Updater
	p     *upgradePool
	began map[string]time.Time
}

func (u minute) CanUpdateMachine(context.Context, *runtimehooksv1.CanUpdateMachineRequest) (cover.Patches, error) {
	return cover.Patches{Machine: cover.Patch{Type: cover.JSONMergePatch, Data: []byte(`{"spec":{"version":"` + wanted + `"}}`)}}, nil
}

func (u minute) CanBegin(context.Context, *runtimehooksv1.UpdateMachineRequest) inplace.Readiness {
	return inplace.Readiness{}
}

func (u minute) UpdateMachine(_ context.Context, r *runtimehooksv1.UpdateMachineRequest) inplace.Answer {
	name := r.Desired.Machine.Name
	began, known := u.began[name]
	if !known {
		u.began[name] = u.p.now
	}
	if !known || u.p.now.Sub(began) < time.Minute {
		return inplace.Answer{Outcome: inplace.InProgress, RetryAfter: 15 * time.Second}
	}
	u.p.nodes.Set(inCluster, name, porttest.ReadyNode(wanted, u.p.now))
	u.p.store.Patch(machineKind, keyNamed(name), `{"status":{"nodeInfo":{"kubeletVersion":"`+wanted+`"}}}`)
	return inplace.Answer{Outcome: inplace.Finishes}
}

// due is a Machine, or the group if it has no name, that is due.
type due struct {
	at   time.Time
	name string
}

// upgradePool is a MachineDeployment whose machines annotations upgrade, with a queue as controllers have it.
type upgradePool struct {
	testing.TB
	store  *fakeapi.Store
	engine *Engine
	nodes  *porttest.Nodes
	now    time.Time
	queue  []due
	// due is when each object is looked at next, as far as that is known.
	due map[string]time.Time
	// spent is what the reconciles of each Machine took, and of the group.
	spent map[string]fakeapi.Counts
}

func newUpgradePool(tb testing.TB, machines int, maxInFlight int32) *upgradePool {
	tb.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, clusterv1.AddToScheme, corev1.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			tb.Fatal(err)
		}
	}
	p := &upgradePool{
		TB: tb, store: fakeapi.NewStore(tb, scheme), nodes: porttest.NewNodes(), now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		due: map[string]time.Time{}, spent: map[string]fakeapi.Counts{},
	}
	p.store.Index(machineKind.GroupKind(), InFlightIndex, IndexInFlight)
	objects := []client.Object{
		&apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{
			Name:   capicontract.CalculateCRDName(hostedKind.Group, hostedKind.Kind),
			Labels: map[string]string{clusterv1.GroupVersion.Group + "/v1beta1": hostedKind.Version},
		}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, newCluster(), newHosted(map[string]any{"version": "v1.31.9"}, nil), inPlaceOnly(maxInFlight),
		newGroup(deploymentKind, "md", int64(machines)),
		&v1alpha1.Updater{ObjectMeta: metav1.ObjectMeta{Name: "kubelet"}, Spec: v1alpha1.UpdaterSpec{
			Remote: &v1alpha1.RemoteUpdater{URL: "https://127.0.0.1:1", TimeoutSeconds: 1, FailurePolicy: v1alpha1.UpdaterFail},
		}},
	}
	for i := range machines {
		m := newMachine(fmt.Sprintf("m%05d", i), "")
		m.Status.NodeInfo = &corev1.NodeSystemInfo{KubeletVersion: from}
		m.Status.Conditions = []metav1.Condition{{Type: clusterv1.MachineNodeReadyCondition, Status: metav1.ConditionTrue, Reason: "NodeReady"}}
		objects = append(objects, m)
		p.nodes.Set(inCluster, m.Name, porttest.ReadyNode(from, p.now.Add(-time.Hour)))
	}
	for _, o := range objects {
		p.store.Put(o)
	}
	ids, updater := 0, minute{p: p, began: map[string]time.Time{}}
	p.engine = New(Options{
		Client: p.store.Client(), Live: p.store.Live(), Nodes: p.nodes, Events: &recorder{said: map[string][]string{}, notes: map[string]string{}},
		Prefix: v1alpha1.DefaultInPlaceUpgradePrefix,
		Now:    func() time.Time { return p.now },
		NewID:  func() string { ids++; return fmt.Sprintf("id%d", ids) },
		Open:   func(context.Context, *v1alpha1.Updater) (port.Updater, error) { return updater, nil },
	})
	p.store.Counts = fakeapi.Counts{}
	p.store.Changed = p.changed
	return p
}

// changed has those looked at that the controllers of Machines and groups look at.
func (p *upgradePool) changed(before, after *metav1.PartialObjectMetadata) {
	switch {
	case after.Kind == "Machine":
		if keys.Marked(before.Annotations) || keys.Marked(after.Annotations) {
			if !keys.Same(before.Annotations, after.Annotations) {
				p.add(after.Name, 0)
			}
		}
		if !keys.SameForGroup(before.Annotations, after.Annotations) {
			p.add("", 0)
		}
	case after.Kind == deploymentKind.Kind && !keys.Same(before.Annotations, after.Annotations):
		p.add("", 0)
	}
}

func (p *upgradePool) add(name string, after time.Duration) {
	at := p.now.Add(after + 100*time.Millisecond)
	if due, known := p.due[name]; known && !at.Before(due) {
		return
	}
	p.due[name] = at
	i, _ := slices.BinarySearchFunc(p.queue, due{at, name}, func(a, b due) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.name, b.name)) })
	p.queue = slices.Insert(p.queue, i, due{at, name})
}

// run looks at what is due until nothing is.
func (p *upgradePool) run(ctx context.Context) {
	p.Helper()
	for len(p.queue) > 0 {
		w := p.queue[0]
		p.queue = p.queue[1:]
		if !p.due[w.name].Equal(w.at) {
			continue
		}
		delete(p.due, w.name)
		p.now = w.at
		before := p.store.Counts
		look := func() (Result, error) { return p.engine.UpgradeMachine(ctx, keyNamed(w.name)) }
		if w.name == "" {
			look = func() (Result, error) { return p.engine.UpgradeGroup(ctx, deploymentKind, keyNamed("md")) }
		}
		result, err := look()
		if err != nil {
			p.Fatalf("%q: %v", w.name, err)
		}
		counts, spent := p.store.Counts.Sub(before), p.spent[w.name]
		p.spent[w.name] = fakeapi.Counts{Reads: spent.Reads + counts.Reads, Objects: spent.Objects + counts.Objects, Writes: spent.Writes + counts.Writes}
		if result.Now || result.After > 0 {
			p.add(w.name, result.After)
		}
	}
}

// machines returns what each Machine took, sorted.
func (p *upgradePool) machines() []fakeapi.Counts {
	var all []fakeapi.Counts
	for name, counts := range p.spent {
		if name != "" {
			all = append(all, counts)
		}
	}
	slices.SortFunc(all, func(a, b fakeapi.Counts) int { return cmp.Or(a.Reads-b.Reads, a.Writes-b.Writes) })
	return all
}

// TestUpgradeCostPerMachine holds that what the upgrade of a machine costs does not depend on how many others there are, from the
// annotation to the end: of Machines that have it of their own, and of those of a group.
func TestUpgradeCostPerMachine(t *testing.T) {
	t.Parallel()
	const maxInFlight = 5
	for name, ask := range map[string]func(p *upgradePool, machines int){
		"Machines": func(p *upgradePool, machines int) {
			for i := range machines {
				p.store.Patch(machineKind, keyNamed(fmt.Sprintf("m%05d", i)), fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, keys.To, toVersion))
			}
		},
		"MachineDeployment": func(p *upgradePool, _ int) {
			p.store.Patch(deploymentKind, keyNamed("md"), fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, keys.To, toVersion))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var most, group fakeapi.Counts
			for _, machines := range []int{10, 100, 1000} {
				p := newUpgradePool(t, machines, maxInFlight)
				ask(p, machines)
				p.run(ctrl.LoggerInto(t.Context(), logr.Discard()))
				for _, m := range machinesOf(t, p.store) {
					if got := keys.marks(m.Annotations); got != (request.Marks{Status: request.Done, Release: toVersion}) {
						t.Fatalf("%d machines: %s has %+v", machines, m.Name, got)
					}
				}
				all := p.machines()
				t.Logf("%d machines: one costs from %v to %v, and the group %v", machines, all[0], all[len(all)-1], p.spent[""])
				if machines == 10 {
					most, group = all[len(all)-1], p.spent[""]
					continue
				}
				if got := all[len(all)-1]; got != most {
					t.Errorf("%d machines: one costs up to %v; of 10 machines one costs up to %v", machines, got, most)
				}
				got := p.spent[""]
				if got.Reads > group.Reads*machines/10 || got.Objects > group.Objects*machines/10 || got.Writes > group.Writes*machines/10 {
					t.Errorf("%d machines: the group costs %v; of 10 machines it costs %v", machines, got, group)
				}
			}
		})
	}
}

func machinesOf(t *testing.T, store *fakeapi.Store) []clusterv1.Machine {
	t.Helper()
	var list clusterv1.MachineList
	if err := store.Peek().List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

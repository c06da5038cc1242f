package inplace_test

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
)

var controlPlaneGVK = schema.GroupVersionKind{Group: "controlplane.cluster.x-k8s.io", Version: "v1beta2", Kind: "KubeadmControlPlane"}

// follower has the objects as watches show them, and remembers which Machines there ever were. Nothing is polled.
type follower struct {
	cache client.Reader

	mu sync.Mutex
	// changed is closed, and replaced, whenever something changes.
	changed chan struct{}
	// states is called with each state of each Machine, one after another.
	states []func(machineState)
	// machines are those that there ever were, in each namespace, by UID.
	machines map[string]map[types.UID]machineState
}

// machineState is a Machine as one watch event shows it.
type machineState struct {
	machine  *clusterv1.Machine
	deleting bool
	progress *inplace.Progress
}

func follow(ctx context.Context, t *testing.T, config *rest.Config, scheme *runtime.Scheme) *follower {
	t.Helper()
	c, err := cache.New(config, cache.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	f := &follower{cache: c, changed: make(chan struct{}), machines: map[string]map[types.UID]machineState{}}
	controlPlane := &unstructured.Unstructured{}
	controlPlane.SetGroupVersionKind(controlPlaneGVK)
	for _, object := range []client.Object{
		controlPlane, &clusterv1.Cluster{}, &clusterv1.MachineDeployment{}, &clusterv1.MachineSet{}, &clusterv1.Machine{}, &eventsv1.Event{},
		&v1alpha1.Updater{}, &v1alpha1.UpdatePolicy{},
	} {
		informer, err := c.GetInformer(ctx, object, cache.BlockUntilSynced(false))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: func(o any) { f.see(o, false) }, UpdateFunc: func(_, o any) { f.see(o, false) }, DeleteFunc: func(o any) { f.see(o, true) },
		}); err != nil {
			t.Fatal(err)
		}
	}
	go func() { _ = c.Start(ctx) }() // It fails only when it is started twice.
	if !c.WaitForCacheSync(ctx) {
		t.Fatalf("waiting for the first objects: %v", context.Cause(ctx))
	}
	return f
}

func (f *follower) see(object any, gone bool) {
	if tombstone, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
		object = tombstone.Obj
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if m, ok := object.(*clusterv1.Machine); ok {
		state := machineState{machine: m, deleting: gone || !m.DeletionTimestamp.IsZero(), progress: progressOf(m)}
		byUID := f.machines[m.Namespace]
		if byUID == nil {
			byUID = map[types.UID]machineState{}
			f.machines[m.Namespace] = byUID
		}
		byUID[m.UID] = state
		for _, handle := range f.states {
			handle(state)
		}
	}
	close(f.changed)
	f.changed = make(chan struct{})
}

// onMachine has f called with each further state of each Machine. It must be quick.
func (f *follower) onMachine(handle func(machineState)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.states = append(f.states, handle)
}

func progressOf(o client.Object) *inplace.Progress {
	return annotation[inplace.Progress](o, v1alpha1.UpdateProgressAnnotation)
}

// annotation decodes an annotation; nil where there is none, or another than expected.
func annotation[T any](o client.Object, key string) *T {
	text, ok := o.GetAnnotations()[key]
	value := new(T)
	if !ok || json.Unmarshal([]byte(text), value) != nil {
		return nil
	}
	return value
}

// census is which Machines there ever were in a namespace, and which of them are deleted or being deleted.
type census struct{ all, deleted []string }

// census returns the Machines that match. A nil match means all.
func (f *follower) census(namespace string, match func(*clusterv1.Machine) bool) census {
	f.mu.Lock()
	defer f.mu.Unlock()
	var c census
	for uid, state := range f.machines[namespace] {
		if match != nil && !match(state.machine) {
			continue
		}
		name := state.machine.Name + " " + string(uid)
		c.all = append(c.all, name)
		if state.deleting {
			c.deleted = append(c.deleted, name)
		}
	}
	slices.Sort(c.all)
	slices.Sort(c.deleted)
	return c
}

// checkCensus fails the test where a Machine was created or deleted.
func checkCensus(t *testing.T, before, after census) {
	t.Helper()
	if diff := cmp.Diff(before, after, cmp.AllowUnexported(census{})); diff != "" {
		t.Errorf("Machines were created or deleted (-before +after):\n%s", diff)
	}
}

// await waits until check returns "", and otherwise says what is still missing when ctx ends. It checks after every change on
// the plane.
func (f *follower) await(ctx context.Context, t *testing.T, what string, check func() (missing string)) {
	t.Helper()
	for {
		f.mu.Lock()
		changed := f.changed
		f.mu.Unlock()
		missing := check()
		if missing == "" {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("%s: %s (%v)", what, missing, context.Cause(ctx))
		}
	}
}

// get reads an object from the cache; false where it does not exist.
func (f *follower) get(ctx context.Context, t *testing.T, namespace, name string, object client.Object) bool {
	t.Helper()
	err := f.cache.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, object)
	if client.IgnoreNotFound(err) != nil && ctx.Err() == nil {
		t.Fatal(err)
	}
	return err == nil
}

// machinesOf lists the Machines of a MachineDeployment, or of the control plane where name is empty, by name.
func (f *follower) machinesOf(ctx context.Context, t *testing.T, namespace, name string) []clusterv1.Machine {
	t.Helper()
	list := &clusterv1.MachineList{}
	selector := client.ListOption(client.MatchingLabels{clusterv1.MachineDeploymentNameLabel: name})
	if name == "" {
		selector = client.HasLabels{clusterv1.MachineControlPlaneLabel}
	}
	if err := f.cache.List(ctx, list, client.InNamespace(namespace), selector); err != nil && ctx.Err() == nil {
		t.Fatal(err)
	}
	slices.SortFunc(list.Items, func(a, b clusterv1.Machine) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return list.Items
}

// blocked returns the condition that says why an update does not go on; nil where there is none or it is not True.
func blocked(conditions []metav1.Condition) *metav1.Condition {
	c := meta.FindStatusCondition(conditions, v1alpha1.UpdateBlockedCondition)
	if c == nil || c.Status != metav1.ConditionTrue {
		return nil
	}
	return c
}

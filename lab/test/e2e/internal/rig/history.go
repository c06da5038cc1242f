package rig

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	v1beta1conditions "sigs.k8s.io/cluster-api/util/conditions/deprecated/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The kinds that a History has.
const (
	KindCluster      = "Cluster"
	KindControlPlane = "KubeadmControlPlane"
	KindGroup        = "MachineDeployment"
	KindMachine      = "Machine"
	KindCheck        = "MachineHealthCheck"
	KindTemplate     = "DevMachineTemplate"
	KindBootstrap    = "KubeadmConfigTemplate"
)

// Fact is one version of one object.
type Fact struct {
	// Revision orders the versions of all objects: they are in one etcd, whose revisions count all of them. Seen is when a watch showed it.
	Revision int64
	Seen     time.Time
	Kind     string
	Cluster  types.NamespacedName
	// Group is the name of the group in the topology; empty for the control plane and what belongs to it.
	Group string
	Name  string
	UID   types.UID
	// Gone says that the object does not exist any more, Deleting that it is about to.
	Gone, Deleting bool
	Generation     int64
	// Version is what spec asks for, Reported what the kubelet of a Machine says or the status of a control plane.
	Version, Reported string
	Replicas          int32
	Ready             bool
	// Templates are the names of what machines are made from.
	Templates string
	// Hooks are the pending ones of a Cluster, Reconciled is its condition.
	Hooks      string
	Reconciled metav1.Condition
	// Written is what only the topology controller writes of a Cluster.
	Written string
}

// History has every version of every object since it began, as watches show them. Nothing is polled.
type History struct {
	mu sync.Mutex
	// changed is closed, and replaced, whenever something changes.
	changed chan struct{}
	facts   []Fact
	latest  map[types.UID]Fact
	// clusterWrites counts changes of Written, machines those that there ever were.
	clusterWrites, machines int
	// heard is called with each fact, one after another.
	heard []func(Fact)
}

// Follow begins a History. The scheme knows the types of Cluster API's core.
func Follow(ctx context.Context, t *testing.T, config *rest.Config, scheme *runtime.Scheme) *History {
	t.Helper()
	c, err := cache.New(config, cache.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	h := &History{changed: make(chan struct{}), latest: map[types.UID]Fact{}}
	objects := []client.Object{&clusterv1.Cluster{}, &clusterv1.MachineDeployment{}, &clusterv1.Machine{}, &clusterv1.MachineHealthCheck{}}
	for group, kind := range map[string]string{
		"controlplane.cluster.x-k8s.io": KindControlPlane, "infrastructure.cluster.x-k8s.io": KindTemplate, "bootstrap.cluster.x-k8s.io": KindBootstrap,
	} {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: clusterv1.GroupVersion.Version, Kind: kind})
		objects = append(objects, object)
	}
	for _, object := range objects {
		informer, err := c.GetInformer(ctx, object, cache.BlockUntilSynced(false))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: func(o any) { h.see(o, false) }, UpdateFunc: func(_, o any) { h.see(o, false) }, DeleteFunc: func(o any) { h.see(o, true) },
		}); err != nil {
			t.Fatal(err)
		}
	}
	go func() { _ = c.Start(ctx) }() // It fails only when it is started twice.
	if !c.WaitForCacheSync(ctx) {
		t.Fatalf("waiting for the first objects: %v", context.Cause(ctx))
	}
	return h
}

func (h *History) see(object any, gone bool) {
	if tombstone, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
		object = tombstone.Obj
	}
	o, ok := object.(client.Object)
	if !ok {
		return
	}
	fact := readFact(o)
	fact.Gone, fact.Seen = gone, time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	before, known := h.latest[fact.UID]
	switch {
	case fact.Kind == KindMachine && !known:
		h.machines++
	case fact.Kind == KindCluster && fact.Written != before.Written:
		h.clusterWrites++
	}
	h.facts = append(h.facts, fact)
	h.latest[fact.UID] = fact
	if gone {
		delete(h.latest, fact.UID)
	}
	for _, hear := range h.heard {
		hear(fact)
	}
	close(h.changed)
	h.changed = make(chan struct{})
}

// OnFact has hear called with each further fact. It must be quick.
func (h *History) OnFact(hear func(Fact)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.heard = append(h.heard, hear)
}

// ClusterWrites counts the versions of Clusters in which something is new that only the topology controller writes.
func (h *History) ClusterWrites() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.clusterWrites
}

// Machines counts the Machines that there ever were.
func (h *History) Machines() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.machines
}

func readFact(o client.Object) Fact {
	revision, _ := strconv.ParseInt(o.GetResourceVersion(), 10, 64) // it is a number, by etcd
	labels := o.GetLabels()
	f := Fact{
		Revision: revision, Cluster: types.NamespacedName{Namespace: o.GetNamespace(), Name: labels[clusterv1.ClusterNameLabel]},
		Group: labels[clusterv1.ClusterTopologyMachineDeploymentNameLabel], Name: o.GetName(), UID: o.GetUID(),
		Deleting: o.GetDeletionTimestamp() != nil, Generation: o.GetGeneration(),
	}
	switch o := o.(type) {
	case *clusterv1.Cluster:
		f.readCluster(o)
	case *clusterv1.MachineDeployment:
		f.Kind, f.Version, f.Replicas = KindGroup, o.Spec.Template.Spec.Version, deref(o.Spec.Replicas)
		f.Templates = o.Spec.Template.Spec.InfrastructureRef.Name + " " + o.Spec.Template.Spec.Bootstrap.ConfigRef.Name
	case *clusterv1.Machine:
		f.Kind, f.Version = KindMachine, o.Spec.Version
		f.Ready = meta.IsStatusConditionTrue(o.Status.Conditions, clusterv1.MachineReadyCondition)
		if o.Status.NodeInfo != nil {
			f.Reported = o.Status.NodeInfo.KubeletVersion
		}
	case *clusterv1.MachineHealthCheck:
		f.Kind = KindCheck
	case *unstructured.Unstructured:
		f.Kind = o.GetKind()
		f.Version, _, _ = unstructured.NestedString(o.Object, "spec", "version")
		f.Reported, _, _ = unstructured.NestedString(o.Object, "status", "version")
		replicas, _, _ := unstructured.NestedInt64(o.Object, "spec", "replicas")
		f.Replicas = int32(replicas)
		f.Templates, _, _ = unstructured.NestedString(o.Object, "spec", "machineTemplate", "spec", "infrastructureRef", "name")
	}
	return f
}

func (f *Fact) readCluster(o *clusterv1.Cluster) {
	f.Kind, f.Version, f.Cluster.Name = KindCluster, o.Spec.Topology.Version, o.Name
	f.Hooks = o.Annotations[runtimev1.PendingHooksAnnotation]
	if c := meta.FindStatusCondition(o.Status.Conditions, clusterv1.ClusterTopologyReconciledCondition); c != nil {
		f.Reconciled = *c
	}
	plans := [2][]clusterv1.StatusUpgradePlanVersion{}
	if o.Status.ControlPlane != nil {
		plans[0] = o.Status.ControlPlane.UpgradePlan
	}
	if o.Status.Workers != nil {
		plans[1] = o.Status.Workers.UpgradePlan
	}
	f.Written = fmt.Sprint(o.Annotations, f.Reconciled, v1beta1conditions.Get(o, clusterv1.TopologyReconciledV1Beta1Condition), plans, o.Spec.ControlPlaneRef, o.Spec.InfrastructureRef)
}

func deref(n *int32) int32 {
	if n == nil {
		return 0
	}
	return *n
}

// Of returns the history of one Cluster so far, in order.
func (h *History) Of(cluster types.NamespacedName) []Fact {
	h.mu.Lock()
	defer h.mu.Unlock()
	var facts []Fact
	for _, f := range h.facts {
		if f.Cluster == cluster {
			facts = append(facts, f)
		}
	}
	slices.SortStableFunc(facts, func(a, b Fact) int { return int(a.Revision - b.Revision) })
	return facts
}

// Now returns the objects of one Cluster as they are.
func (h *History) Now(cluster types.NamespacedName) Objects {
	h.mu.Lock()
	defer h.mu.Unlock()
	o := Objects{Groups: map[string]Fact{}, Machines: map[string][]Fact{}}
	for _, f := range h.latest {
		if f.Cluster == cluster {
			o = o.with(f)
		}
	}
	return o
}

// Objects are those of one Cluster at one time. Groups and Machines are by the name of the group in the topology; that of the control plane is
// empty.
type Objects struct {
	Cluster, ControlPlane Fact
	Groups                map[string]Fact
	Machines              map[string][]Fact
	// Others are templates and health checks.
	Others []Fact
}

func (o Objects) with(f Fact) Objects {
	switch f.Kind {
	case KindCluster:
		o.Cluster = f
	case KindControlPlane:
		o.ControlPlane = f
	case KindGroup:
		o.Groups[f.Group] = f
	case KindMachine:
		o.Machines[f.Group] = append(o.Machines[f.Group], f)
	default:
		o.Others = append(o.Others, f)
	}
	return o
}

// Await waits until check returns "", and otherwise says what is still missing when ctx ends. It checks after every change on the plane.
func (h *History) Await(ctx context.Context, t *testing.T, what string, check func() (missing string)) {
	t.Helper()
	for {
		h.mu.Lock()
		changed := h.changed
		h.mu.Unlock()
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

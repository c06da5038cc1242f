package controllers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/contract"
	"github.com/windlass-dev/windlass/internal/inplace/engine"
)

var (
	keys           = engine.NewKeys(v1alpha1.DefaultInPlaceUpgradePrefix)
	machineKind    = clusterv1.GroupVersion.WithKind("Machine")
	deploymentKind = clusterv1.GroupVersion.WithKind("MachineDeployment")
	ck8sKind       = schema.GroupVersionKind{Group: "controlplane.cluster.x-k8s.io", Version: "v1beta2", Kind: "CK8sControlPlane"}
	// hiddenControlPlane may not be listed.
	hiddenControlPlane = schema.GroupVersionKind{Group: "x.example.com", Version: "v1", Kind: "HiddenControlPlane"}
)

// saidEngine says what it is asked for.
type saidEngine struct {
	said chan string
	// sweeps is how many sweeps fail, and left what each of them finds.
	sweeps int
	left   []client.Object
}

func (e *saidEngine) UpgradeMachine(_ context.Context, key types.NamespacedName) (engine.Result, error) {
	e.said <- "Machine " + key.String()
	return engine.Result{}, nil
}

func (e *saidEngine) UpgradeGroup(_ context.Context, gvk schema.GroupVersionKind, key types.NamespacedName) (engine.Result, error) {
	e.said <- gvk.Kind + " " + key.String()
	return engine.Result{}, nil
}

func (e *saidEngine) SweepUpgrades(_ context.Context, found func(client.Object)) error {
	for _, o := range e.left {
		found(o)
	}
	if e.sweeps--; e.sweeps >= 0 {
		return errors.New("not yet")
	}
	e.said <- "Sweep"
	return nil
}

// informers are a cache whose events a test makes.
type informers struct {
	informertest.FakeInformers
	mu sync.Mutex
	// byKind are the informers; added takes the kind of each handler.
	byKind map[string]*informer
	added  chan string
}

type informer struct {
	*controllertest.FakeInformer
	kind  string
	added chan string
	mu    sync.Mutex
}

// AddEventHandlerWithOptions says which kind is watched, once it is.
func (i *informer) AddEventHandlerWithOptions(h toolscache.ResourceEventHandler, o toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	r, err := i.FakeInformer.AddEventHandlerWithOptions(h, o)
	i.added <- i.kind
	return r, err
}

func (c *informers) GetInformer(_ context.Context, object client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	return c.of(objectName(object)), nil
}

func objectName(object client.Object) string {
	if kind := object.GetObjectKind().GroupVersionKind().Kind; kind != "" {
		return "metadata of " + kind
	}
	return fmt.Sprintf("%T", object)
}

func (c *informers) of(kind string) *informer {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byKind[kind] == nil {
		c.byKind[kind] = &informer{FakeInformer: controllertest.NewFakeInformer(controllertest.Synced), kind: kind, added: c.added}
	}
	return c.byKind[kind]
}

// takeNames receives n items and sorts them.
func takeNames(from <-chan string, n int) []string {
	items := make([]string, 0, n)
	for range n {
		items = append(items, <-from)
	}
	slices.Sort(items)
	return items
}

func object(gvk schema.GroupVersionKind, name string, labels, annotations map[string]string) *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, ResourceVersion: "1", Labels: labels, Annotations: annotations}}
	o.SetGroupVersionKind(gvk)
	return o
}

func newScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := clusterv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return scheme
}

func newMapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{ck8sKind.GroupVersion(), hiddenControlPlane.GroupVersion()})
	mapper.Add(ck8sKind, meta.RESTScopeNamespace)
	mapper.Add(hiddenControlPlane, meta.RESTScopeNamespace)
	return mapper
}

// annotationLister lists every kind but hiddenKind. denied takes each list that it refuses.
type annotationLister struct {
	client.Reader
	denied chan string
}

func (l annotationLister) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	if kind := list.GetObjectKind().GroupVersionKind().Kind; kind == hiddenControlPlane.Kind+"List" {
		l.denied <- kind
		return errors.New("forbidden")
	}
	return nil
}

// TestControllers holds what is watched, and whom an event of a Machine, of its group and of a Cluster concerns.
func TestControllers(t *testing.T) {
	t.Parallel()
	scheme := newScheme(t)
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}}
	cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: ck8sKind.Group, Kind: ck8sKind.Kind, Name: "cp"}
	hidden := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "hidden"}}
	hidden.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: hiddenControlPlane.Group, Kind: hiddenControlPlane.Kind, Name: "cp"}
	md := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "md", Annotations: map[string]string{keys.Release: "revision=1"}}}
	idle := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "idle"}}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(cluster, hidden, md, idle).Build()
	watched := &informers{FakeInformers: informertest.FakeInformers{Scheme: scheme}, byKind: map[string]*informer{}, added: make(chan string, 16)}
	skipNameValidation := true // The test may run more than once in a process.
	mgr, err := manager.New(&rest.Config{}, manager.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0", Logger: logr.Discard(),
		Controller:     config.Controller{SkipNameValidation: &skipNameValidation},
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return newMapper(), nil },
		NewCache:       func(*rest.Config, cache.Options) (cache.Cache, error) { return watched, nil },
		NewClient:      func(*rest.Config, client.Options) (client.Client, error) { return c, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	engine := &saidEngine{said: make(chan string, 16), left: []client.Object{
		object(machineKind, "left", nil, nil), object(deploymentKind, "left", nil, nil), object(ck8sKind, "left", nil, nil),
	}}
	live := annotationLister{denied: make(chan string, 1)}
	options := AnnotationOptions{Engine: engine, Client: c, Mapper: newMapper(), Kinds: contract.NewWatchable(live, time.Now), Keys: keys}
	if err := SetUpAnnotations(mgr, options); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var ended sync.WaitGroup
	ended.Go(func() {
		if err := mgr.Start(ctx); err != nil {
			t.Error(err)
		}
	})
	defer ended.Wait()
	defer cancel()
	want := []string{"*v1beta2.Cluster", "metadata of Machine", "metadata of Machine", "metadata of MachineDeployment"}
	if diff := cmp.Diff(want, takeNames(watched.added, 4)); diff != "" {
		t.Errorf("watched (-want +got):\n%s", diff)
	}
	expect := func(want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, takeNames(engine.said, len(want))); diff != "" {
			t.Errorf("asked (-want +got):\n%s", diff)
		}
	}
	expect("CK8sControlPlane ns/left", "Machine ns/left", "MachineDeployment ns/left", "Sweep")
	watched.of("*v1beta2.Cluster").Add(hidden)
	<-live.denied
	watched.of("*v1beta2.Cluster").Add(cluster)
	if diff := cmp.Diff([]string{"metadata of CK8sControlPlane"}, takeNames(watched.added, 1)); diff != "" {
		t.Errorf("watched for the Cluster (-want +got):\n%s", diff)
	}
	watched.of("metadata of CK8sControlPlane").Add(object(ck8sKind, "cp", nil, map[string]string{keys.To: "revision=2"}))
	expect("CK8sControlPlane ns/cp")
	machines := watched.of("metadata of Machine")
	// What comes before the last one is of nobody's concern; it would be asked for first.
	machines.Add(object(machineKind, "plain", map[string]string{clusterv1.MachineDeploymentNameLabel: "idle"}, nil))
	machines.Add(object(machineKind, "joins", map[string]string{clusterv1.MachineDeploymentNameLabel: "md"}, nil))
	expect("MachineDeployment ns/md")
	machines.Add(object(machineKind, "marked", map[string]string{clusterv1.MachineDeploymentNameLabel: "idle"}, map[string]string{keys.To: "revision=2"}))
	expect("Machine ns/marked")
	watched.of("metadata of MachineDeployment").Add(object(deploymentKind, "idle", nil, nil))
	watched.of("metadata of MachineDeployment").Add(object(deploymentKind, "md", nil, map[string]string{keys.To: "revision=2"}))
	expect("MachineDeployment ns/md")
}

// TestPredicates holds which events reconcile a Machine, and which a group.
func TestPredicates(t *testing.T) {
	t.Parallel()
	c := &controllers{AnnotationOptions: AnnotationOptions{Keys: keys}}
	marked := map[string]string{keys.To: "revision=2"}
	now := metav1.Unix(1, 0)
	for name, tt := range map[string]struct {
		before, after  map[string]string
		edit           func(*metav1.PartialObjectMetadata)
		machine, group bool
	}{
		"a status":                    {before: marked, after: marked},
		"other annotations":           {before: marked, after: map[string]string{keys.To: "revision=2", "a": "b"}},
		"asked":                       {after: marked, machine: true, group: true},
		"no longer asked":             {before: marked, machine: true, group: true},
		"asked for something else":    {before: marked, after: map[string]string{keys.To: "revision=3"}, machine: true, group: true},
		"a retry":                     {before: marked, after: map[string]string{keys.To: "revision=2", v1alpha1.UpdateRetryAnnotation: ""}, machine: true, group: true},
		"a retry of something else":   {after: map[string]string{v1alpha1.UpdateRetryAnnotation: ""}},
		"deletion":                    {before: marked, after: marked, edit: func(o *metav1.PartialObjectMetadata) { o.DeletionTimestamp = &now }, machine: true, group: true},
		"deletion of what rests":      {edit: func(o *metav1.PartialObjectMetadata) { o.DeletionTimestamp = &now }},
		"a new spec":                  {before: marked, after: marked, edit: func(o *metav1.PartialObjectMetadata) { o.Generation++ }, group: true},
		"a new spec of what rests":    {edit: func(o *metav1.PartialObjectMetadata) { o.Generation++ }},
		"nothing, as once in a while": {before: marked, after: marked, edit: func(o *metav1.PartialObjectMetadata) { o.ResourceVersion = "1" }, machine: true, group: true},
	} {
		before, after := object(machineKind, "m", nil, tt.before), object(machineKind, "m", nil, tt.after)
		after.ResourceVersion = "2"
		if tt.edit != nil {
			tt.edit(after)
		}
		e := event.UpdateEvent{ObjectOld: before, ObjectNew: after}
		if machine, group := c.marked().Update(e), c.asked().Update(e); machine != tt.machine || group != tt.group {
			t.Errorf("%s: reconciles a Machine %t, a group %t; want %t, %t", name, machine, group, tt.machine, tt.group)
		}
	}
	controlPlane := object(machineKind, "m", map[string]string{clusterv1.MachineControlPlaneLabel: ""}, nil)
	if !c.marked().Create(event.CreateEvent{Object: controlPlane}) || c.marked().Create(event.CreateEvent{Object: object(machineKind, "m", nil, nil)}) {
		t.Error("a control plane Machine may hold the lock when a process starts, and a worker may not")
	}
	if c.marked().Delete(event.DeleteEvent{Object: controlPlane}) || !c.marked().Delete(event.DeleteEvent{Object: object(machineKind, "m", nil, marked)}) {
		t.Error("what is forgotten of a Machine that is gone")
	}
	c.WatchFilter = "ours"
	if c.filtered().Create(event.CreateEvent{Object: controlPlane}) || !c.filtered().Create(event.CreateEvent{Object: object(machineKind, "m", map[string]string{clusterv1.WatchLabel: "ours"}, nil)}) {
		t.Error("the watch filter does not count")
	}
}

// TestMembersOfGroups holds that a group is looked at when a Machine begins or ends its upgrade, and not at each step of it.
func TestMembersOfGroups(t *testing.T) {
	t.Parallel()
	c := &controllers{AnnotationOptions: AnnotationOptions{Keys: keys}}
	running := map[string]string{keys.To: "revision=2", keys.Status: "in-progress", v1alpha1.InPlaceUpgradeAnnotation: "{}"}
	for name, tt := range map[string]struct {
		before, after map[string]string
		want          bool
	}{
		"begins":       {before: map[string]string{keys.To: "revision=2"}, after: running, want: true},
		"is farther":   {before: running, after: map[string]string{keys.To: "revision=2", keys.Status: "in-progress", v1alpha1.InPlaceUpgradeAnnotation: `{"x":1}`}},
		"ends":         {before: running, after: map[string]string{keys.Release: "revision=2", keys.Status: "done"}, want: true},
		"is forgotten": {before: running, after: map[string]string{keys.To: "revision=2", keys.Status: "in-progress"}, want: true},
	} {
		before, after := object(machineKind, "m", nil, tt.before), object(machineKind, "m", nil, tt.after)
		after.ResourceVersion = "2"
		if got := c.joinedOrChanged().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); got != tt.want {
			t.Errorf("a Machine %s: the group is looked at: %t", name, got)
		}
	}
}

// TestResult puts what the engine says into the terms of controllers.
func TestResult(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		in   engine.Result
		want reconcile.Result
	}{
		{engine.Result{}, reconcile.Result{}},
		{engine.Result{After: time.Minute}, reconcile.Result{RequeueAfter: time.Minute}},
		{engine.Result{Now: true}, reconcile.Result{RequeueAfter: atOnce}},
	} {
		if got, err := result(tt.in, nil); got != tt.want || err != nil {
			t.Errorf("%+v: %+v, %v", tt.in, got, err)
		}
	}
	failure := errors.New("no")
	if got, err := result(engine.Result{Now: true}, failure); got != (reconcile.Result{}) || !errors.Is(err, failure) {
		t.Errorf("an error: %+v, %v", got, err)
	}
}

// TestSweeper tries again what failed, ends once it has worked, and hands on what this process is responsible for, also of a sweep that failed.
func TestSweeper(t *testing.T) {
	t.Parallel()
	ours := map[string]string{clusterv1.WatchLabel: "ours"}
	engine := &saidEngine{said: make(chan string, 1), sweeps: 1, left: []client.Object{
		object(machineKind, "a", ours, nil), object(machineKind, "b", nil, nil), object(deploymentKind, "c", ours, nil),
	}}
	s := newSweeper(AnnotationOptions{Engine: engine, WatchFilter: "ours"}, time.Millisecond)
	var ended sync.WaitGroup
	ended.Go(func() {
		if err := s.Start(t.Context()); err != nil {
			t.Error(err)
		}
	})
	for range 2 {
		if m, g := (<-s.machines).Object.GetName(), (<-s.groups).Object.GetName(); m != "a" || g != "c" {
			t.Errorf("handed on are Machine %s and MachineDeployment %s", m, g)
		}
	}
	ended.Wait()
	if <-engine.said != "Sweep" {
		t.Error("no sweep has worked")
	}
	// Nobody takes what it finds, and it ends all the same.
	engine.sweeps = 1000
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := newSweeper(AnnotationOptions{Engine: engine}, time.Hour).Start(ctx); err != nil {
		t.Error(err)
	}
}

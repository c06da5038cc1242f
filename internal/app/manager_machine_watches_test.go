package app

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/core/reconcilers/machine"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// countingQueue counts what watches enqueue. No worker gets anything of it.
type countingQueue struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	added []string
	// started is closed once all watches have started, ended with the controller.
	started, ended     chan struct{}
	isStarted, isEnded sync.Once
}

func (q *countingQueue) Add(r reconcile.Request) { q.added = append(q.added, r.Name) }

func (q *countingQueue) Get() (reconcile.Request, bool) {
	q.isStarted.Do(func() { close(q.started) })
	<-q.ended
	return reconcile.Request{}, true
}

func (q *countingQueue) ShutDown() {
	q.isEnded.Do(func() { close(q.ended) })
	q.TypedRateLimitingInterface.ShutDown()
}

// take returns how many requests were added since the last call.
func (q *countingQueue) take() int {
	n := len(q.added)
	q.added = nil
	return n
}

// machineWatches are the watches of Cluster API's Machine controller over a fake cache.
type machineWatches struct {
	queue *countingQueue
	cache *informertest.FakeInformers
	// delayed counts handlers whose update was delayed since the last call of late.
	delayed int
}

// narrow is a manager's narrowed one. Delayed updates are passed on at once.
func (w *machineWatches) narrow(m manager.Manager) manager.Manager {
	e := machineEvents(newPace())
	e.later = func(_ time.Duration, pass func()) { w.delayed++; pass() }
	return eventManager{m, e}
}

// late reports whether the last update was delayed.
func (w *machineWatches) late() bool {
	n := w.delayed
	w.delayed = 0
	return n > 0
}

// newMachineWatches starts the controller with the manager that narrow returns.
func newMachineWatches(
	t *testing.T, objects []client.Object,
	narrow func(*machineWatches, manager.Manager) manager.Manager,
) *machineWatches {
	t.Helper()
	return newWatches(t, objects, func(w *machineWatches, m manager.Manager, o controller.Options) error {
		return (&machine.Reconciler{
			Client: m.GetClient(), APIReader: m.GetClient(), ClusterCache: clustercache.NewFakeEmptyClusterCache(),
			RemoteConditionsGracePeriod: minConditionsGracePeriod,
		}).SetupWithManager(t.Context(), narrow(w, m), o)
	})
}

// newWatches starts the controller that setUp adds to a manager.
func newWatches(
	t *testing.T, objects []client.Object,
	setUp func(*machineWatches, manager.Manager, controller.Options) error,
) *machineWatches {
	t.Helper()
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{clusterv1.GroupVersion})
	for _, kind := range []string{
		"Cluster", "Machine", "MachineList", "MachineSet", "MachineSetList", "MachineDeployment", "MachineDeploymentList",
	} {
		mapper.Add(clusterv1.GroupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithRESTMapper(mapper).WithObjects(objects...).Build()
	w := &machineWatches{cache: &informertest.FakeInformers{Scheme: scheme}}
	// The watches start at the same time, and the fake cache has no lock: make its informers first.
	for _, o := range []client.Object{
		&clusterv1.Cluster{}, &clusterv1.Machine{}, &clusterv1.MachineSet{}, &clusterv1.MachineDeployment{},
	} {
		if _, err := w.cache.GetInformer(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	mgr, err := ctrl.NewManager(&rest.Config{Host: "127.0.0.1:1"}, ctrl.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"},
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return mapper, nil },
		NewCache:       func(*rest.Config, cache.Options) (cache.Cache, error) { return w.cache, nil },
		NewClient:      func(*rest.Config, client.Options) (client.Client, error) { return c, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	made := make(chan *countingQueue, 1)
	err = setUp(w, mgr, controller.Options{
		SkipNameValidation: new(true),
		NewQueue: func(_ string, limiter workqueue.TypedRateLimiter[reconcile.Request],
		) workqueue.TypedRateLimitingInterface[reconcile.Request] {
			q := &countingQueue{
				TypedRateLimitingInterface: workqueue.NewTypedRateLimitingQueue(limiter),
				started:                    make(chan struct{}), ended: make(chan struct{}),
			}
			made <- q
			return q
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	w.queue = <-made
	<-w.queue.started
	return w
}

// update sends the change of an object to the watches, and returns how many Machines it enqueued.
func (w *machineWatches) update(t *testing.T, before, after client.Object) int {
	t.Helper()
	informer, err := w.cache.FakeInformerFor(t.Context(), before)
	if err != nil {
		t.Fatal(err)
	}
	informer.Update(before, after)
	return w.queue.take()
}

const groupSize = 20

var epoch = metav1.NewTime(time.Unix(0, 0))

// newGroup returns a MachineDeployment, its MachineSet, and the Machines of it.
func newGroup() (*clusterv1.MachineDeployment, *clusterv1.MachineSet, []client.Object) {
	template := clusterv1.MachineTemplateSpec{Spec: clusterv1.MachineSpec{ClusterName: "c", Version: "v1.33.0"}}
	labels := map[string]string{clusterv1.ClusterNameLabel: "c", clusterv1.MachineDeploymentNameLabel: "md"}
	md := &clusterv1.MachineDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "md", UID: "1", ResourceVersion: "1", Labels: labels},
		Spec:       clusterv1.MachineDeploymentSpec{ClusterName: "c", Replicas: new(int32(groupSize)), Template: template},
	}
	ms := &clusterv1.MachineSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "ms", UID: "2", ResourceVersion: "1", Labels: labels},
		Spec:       clusterv1.MachineSetSpec{ClusterName: "c", Replicas: new(int32(groupSize)), Template: template},
	}
	var machines []client.Object
	for i := range groupSize {
		machines = append(machines, &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: fmt.Sprintf("m-%02d", i), Labels: map[string]string{
				clusterv1.ClusterNameLabel: "c", clusterv1.MachineDeploymentNameLabel: "md", clusterv1.MachineSetNameLabel: "ms",
			},
		}})
	}
	return md, ms, machines
}

// changeStatuses returns how many Machines are enqueued while the statuses of their groups change 40
// times, as they do while machines are updated one by one.
func (w *machineWatches) changeStatuses(t *testing.T, md *clusterv1.MachineDeployment, ms *clusterv1.MachineSet) int {
	t.Helper()
	total := 0
	for i := range int32(20) {
		condition := metav1.Condition{Type: clusterv1.MachineDeploymentRollingOutCondition, Message: fmt.Sprint(i, " left")}
		set := ms.DeepCopy()
		set.ResourceVersion += "1"
		set.Generation++
		set.Spec.Replicas = new(*ms.Spec.Replicas + 1)
		set.Annotations = map[string]string{clusterv1.DesiredReplicasAnnotation: fmt.Sprint(i)}
		set.Status.ReadyReplicas, set.Status.UpToDateReplicas = new(i), new(i)
		set.Status.Conditions = []metav1.Condition{condition}
		total += w.update(t, ms, set)
		deployment := md.DeepCopy()
		deployment.ResourceVersion += "1"
		deployment.Status.ObservedGeneration++
		deployment.Status.AvailableReplicas = new(i)
		deployment.Status.Conditions = []metav1.Condition{condition}
		total += w.update(t, md, deployment)
		ms, md = set, deployment
	}
	return total
}

// TestMachineWatches: a group's status enqueues none of its Machines. With the manager's own cache each
// change of it enqueues all.
func TestMachineWatches(t *testing.T) {
	t.Parallel()
	md, ms, machines := newGroup()
	narrow := newMachineWatches(t, machines, (*machineWatches).narrow)
	if n := narrow.changeStatuses(t, md, ms); n != 0 {
		t.Errorf("40 changes of statuses enqueued %d Machines", n)
	}
	own := newMachineWatches(t, machines,
		func(_ *machineWatches, m manager.Manager) manager.Manager { return m })
	if n := own.changeStatuses(t, md, ms); n != 40*groupSize {
		t.Errorf("40 changes of statuses enqueued %d Machines with the manager's own cache", n)
	}
	labelled := &clusterv1.Machine{ObjectMeta: *machines[0].(*clusterv1.Machine).ObjectMeta.DeepCopy()} //nolint:errcheck // newGroup makes Machines.
	labelled.ResourceVersion += "1"
	labelled.Status.Phase = "Running"
	if n := narrow.update(t, machines[0], labelled); n != 1 || !narrow.late() {
		t.Errorf("a Machine's status enqueued %d Machines, or at once", n)
	}
	informer, err := narrow.cache.FakeInformerFor(t.Context(), ms)
	if err != nil {
		t.Fatal(err)
	}
	for event, send := range map[string]func(metav1.Object){"addition": informer.Add, "deletion": informer.Delete} {
		if send(ms); narrow.queue.take() != groupSize {
			t.Errorf("the %s of a MachineSet did not enqueue its Machines", event)
		}
	}
}

// TestMachineWatchesPass has each change of a group that Cluster API's Machine controller reads enqueue all Machines.
func TestMachineWatchesPass(t *testing.T) {
	t.Parallel()
	md, ms, machines := newGroup()
	w := newMachineWatches(t, machines, (*machineWatches).narrow)
	paused := func(status metav1.ConditionStatus, message string) []metav1.Condition {
		return []metav1.Condition{{Type: clusterv1.PausedCondition, Status: status, Message: message}}
	}
	own := "MachineSet has the cluster.x-k8s.io/paused annotation"
	ms.Status.Conditions, md.Status.Conditions = paused(metav1.ConditionTrue, own), paused(metav1.ConditionTrue, own)
	common := map[string]func(o client.Object, template *clusterv1.MachineTemplateSpec, conditions *[]metav1.Condition){
		"identity": func(o client.Object, _ *clusterv1.MachineTemplateSpec, _ *[]metav1.Condition) { o.SetUID("new") },
		"deletion begins": func(o client.Object, _ *clusterv1.MachineTemplateSpec, _ *[]metav1.Condition) {
			o.SetDeletionTimestamp(&epoch)
		},
		"labels": func(o client.Object, _ *clusterv1.MachineTemplateSpec, _ *[]metav1.Condition) {
			o.SetLabels(map[string]string{clusterv1.WatchLabel: "us", clusterv1.MachineDeploymentNameLabel: "md"})
		},
		"revision": func(o client.Object, _ *clusterv1.MachineTemplateSpec, _ *[]metav1.Condition) {
			o.SetAnnotations(map[string]string{clusterv1.RevisionAnnotation: "2"})
		},
		"template": func(_ client.Object, template *clusterv1.MachineTemplateSpec, _ *[]metav1.Condition) {
			template.Spec.Version = "v1.34.0"
		},
		"group resumed": func(_ client.Object, _ *clusterv1.MachineTemplateSpec, conditions *[]metav1.Condition) {
			*conditions = paused(metav1.ConditionFalse, "")
		},
		"paused condition gone": func(_ client.Object, _ *clusterv1.MachineTemplateSpec, conditions *[]metav1.Condition) {
			*conditions = nil
		},
		"cluster paused while the group is": func(_ client.Object, _ *clusterv1.MachineTemplateSpec, conditions *[]metav1.Condition) {
			*conditions = paused(metav1.ConditionTrue, "Cluster spec.paused is set to true, "+own)
		},
	}
	for name, change := range common {
		set, deployment := ms.DeepCopy(), md.DeepCopy()
		set.ResourceVersion, deployment.ResourceVersion = "2", "2"
		change(set, &set.Spec.Template, &set.Status.Conditions)
		change(deployment, &deployment.Spec.Template, &deployment.Status.Conditions)
		if n := w.update(t, ms, set); n != groupSize || w.late() {
			t.Errorf("MachineSet, %s: %d Machines, or delayed", name, n)
		}
		rollout := name == "template" || name == "revision"
		if n, late := w.update(t, md, deployment), w.late(); n != groupSize || late != rollout {
			t.Errorf("MachineDeployment, %s: %d Machines, delayed=%t", name, n, late)
		}
	}
	due := md.DeepCopy()
	due.ResourceVersion, due.Spec.Rollout.After = "2", epoch
	if n := w.update(t, md, due); n != groupSize || !w.late() {
		t.Errorf("rollout.after: %d Machines, or at once", n)
	}
}

package app

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"maps"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
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
	e := machineEvents()
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
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{clusterv1.GroupVersion})
	for _, kind := range []string{"Cluster", "Machine", "MachineList", "MachineSet", "MachineDeployment"} {
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
	err = (&machine.Reconciler{
		Client: c, APIReader: c, ClusterCache: clustercache.NewFakeEmptyClusterCache(),
		RemoteConditionsGracePeriod: minConditionsGracePeriod,
	}).SetupWithManager(t.Context(), narrow(w, mgr), controller.Options{
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

// TestMachineSettles: the addition of a Machine waits for the condition Paused that its MachineSet
// writes, and comes by itself where the MachineSet does not.
func TestMachineSettles(t *testing.T) {
	t.Parallel()
	isOwned := new(true)
	added := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "m", ResourceVersion: "1", OwnerReferences: []metav1.OwnerReference{
			{Kind: "MachineSet", Name: "ms", Controller: isOwned},
		},
	}}
	notPaused := added.DeepCopy()
	notPaused.ResourceVersion = "2"
	notPaused.Status.Conditions = []metav1.Condition{
		{Type: clusterv1.PausedCondition, Status: metav1.ConditionFalse},
	}
	other := added.DeepCopy()
	other.OwnerReferences[0].Kind = "KubeadmControlPlane"
	for name, tt := range map[string]struct {
		send func(h toolscache.ResourceEventHandler)
		// at are the events that come at once; all includes those that come later.
		at, all []string
	}{
		"the condition follows": {func(h toolscache.ResourceEventHandler) {
			h.OnAdd(added, false)
			h.OnUpdate(added, notPaused)
		}, []string{"update"}, []string{"update"}},
		"no condition follows": {func(h toolscache.ResourceEventHandler) {
			h.OnAdd(added, false)
		}, nil, []string{"addition"}},
		"has the condition": {func(h toolscache.ResourceEventHandler) {
			h.OnAdd(notPaused, false)
		}, []string{"addition"}, []string{"addition"}},
		"existed at the start": {func(h toolscache.ResourceEventHandler) {
			h.OnAdd(added, true)
		}, []string{"addition"}, []string{"addition"}},
		"of a control plane": {func(h toolscache.ResourceEventHandler) {
			h.OnAdd(other, false)
		}, []string{"addition"}, []string{"addition"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			var late []func()
			rules := machineEvents()
			rules.later = func(_ time.Duration, pass func()) { late = append(late, pass) }
			tt.send(rules.narrow(toolscache.ResourceEventHandlerFuncs{
				AddFunc:    func(any) { got = append(got, "addition") },
				UpdateFunc: func(any, any) { got = append(got, "update") },
			}))
			if diff := cmp.Diff(tt.at, got); diff != "" {
				t.Errorf("at once (-want +got):\n%s", diff)
			}
			for _, pass := range late {
				pass()
			}
			if diff := cmp.Diff(tt.all, got); diff != "" {
				t.Errorf("in the end (-want +got):\n%s", diff)
			}
		})
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

// TestMachineWatchesMove has the steps of a move enqueue a Machine later, and what begins and ends
// its update at once.
func TestMachineWatchesMove(t *testing.T) {
	t.Parallel()
	marked := map[string]string{clusterv1.UpdateInProgressAnnotation: ""}
	machine := func(change func(*clusterv1.Machine)) *clusterv1.Machine {
		m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Annotations: maps.Clone(marked)}}
		change(m)
		return m
	}
	external := func(annotations map[string]string, path ...string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{}}}
		if len(path) > 0 {
			if err := unstructured.SetNestedField(o.Object, "x", path...); err != nil {
				t.Fatal(err)
			}
		}
		o.SetAnnotations(annotations)
		return o
	}
	for _, test := range []struct {
		name  string
		after any
		want  urgency
	}{
		{"a Machine that moves", machine(func(*clusterv1.Machine) {}), soon},
		{"a Machine whose update begins", machine(func(m *clusterv1.Machine) {
			m.Annotations[runtimev1.PendingHooksAnnotation] = "UpdateMachine"
		}), now},
		{"a Machine that moves and is deleted", machine(func(m *clusterv1.Machine) {
			m.DeletionTimestamp = &epoch
		}), now},
		{"a resync of a Machine", &clusterv1.Machine{}, now},
		{"the status of a Machine", &clusterv1.Machine{
			ObjectMeta: metav1.ObjectMeta{ResourceVersion: "2"},
		}, soon},
		{"the condition Paused of a Machine", &clusterv1.Machine{
			ObjectMeta: metav1.ObjectMeta{ResourceVersion: "2"},
			Status: clusterv1.MachineStatus{Conditions: []metav1.Condition{{
				Type: clusterv1.PausedCondition, Status: metav1.ConditionFalse,
			}}},
		}, now},
		{"the spec of a Machine", &clusterv1.Machine{
			ObjectMeta: metav1.ObjectMeta{ResourceVersion: "2", Generation: 2},
		}, now},
		{"labels of an object", external(nil, "metadata", "labels", "a"), soon},
		{"annotations of an object", external(marked), soon},
		{"spec of an object", external(nil, "spec", "a"), now},
		{"spec of an object that is marked", external(marked, "spec", "a"), soon},
		{"status of an object that is marked", external(marked, "status", "a"), now},
		{"owners of an object", external(nil, "metadata", "ownerReferences"), now},
		{"deletion of an object", external(nil, "metadata", "deletionTimestamp"), soon},
	} {
		var before any = external(nil)
		if _, ok := test.after.(*clusterv1.Machine); ok {
			before = &clusterv1.Machine{}
		}
		if got := machineUrgency(before, test.after); got != test.want {
			t.Errorf("%s: urgency %d, want %d", test.name, got, test.want)
		}
	}
}

// TestExternalConditions: of the conditions of an infrastructure machine or a bootstrap config, only
// the status of Ready is urgent, in each contract of Cluster API.
func TestExternalConditions(t *testing.T) {
	t.Parallel()
	object := func(path, kind, status, message string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{
			"status": map[string]any{"initialization": map[string]any{"provisioned": true}},
		}}
		all := []any{map[string]any{"type": kind, "status": status, "message": message}}
		err := unstructured.SetNestedSlice(o.Object, all, strings.Split("status."+path, ".")...)
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	for _, path := range []string{"conditions", "v1beta2.conditions", "deprecated.v1beta1.conditions"} {
		ready := object(path, "Ready", "False", "one")
		without := ready.DeepCopy()
		delete(without.Object, "status")
		provisioning := ready.DeepCopy()
		provisioning.Object["status"].(map[string]any)["initialization"] = nil //nolint:errcheck // It is made above.
		for name, tt := range map[string]struct {
			before, after *unstructured.Unstructured
			want          urgency
		}{
			"Ready's status": {ready, object(path, "Ready", "True", "one"), now},
			"Ready's words":  {ready, object(path, "Ready", "False", "two"), soon},
			"another one": {
				object(path, "Other", "False", "one"), object(path, "Other", "True", "two"), soon,
			},
			"the first status":    {without, ready, now},
			"what it waits for":   {provisioning, ready, now},
			"nothing, it resyncs": {ready, ready, soon},
		} {
			if got := machineUrgency(tt.before, tt.after); got != tt.want {
				t.Errorf("%s, %s: urgency %d, want %d", path, name, got, tt.want)
			}
		}
	}
}

// TestOwnStatusWaits: what the Machine controller wrote itself waits longest.
func TestOwnStatusWaits(t *testing.T) {
	t.Parallel()
	with := func(kind string, status metav1.ConditionStatus) *clusterv1.Machine {
		return &clusterv1.Machine{Status: clusterv1.MachineStatus{Conditions: []metav1.Condition{
			{Type: clusterv1.MachineUpToDateCondition}, {Type: kind, Status: status},
		}}}
	}
	for kind, want := range map[string]time.Duration{
		clusterv1.ReadyCondition:                       ownDelay,
		clusterv1.MachineNodeHealthyCondition:          ownDelay,
		clusterv1.MachineHealthCheckSucceededCondition: rolloutDelay,
		clusterv1.MachineOwnerRemediatedCondition:      rolloutDelay,
		"Somebody/Else":                                rolloutDelay,
	} {
		got := machineDelay(with(kind, metav1.ConditionFalse), with(kind, metav1.ConditionTrue))
		if got != want {
			t.Errorf("%s waits for %s, want %s", kind, got, want)
		}
	}
}

// TestMachineControllerReads pins the functions of Cluster API's Machine controller that name a
// MachineSet, a MachineDeployment, a bootstrap config or an infrastructure machine. When it fails
// after an update of Cluster API, see what they read now, correct groupUrgency and
// isExternalUrgent, and write the new digests here.
func TestMachineControllerReads(t *testing.T) {
	t.Parallel()
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/cluster-api").Output()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "core", "reconcilers", "machine", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		got = append(got, readers(t, file)...)
	}
	slices.Sort(got)
	want := []string{
		"Reconcile 133419df856251d4",
		"SetupWithManager 05165d187adfb75d",
		"callUpdateMachineHook 09e80130d87326a5",
		"cleanupUnstructured f9d311d14bbfadd3",
		"completeInPlaceUpdate 5c127c2a0d2d2fe5",
		"ensureExternalOwnershipAndWatch b50cb1d26d0ffb7a",
		"getOwnerMachineDeployment 7568b9fb1bb9ceef",
		"getOwnerMachineSet 8f795ae8955af3a7",
		"hasOnCreateOwnerRefs ad714f143cb14e7a",
		"isBootstrapConfigReadyForUpdate 39b00ab955341eda",
		"isDeleteNodeAllowed 2f7459b5bf15ca44",
		"isInfraMachineReadyForUpdate e51527e1b792d3f2",
		"isNodeDrainAllowed e276fee2367bab86",
		"isNodeVolumeDetachingAllowed 9e777b17b3ce2e09",
		"patchNode 7f96c0b51234d442",
		"reconcileBootstrap c7872668a01a7566",
		"reconcileCertificateExpiry d05b8d8c4ffcb855",
		"reconcileDelete 9d344dec2e01868e",
		"reconcileDeleteBootstrap 6581d06d667b69f5",
		"reconcileDeleteInfrastructure 1dad586308004f59",
		"reconcileExternal 44f8b3aaa1e0a09f",
		"reconcileInPlaceUpdate fc02a59f42680132",
		"reconcileInfrastructure dc8a651d5c6f6cc8",
		"reconcileNode 54d8f36c5944bf24",
		"removeOnCreateOwnerRefs 0b844a7e91602251",
		"setBootstrapReadyCondition 12154238ca9c6c92",
		"setInfrastructureReadyCondition 231e13381241be73",
		"setUpToDateCondition 69010b5c83a384d0",
		"shouldNodeHaveOutdatedTaint 30ffbfe6164a1ae8",
		"updateStatus 4da8b6989895e0cd",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("functions that read objects of others (-reviewed +found):\n%s", diff)
	}
}

// readers returns name and digest of each function of a file that names an object of others.
func readers(t *testing.T, file string) []string {
	t.Helper()
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, d := range parsed.Decls {
		function, ok := d.(*ast.FuncDecl)
		if !ok || !names(function) {
			continue
		}
		var text bytes.Buffer
		if err := format.Node(&text, fset, function); err != nil {
			t.Fatal(err)
		}
		found = append(found, fmt.Sprintf("%s %.8x", function.Name.Name, sha256.Sum256(text.Bytes())))
	}
	return found
}

func names(function *ast.FuncDecl) bool {
	found := false
	ast.Inspect(function, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			found = found || slices.Contains([]string{
				"MachineSet", "MachineDeployment", "owningMachineSet", "owningMachineDeployment",
				"bootstrapConfig", "infraMachine", "Unstructured",
			}, id.Name)
		}
		return !found
	})
	return found
}

// TestEventsWait: an update that may wait comes later, and no other one of the same object until then.
func TestEventsWait(t *testing.T) {
	t.Parallel()
	var passed []string
	var timers []func()
	rules := machineEvents()
	rules.later = func(d time.Duration, pass func()) {
		if d != rolloutDelay {
			t.Errorf("a rollout waits for %s", d)
		}
		timers = append(timers, pass)
	}
	handler := rules.narrow(toolscache.ResourceEventHandlerFuncs{UpdateFunc: func(_, after any) {
		md, _ := after.(*clusterv1.MachineDeployment)
		passed = append(passed, md.Name+" "+md.Spec.Template.Spec.Version)
	}})
	md := func(name, version string) *clusterv1.MachineDeployment {
		o := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Name: name}}
		o.Spec.Template.Spec.Version = version
		return o
	}
	handler.OnUpdate(md("a", "1"), md("a", "2"))
	handler.OnUpdate(md("a", "2"), md("a", "3"))
	handler.OnUpdate(md("b", "1"), md("b", "2"))
	for _, pass := range timers {
		pass()
	}
	handler.OnUpdate(md("a", "3"), md("a", "4"))
	timers[len(timers)-1]()
	if diff := cmp.Diff([]string{"a 2", "b 2", "a 4"}, passed); diff != "" {
		t.Errorf("updates (-want +got):\n%s", diff)
	}
}

package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	capicontract "sigs.k8s.io/cluster-api/util/contract"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace/request"
	"github.com/windlass-dev/windlass/internal/port"
	"github.com/windlass-dev/windlass/internal/port/porttest"
)

const (
	wanted    = "v1.31.2"
	toVersion = "version=" + wanted
	toChannel = "channel=1.31-classic/stable"
)

var (
	keys     = NewKeys(v1alpha1.DefaultInPlaceUpgradePrefix)
	ck8sKind = schema.GroupVersionKind{Group: "controlplane.cluster.x-k8s.io", Version: "v1beta2", Kind: "CK8sControlPlane"}
	// hostedKind is of control planes without Machines.
	hostedKind = schema.GroupVersionKind{Group: "controlplane.cluster.x-k8s.io", Version: "v1beta1", Kind: "HostedControlPlane"}
	rke2Kind   = schema.GroupVersionKind{Group: "controlplane.cluster.x-k8s.io", Version: "v1beta1", Kind: "RKE2ControlPlane"}
)

// recorder keeps Events by the object's name, and of each object the last message.
type recorder struct {
	mu    sync.Mutex
	said  map[string][]string
	notes map[string]string
}

func (r *recorder) Eventf(regarding, _ runtime.Object, _, reason, _, note string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	object, ok := regarding.(client.Object)
	if !ok {
		panic(fmt.Sprintf("%T is no object", regarding))
	}
	r.said[object.GetName()] = append(r.said[object.GetName()], strings.TrimPrefix(reason, "InPlaceUpgrade"))
	r.notes[object.GetName()] = fmt.Sprintf(note, args...)
}

var _ events.EventRecorder = (*recorder)(nil)

// upgradeWorld is an engine with what surrounds it.
type upgradeWorld struct {
	*testing.T
	engine *Engine
	// client is the test's own, api the engine's.
	client   client.WithWatch
	api      client.WithWatch
	nodes    *porttest.Nodes
	updaters map[string]*installer
	events   *recorder
	now      time.Time
	// tick is how much time passes between two steps.
	tick      time.Duration
	ids       int
	faults    deaths
	rejects   rejects
	liveReads int
	// applies counts conditions that were written.
	applies int
	// onWrite, if there is one, is called before each write of the engine.
	onWrite func(verb string, object client.Object)
	// refuse, if there is one, is shown each patch, and its error keeps it from being made.
	refuse func(patch string) error
	// onRead and onLiveRead, if they are set, are called before each read of the engine from its cache
	// and from the API server.
	onRead, onLiveRead func(object client.Object)
	// groups are reconciled by step, besides all Machines.
	groups []groupKey
}

type groupKey struct {
	gvk  schema.GroupVersionKind
	name string
}

func newUpgradeWorld(t *testing.T, objects ...client.Object) *upgradeWorld {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, clusterv1.AddToScheme, controlplanev1.AddToScheme, corev1.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	w := &upgradeWorld{
		T: t, nodes: porttest.NewNodes(), updaters: map[string]*installer{}, events: &recorder{said: map[string][]string{}, notes: map[string]string{}}, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		tick: 5 * time.Second,
	}
	for _, kind := range []schema.GroupVersionKind{kubeadmControlPlaneKind, ck8sKind, rke2Kind, hostedKind} {
		objects = append(objects, &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{
			Name: capicontract.CalculateCRDName(kind.Group, kind.Kind), Labels: map[string]string{"cluster.x-k8s.io/v1beta2": kind.Version},
		}})
	}
	objects = append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, newHosted(map[string]any{"version": "v1.31.9"}, nil))
	if !slices.ContainsFunc(objects, func(o client.Object) bool { _, ok := o.(*clusterv1.Cluster); return ok }) {
		objects = append(objects, newCluster())
	}
	w.client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithIndex(&clusterv1.Machine{}, InFlightIndex, IndexInFlight).
		WithStatusSubresource(&v1alpha1.Updater{}, &clusterv1.Machine{}, &clusterv1.MachineDeployment{}, &controlplanev1.KubeadmControlPlane{}).Build()
	w.api = w.intercepted()
	w.restart()
	return w
}

// intercepted is the client of the engine.
func (w *upgradeWorld) intercepted() client.WithWatch {
	write := func(verb string, object client.Object, do func() error) error {
		if w.onWrite != nil {
			w.onWrite(verb, object)
		}
		return w.faults.around(fmt.Sprintf("%s of %T", verb, object), func() error { return w.rejects.around(do) })
	}
	return interceptor.NewClient(w.client, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if w.onRead != nil {
				w.onRead(o)
			}
			return c.Get(ctx, key, o, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return write("create", o, func() error { return c.Create(ctx, o, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return write("delete", o, func() error { return c.Delete(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
			return write("patch", o, func() error {
				if err := w.refusal(o, patch); err != nil {
					return err
				}
				return c.Patch(ctx, o, patch, opts...)
			})
		},
		SubResourceApply: func(ctx context.Context, _ client.Client, _ string, o runtime.ApplyConfiguration, _ ...client.SubResourceApplyOption) error {
			return w.faults.around("status apply", func() error { return w.rejects.around(func() error { return w.applyCondition(ctx, o) }) })
		},
	})
}

func (w *upgradeWorld) refusal(object client.Object, patch client.Patch) error {
	if w.refuse == nil {
		return nil
	}
	data, err := patch.Data(object)
	if err != nil {
		return err
	}
	return w.refuse(string(data))
}

// restart makes a new engine: what only memory holds is lost.
func (w *upgradeWorld) restart() {
	live := interceptor.NewClient(w.client, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			w.liveReads++
			if w.onLiveRead != nil {
				w.onLiveRead(o)
			}
			return c.Get(ctx, key, o, opts...)
		},
	})
	w.engine = New(Options{
		Client: w.api, Live: live, Nodes: &deadlyNodes{w.nodes, &w.faults}, Events: w.events, Prefix: v1alpha1.DefaultInPlaceUpgradePrefix,
		Now:   func() time.Time { return w.now },
		NewID: func() string { w.ids++; return fmt.Sprintf("id%d", w.ids) },
		Open: func(_ context.Context, u *v1alpha1.Updater) (port.Updater, error) {
			return w.updaters[u.Name], nil
		},
	})
}

// register registers an updater that changes versions, and one of kind K8sd.
func (w *upgradeWorld) register() (installs, k8sd *installer) {
	w.Helper()
	installs = w.updater("kubelet", v1alpha1.UpdaterSpec{Remote: &v1alpha1.RemoteUpdater{URL: "https://127.0.0.1:1", TimeoutSeconds: 1, FailurePolicy: v1alpha1.UpdaterFail}})
	installs.covers = true
	k8sd = w.updater("k8sd", v1alpha1.UpdaterSpec{Order: 1, InProcess: &v1alpha1.InProcessUpdater{Kind: v1alpha1.K8sdUpdater, K8sd: &v1alpha1.K8sdConfig{}}})
	return installs, k8sd
}

func (w *upgradeWorld) updater(name string, spec v1alpha1.UpdaterSpec) *installer {
	w.Helper()
	i := &installer{w: w, takes: 2, polls: map[string]int{}, completed: map[string]int{}, flying: map[string]bool{}}
	w.updaters[name] = i
	if err := w.client.Create(w.Context(), &v1alpha1.Updater{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}); err != nil {
		w.Fatal(err)
	}
	return i
}

// newCluster makes a Cluster whose control plane is a hosted one. Where a test has Machines for it, they are what counts.
func newCluster() *clusterv1.Cluster {
	return &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "c", UID: "c-uid"},
		Spec:       clusterv1.ClusterSpec{ControlPlaneRef: clusterv1.ContractVersionedObjectReference{APIGroup: hostedKind.Group, Kind: hostedKind.Kind, Name: "hosted"}},
	}
}

func newHosted(spec, status map[string]any) *unstructured.Unstructured {
	object := unstructuredOf(hostedKind)
	object.SetNamespace(namespace)
	object.SetName("hosted")
	object.Object["spec"], object.Object["status"] = spec, status
	return object
}

// newMachine makes a worker of MachineDeployment md, or with cp a machine of the control plane of that name.
func newMachine(name, cp string) *clusterv1.Machine {
	m := &clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, UID: types.UID(name), Labels: map[string]string{clusterv1.ClusterNameLabel: "c"}, Annotations: map[string]string{},
			CreationTimestamp: metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)),
		},
		Spec: clusterv1.MachineSpec{ClusterName: "c", Version: from},
		Status: clusterv1.MachineStatus{
			NodeRef: clusterv1.MachineNodeReference{Name: name},
		},
	}
	if cp == "" {
		m.Labels[clusterv1.MachineDeploymentNameLabel] = "md"
		return m
	}
	m.Labels[clusterv1.MachineControlPlaneLabel] = ""
	m.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: controlplanev1.GroupVersion.String(), Kind: "KubeadmControlPlane", Name: cp, UID: types.UID(cp), Controller: new(true),
	}}
	return m
}

// add creates a machine with a Ready node.
func (w *upgradeWorld) add(machines ...*clusterv1.Machine) {
	w.Helper()
	for _, m := range machines {
		if err := w.client.Create(w.Context(), m); err != nil {
			w.Fatal(err)
		}
		w.nodes.Set(inCluster, m.Name, porttest.ReadyNode(from, w.now.Add(-time.Hour)))
	}
	w.sync()
}

// sync writes what nodes report into the Machines, as Cluster API does.
func (w *upgradeWorld) sync() {
	w.Helper()
	for _, m := range w.machines() {
		node := w.nodes.Node(w.Context(), inCluster, m.Status.NodeRef.Name)
		if m.Status.NodeRef.Name == "" || !node.Exists {
			continue
		}
		ready := metav1.Condition{Type: clusterv1.MachineNodeReadyCondition, Status: metav1.ConditionTrue, Reason: "NodeReady"}
		if !node.Ready {
			ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, "NodeNotReady", node.NotReady
		}
		changed := m.DeepCopy()
		changed.Status.NodeInfo = &corev1.NodeSystemInfo{KubeletVersion: node.Kubelet.String()}
		meta.SetStatusCondition(&changed.Status.Conditions, ready)
		if err := w.client.Status().Patch(w.Context(), changed, client.MergeFrom(&m)); err != nil {
			w.Fatal(err)
		}
	}
}

func (w *upgradeWorld) machines() []clusterv1.Machine {
	w.Helper()
	var list clusterv1.MachineList
	if err := w.client.List(w.Context(), &list); err != nil {
		w.Fatal(err)
	}
	return list.Items
}

func (w *upgradeWorld) machine(name string) *clusterv1.Machine {
	w.Helper()
	m := &clusterv1.Machine{}
	if err := w.client.Get(w.Context(), keyNamed(name), m); err != nil {
		w.Fatal(err)
	}
	return m
}

func keyNamed(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// annotate sets annotations of an object as a person does; nil removes one.
func (w *upgradeWorld) annotate(object client.Object, annotations map[string]any) {
	w.Helper()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	if err != nil {
		w.Fatal(err)
	}
	if err := w.client.Patch(w.Context(), object, client.RawPatch(types.MergePatchType, patch)); err != nil {
		w.Fatal(err)
	}
}

// ask asks for the upgrade of a machine.
func (w *upgradeWorld) ask(name, option string) {
	w.Helper()
	w.annotate(w.machine(name), map[string]any{keys.To: option})
}

func (w *upgradeWorld) marks(name string) request.Marks {
	w.Helper()
	return keys.marks(w.machine(name).Annotations)
}

// reconcile reconciles a Machine, as a process that may die in it, and starts the next one.
func (w *upgradeWorld) reconcile(name string) (Result, error) {
	return w.survive(func() (Result, error) { return w.engine.UpgradeMachine(w.quiet(), keyNamed(name)) })
}

// sweep sweeps as a process does that starts to lead. The controllers reconcile what it finds each by itself: one error does not keep the others waiting.
func (w *upgradeWorld) sweep() error {
	return w.engine.SweepUpgrades(w.quiet(), func(object client.Object) {
		if gvk := object.GetObjectKind().GroupVersionKind(); gvk != machineKind {
			_, _ = w.engine.UpgradeGroup(w.quiet(), gvk, client.ObjectKeyFromObject(object))
			return
		}
		_, _ = w.engine.UpgradeMachine(w.quiet(), client.ObjectKeyFromObject(object))
	})
}

// quiet is the context of the engine, without a log.
func (w *upgradeWorld) quiet() context.Context { return ctrl.LoggerInto(w.Context(), logr.Discard()) }

func (w *upgradeWorld) survive(f func() (Result, error)) (result Result, err error) {
	defer func() {
		switch r := recover(); r {
		case nil:
		case errDied:
			w.restart()
			if problem := w.sweep(); problem != nil {
				w.Fatal(problem)
			}
			err = errDied
		default:
			panic(r)
		}
	}()
	return f()
}

// step reconciles everything once, and lets time pass.
func (w *upgradeWorld) step() {
	w.Helper()
	for _, g := range w.groups {
		if _, err := w.survive(func() (Result, error) { return w.engine.UpgradeGroup(w.quiet(), g.gvk, keyNamed(g.name)) }); err != nil && !errors.Is(err, errDied) {
			w.Fatalf("%s: %v", g.name, err)
		}
	}
	for _, m := range w.machines() {
		if _, err := w.reconcile(m.Name); err != nil && !errors.Is(err, errDied) && !w.rejects.made {
			w.Fatalf("%s: %v", m.Name, err)
		}
	}
	w.sync()
	w.now = w.now.Add(w.tick)
}

// until steps until something is so.
func (w *upgradeWorld) until(what string, is func() bool) {
	w.Helper()
	const most = 150
	for range most {
		if is() {
			return
		}
		w.step()
	}
	for _, m := range w.machines() {
		w.Logf("%s: %v", m.Name, m.Annotations)
		w.Logf("%s: %+v", m.Name, conditionOf(m.Status.Conditions))
	}
	w.Fatalf("not after %d steps: %s", most, what)
}

// untilDone steps until a machine rests with a release, and once more.
func (w *upgradeWorld) untilDone(name, option string) {
	w.Helper()
	w.until(name+" has "+option, func() bool { return w.marks(name) == request.Marks{Status: request.Done, Release: option} })
	w.step()
}

func conditionOf(list []metav1.Condition) *metav1.Condition {
	return meta.FindStatusCondition(list, v1alpha1.InPlaceUpgradeCondition)
}

// lockHolder returns who holds the lock, as it is written; empty if there is none.
func (w *upgradeWorld) lockHolder() string {
	w.Helper()
	cm := &corev1.ConfigMap{}
	if err := w.client.Get(w.Context(), keyNamed("c"+v1alpha1.InPlaceUpgradeLockSuffix), cm); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return ""
		}
		w.Fatal(err)
	}
	return cm.Data[v1alpha1.InPlaceUpgradeLockKey]
}

func (w *upgradeWorld) put(object client.Object) {
	w.Helper()
	if err := w.client.Create(w.Context(), object); err != nil {
		w.Fatal(err)
	}
}

// said are the Events of an object so far.
func (w *upgradeWorld) said(name string) []string { return w.events.said[name] }

// work counts the finished work of an updater by machine.
func work(i *installer) map[string]int {
	found := map[string]int{}
	for key, n := range maps.All(i.completed) {
		name, _, _ := strings.Cut(key, " ")
		found[name] += n
	}
	return found
}

func newGroup(gvk schema.GroupVersionKind, name string, replicas int64) *unstructured.Unstructured {
	g := unstructuredOf(gvk)
	g.SetNamespace(namespace)
	g.SetName(name)
	g.SetUID(types.UID(name))
	g.SetLabels(map[string]string{clusterv1.ClusterNameLabel: "c"})
	spec := map[string]any{"replicas": replicas, "version": from}
	if gvk == deploymentKind {
		spec = map[string]any{"replicas": replicas, "clusterName": "c", "template": map[string]any{"spec": map[string]any{"version": from, "clusterName": "c"}}}
	}
	g.Object["spec"] = spec
	return g
}

// useControlPlane has the Cluster refer to a control plane.
func (w *upgradeWorld) useControlPlane(gvk schema.GroupVersionKind, name string) {
	w.Helper()
	cluster := newCluster()
	if err := w.client.Get(w.Context(), inCluster, cluster); err != nil {
		w.Fatal(err)
	}
	cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: gvk.Group, Kind: gvk.Kind, Name: name}
	if err := w.client.Update(w.Context(), cluster); err != nil {
		w.Fatal(err)
	}
}

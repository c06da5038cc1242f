package guardwebhook_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/guard/guardwebhook"
	"github.com/windlass-dev/windlass/internal/policystore"
)

const namespace = "default"

// world is a management cluster: Cluster c with MachineDeployment c-md (topology md, three Machines w-0 to w-2 in two MachineSets)
// and KubeadmControlPlane c-cp (three Machines p-0 to p-2), a lone MachineSet and a Machine of a MachinePool. UpdatePolicy keep
// keeps all machines.
type world struct {
	t        *testing.T
	client   client.Client
	options  guardwebhook.GuardOptions
	guard    *guardwebhook.Guard
	recorder recorder
	// ctx is the context of requests; nil means the test's.
	ctx      context.Context
	registry *prometheus.Registry

	mu sync.Mutex
	// reads counts live reads; fail makes those of a kind fail.
	reads int
	// listed counts the objects that live lists returned.
	listed int
	fail   map[string]error
	now    time.Time
	// pause is called when the guard waits for a request in flight; slept is how long it has waited.
	pause func()
	slept time.Duration
}

// recorder keeps Events.
type recorder struct {
	mu     sync.Mutex
	events []string
	// longest is the length of the longest note.
	longest int
}

func (r *recorder) Eventf(regarding, related runtime.Object, kind, reason, action, note string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := func(o runtime.Object) string {
		if o == nil {
			return "-"
		}
		ref, ok := o.(*corev1.ObjectReference)
		if !ok || ref.ResourceVersion != "" {
			return "a reference that is different every time"
		}
		return ref.Kind + " " + ref.Name
	}
	r.events = append(r.events, strings.Join([]string{name(regarding), name(related), kind, reason, action}, ", "))
	r.longest = max(r.longest, len(fmt.Sprintf(note, args...)))
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	w := &world{t: t, registry: prometheus.NewRegistry(), fail: map[string]error{}, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clusterv1.AddToScheme, controlplanev1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	inner := fake.NewClientBuilder().WithScheme(scheme).WithObjects(append(defaultObjects(), objects...)...).Build()
	w.client = inner
	live := interceptor.NewClient(inner, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if err := w.read(obj); err != nil {
				return err
			}
			return c.Get(ctx, key, obj, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if err := w.read(list); err != nil {
				return err
			}
			err := c.List(ctx, list, opts...)
			w.mu.Lock()
			defer w.mu.Unlock()
			w.listed += apimeta.LenList(list)
			return err
		},
	})
	metrics, err := guardwebhook.NewGuardMetrics(w.registry)
	if err != nil {
		t.Fatal(err)
	}
	w.options = guardwebhook.GuardOptions{
		Policies: policystore.New(inner, nil), Live: live, Recorder: &w.recorder, Metrics: metrics,
		Now:   func() time.Time { w.mu.Lock(); defer w.mu.Unlock(); return w.now },
		Sleep: w.sleep, Parsed: func(context.Context) {},
	}
	w.guard = guardwebhook.NewGuard(w.options)
	return w
}

// sleep lets the clock of the test go on.
func (w *world) sleep(_ context.Context, d time.Duration) {
	w.mu.Lock()
	w.now, w.slept = w.now.Add(d), w.slept+d
	pause := w.pause
	w.mu.Unlock()
	if pause != nil {
		pause()
	}
}

func (w *world) read(object runtime.Object) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reads++
	kind := object.GetObjectKind().GroupVersionKind().Kind
	if kind == "" {
		parts := strings.Split(fmt.Sprintf("%T", object), ".")
		kind = parts[len(parts)-1]
	}
	return w.fail[kind]
}

func meta(name string, labels map[string]string, owner client.Object) metav1.ObjectMeta {
	m := metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{clusterv1.ClusterNameLabel: "c"}}
	maps.Copy(m.Labels, labels)
	if owner != nil {
		gvk := owner.GetObjectKind().GroupVersionKind()
		m.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, gvk)}
	}
	return m
}

func typeMeta(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: clusterv1.GroupVersion.String(), Kind: kind}
}

func machine(name string, labels map[string]string, owner client.Object) *clusterv1.Machine {
	return &clusterv1.Machine{TypeMeta: typeMeta("Machine"), ObjectMeta: meta(name, labels, owner), Spec: clusterv1.MachineSpec{ClusterName: "c"}}
}

var (
	deploymentLabels = map[string]string{clusterv1.MachineDeploymentNameLabel: "c-md"}
	planeLabels      = map[string]string{clusterv1.MachineControlPlaneLabel: "", clusterv1.MachineControlPlaneNameLabel: "c-cp"}
	poolLabels       = map[string]string{clusterv1.MachinePoolNameLabel: "c-mp"}
)

func deployment() *clusterv1.MachineDeployment {
	md := &clusterv1.MachineDeployment{TypeMeta: typeMeta("MachineDeployment"), ObjectMeta: meta("c-md", nil, nil)}
	md.Labels[clusterv1.ClusterTopologyMachineDeploymentNameLabel] = "md"
	md.Spec.Replicas = new(int32(3))
	return md
}

func machineSet(name string, owner client.Object) *clusterv1.MachineSet {
	return &clusterv1.MachineSet{TypeMeta: typeMeta("MachineSet"), ObjectMeta: meta(name, nil, owner)}
}

func controlPlane() *controlplanev1.KubeadmControlPlane {
	return &controlplanev1.KubeadmControlPlane{
		TypeMeta:   metav1.TypeMeta{APIVersion: controlplanev1.GroupVersion.String(), Kind: "KubeadmControlPlane"},
		ObjectMeta: meta("c-cp", nil, nil), Spec: controlplanev1.KubeadmControlPlaneSpec{Replicas: new(int32(3))},
	}
}

func newPolicy(name string, edit func(*v1alpha1.UpdatePolicySpec)) *v1alpha1.UpdatePolicy {
	p := &v1alpha1.UpdatePolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       v1alpha1.UpdatePolicySpec{Targets: []v1alpha1.UpdateTarget{{}}, Strategy: v1alpha1.ExternalUpdate, Fallback: v1alpha1.FallbackNone},
	}
	if edit != nil {
		edit(&p.Spec)
	}
	return p
}

func defaultObjects() []client.Object {
	older, newer := machineSet("ms-old", deployment()), machineSet("ms-new", deployment())
	objects := []client.Object{
		&clusterv1.Cluster{TypeMeta: typeMeta("Cluster"), ObjectMeta: meta("c", nil, nil)},
		deployment(), older, newer, controlPlane(), machineSet("alone", nil), newPolicy("keep", nil),
		machine("w-0", deploymentLabels, older), machine("w-1", deploymentLabels, older), machine("w-2", deploymentLabels, newer),
		machine("s-0", nil, machineSet("alone", nil)), machine("pool-0", poolLabels, nil),
		// Of another cluster, and another control plane.
		&clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "other", Labels: map[string]string{
			clusterv1.ClusterNameLabel: "d", clusterv1.MachineControlPlaneLabel: "", clusterv1.MachineDeploymentNameLabel: "c-md",
		}}},
		machine("stranger", planeLabels, machineSet("alone", nil)),
	}
	for i := range 3 {
		objects = append(objects, machine(fmt.Sprintf("p-%d", i), planeLabels, controlPlane()))
	}
	return objects
}

// ask sends an object to the guard.
func (w *world) ask(operation admissionv1.Operation, object any, edits ...func(*admission.Request)) admission.Response {
	w.t.Helper()
	raw, err := json.Marshal(object)
	if err != nil {
		w.t.Fatal(err)
	}
	request := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Operation: operation, Namespace: namespace}}
	if operation == admissionv1.Create {
		request.Object.Raw = raw
	} else {
		request.OldObject.Raw = raw
	}
	for _, edit := range edits {
		edit(&request)
	}
	ctx := w.ctx
	if ctx == nil {
		ctx = w.t.Context()
	}
	return w.guard.Handle(ctx, request)
}

func dryRun(r *admission.Request) { r.DryRun = new(true) }

func (w *world) machine(name string) *clusterv1.Machine {
	w.t.Helper()
	var m clusterv1.Machine
	if err := w.client.Get(w.t.Context(), types.NamespacedName{Namespace: namespace, Name: name}, &m); err != nil {
		w.t.Fatal(err)
	}
	m.TypeMeta = typeMeta("Machine")
	return &m
}

func (w *world) update(object client.Object, edit func()) {
	w.t.Helper()
	if err := w.client.Get(w.t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		w.t.Fatal(err)
	}
	edit()
	if err := w.client.Update(w.t.Context(), object); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) remove(object client.Object) {
	w.t.Helper()
	if err := w.client.Delete(w.t.Context(), object); err != nil {
		w.t.Fatal(err)
	}
}

// startDeleting gives an object a deletion timestamp.
func (w *world) startDeleting(object client.Object) {
	w.t.Helper()
	w.update(object, func() { object.SetFinalizers([]string{"test/wait"}) })
	w.remove(object)
}

func (w *world) scale(replicas int32) {
	md := deployment()
	w.update(md, func() { md.Spec.Replicas = &replicas })
}

// denials are the guard's denials so far, by operation and reason.
func (w *world) denials() map[string]float64 {
	w.t.Helper()
	families, err := w.registry.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			got[metric.GetLabel()[0].GetValue()+" "+metric.GetLabel()[1].GetValue()] = metric.GetCounter().GetValue()
		}
	}
	return got
}

func newWorker() *clusterv1.Machine {
	return machine("w-new", deploymentLabels, machineSet("ms-new", nil))
}
func newPlane() *clusterv1.Machine { return machine("p-new", planeLabels, controlPlane()) }

// expect compares an answer; words are the reason to allow, or a piece of the message.
func expect(t *testing.T, got admission.Response, allowed bool, words string) {
	t.Helper()
	if got.Allowed != allowed || got.Result == nil || !strings.Contains(got.Result.Message, words) {
		t.Errorf("allowed %t, %+v; want allowed %t, with %q", got.Allowed, got.Result, allowed, words)
	}
}

func (w *world) worker() any    { return w.machine("w-0") }
func (w *world) plane() any     { return w.machine("p-0") }
func (w *world) newWorker() any { return newWorker() }
func (w *world) newPlane() any  { return newPlane() }

// foreignPlane makes a control plane of another provider, and returns a Machine of it.
func (w *world) foreignPlane() any {
	w.t.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
	object.SetAPIVersion("controlplane.cluster.x-k8s.io/v1alpha3")
	object.SetKind("TalosControlPlane")
	object.SetNamespace(namespace)
	object.SetName("talos")
	object.SetUID("uid-talos")
	if err := w.client.Create(w.t.Context(), object); err != nil {
		w.t.Fatal(err)
	}
	return machine("t-0", planeLabels, object)
}

// oldMachine is worker w-0 as a v1beta1 Machine, with a status.
func oldMachine(status map[string]any) any {
	m := machine("w-0", deploymentLabels, machineSet("ms-old", nil))
	return map[string]any{
		"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Machine", "metadata": m.ObjectMeta, "status": status,
		"spec": map[string]any{"clusterName": "c", "bootstrap": map[string]any{}, "infrastructureRef": map[string]any{"apiVersion": "v1", "kind": "X", "name": "x"}},
	}
}

// unhealthy are the conditions of a Machine that is to be remediated; both kinds of conditions have these two fields.
func unhealthy() []any {
	return []any{
		map[string]any{"type": "HealthCheckSucceeded", "status": "False"}, map[string]any{"type": "OwnerRemediated", "status": "False"},
	}
}

package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/port"
	"github.com/windlass-dev/windlass/internal/port/porttest"
)

const (
	namespace = "ns"
	from, to  = "v1.30.2", "v1.31.1"
)

// scripted is an updater that covers some fields, and answers UpdateMachine as a test says.
type scripted struct {
	mu sync.Mutex
	// patch is for the Machine, bootstrap for the bootstrap config; empty for none.
	patch                     string
	bootstrap, infrastructure string
	err                       error
	// ready is the answer to CanBegin, and questions are those that were asked.
	ready     inplace.Readiness
	questions []string
	answer    func(operation string) inplace.Answer
	updates   []string
	// told are the objects of each UpdateMachine.
	told []runtimehooksv1.UpdateMachineRequestObjects
	// warnings are those about what it covers.
	warnings []string
}

func (s *scripted) CanUpdateMachine(context.Context, *runtimehooksv1.CanUpdateMachineRequest) (cover.Patches, error) {
	patches := cover.Patches{Machine: cover.Patch{Type: cover.JSONMergePatch, Data: []byte(s.patch)}}
	if s.bootstrap != "" {
		patches.Bootstrap = cover.Patch{Type: cover.JSONMergePatch, Data: []byte(s.bootstrap)}
	}
	if s.infrastructure != "" {
		patches.Infrastructure = cover.Patch{Type: cover.JSONMergePatch, Data: []byte(s.infrastructure)}
	}
	return patches, s.err
}

func (s *scripted) CanUpdateMachineSet(context.Context, *runtimehooksv1.CanUpdateMachineSetRequest) (cover.Patches, error) {
	return cover.Patches{Warnings: s.warnings, Machine: cover.Patch{Type: cover.JSONMergePatch, Data: []byte(`{"spec":{"template":` + s.patch + `}}`)}}, s.err
}

func (s *scripted) UpdateMachine(_ context.Context, request *runtimehooksv1.UpdateMachineRequest) inplace.Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	operation := request.Desired.Machine.Annotations[v1alpha1.OperationIDAnnotation]
	s.updates = append(s.updates, request.Desired.Machine.Name+" "+operation)
	s.told = append(s.told, request.Desired)
	return s.answer(operation)
}

func (s *scripted) Check(context.Context) error { return s.err }

// world is an engine with what surrounds it.
type world struct {
	*testing.T
	engine   *Engine
	client   client.WithWatch
	nodes    *porttest.Nodes
	updaters map[string]*scripted
	events   *events.FakeRecorder
	now      time.Time
	ids      atomic.Int64
	// writes counts the writes of Machines.
	writes atomic.Int64
	faults faults
	// lockInfrastructure keeps two calls from creating one infrastructure machine.
	lockInfrastructure sync.Mutex
}

func newWorld(t *testing.T, policy v1alpha1.UpdatePolicySpec, objects ...client.Object) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, clusterv1.AddToScheme, corev1.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	w := &world{T: t, nodes: porttest.NewNodes(), updaters: map[string]*scripted{}, events: events.NewFakeRecorder(1000), now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	if policy.Targets == nil {
		policy.Targets = []v1alpha1.UpdateTarget{{ClusterName: "c"}}
	}
	objects = append(objects,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		&clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "c", UID: "c-uid"}},
		&v1alpha1.UpdatePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "keep"}, Spec: policy},
	)
	bootstrap := schema.GroupVersion{Group: "bootstrap.cluster.x-k8s.io", Version: "v1beta2"}
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{bootstrap})
	for _, kind := range []string{"KubeadmConfig", "KubeadmConfigTemplate"} {
		mapper.Add(bootstrap.WithKind(kind), meta.RESTScopeNamespace)
	}
	objects = append(objects, providerKinds()...)
	builder := fake.NewClientBuilder().WithScheme(scheme).WithRESTMapper(mapper).WithObjects(objects...).
		WithIndex(&clusterv1.Machine{}, InFlightIndex, IndexInFlight).
		WithStatusSubresource(&clusterv1.Machine{}, &clusterv1.MachineDeployment{}, &v1alpha1.Updater{}, controlPlane())
	w.client = interceptor.NewClient(builder.Build(), interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			if _, ok := obj.(*clusterv1.Machine); ok {
				w.writes.Add(1)
			}
			return w.faults.around(fmt.Sprintf("patch of %T", obj), func() error { return c.Patch(ctx, obj, patch, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			return w.faults.around(fmt.Sprintf("status patch of %T", obj), func() error { return c.SubResource(sub).Patch(ctx, obj, patch, opts...) })
		},
		SubResourceApply: func(ctx context.Context, c client.Client, sub string, obj runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
			w.writes.Add(1)
			return w.faults.around("status apply", func() error { return c.SubResource(sub).Apply(ctx, obj, opts...) })
		},
	})
	w.restart()
	return w
}

// restart makes a new engine: what only memory holds is lost.
func (w *world) restart() {
	w.engine = New(Options{
		Client: w.client, Live: w.client, Nodes: &faultyNodes{w.nodes, &w.faults}, Events: w.events,
		Now:   func() time.Time { return w.now },
		NewID: func() string { return fmt.Sprintf("id%d", w.ids.Add(1)) },
		Open: func(_ context.Context, u *v1alpha1.Updater) (port.Updater, error) {
			return w.updaters[u.Name], nil
		},
	})
}

// updater registers an updater that covers the version, and is done at once.
func (w *world) updater(name string, order int32, patch string) *scripted {
	w.Helper()
	return w.updaterWith(name, order, patch, nil)
}

func (w *world) updaterWith(name string, order int32, patch string, edit func(*v1alpha1.UpdaterSpec)) *scripted {
	w.Helper()
	s := &scripted{patch: patch, answer: func(string) inplace.Answer { return inplace.Answer{Outcome: inplace.Finishes} }}
	w.updaters[name] = s
	u := &v1alpha1.Updater{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.UpdaterSpec{Order: order, Remote: &v1alpha1.RemoteUpdater{URL: "https://127.0.0.1:1", TimeoutSeconds: 1, FailurePolicy: v1alpha1.UpdaterFail}}}
	if edit != nil {
		edit(&u.Spec)
	}
	if err := w.client.Create(w.Context(), u); err != nil {
		w.Fatal(err)
	}
	return s
}

var versionPatch = `{"spec":{"version":"` + to + `"}}`

func deployment() *clusterv1.MachineDeployment {
	return &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: "md", UID: "md-uid", Labels: map[string]string{clusterv1.ClusterNameLabel: "c"},
	}}
}

func machineSet(name, v string) *clusterv1.MachineSet {
	labels := map[string]string{clusterv1.ClusterNameLabel: "c", clusterv1.MachineDeploymentNameLabel: "md"}
	return &clusterv1.MachineSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: clusterv1.GroupVersion.String(), Kind: "MachineSet"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name), Labels: labels},
		Spec: clusterv1.MachineSetSpec{ClusterName: "c", Template: clusterv1.MachineTemplateSpec{
			ObjectMeta: clusterv1.ObjectMeta{Labels: labels}, Spec: clusterv1.MachineSpec{ClusterName: "c", Version: v, InfrastructureRef: infrastructureRef("XTemplate", "x")},
		}},
	}
}

func machine(name, set, v string) *clusterv1.Machine {
	isController := true
	return &clusterv1.Machine{
		TypeMeta: metav1.TypeMeta{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, UID: types.UID(name),
			Labels:          map[string]string{clusterv1.ClusterNameLabel: "c", clusterv1.MachineDeploymentNameLabel: "md"},
			Annotations:     map[string]string{clusterv1.UpdateInProgressAnnotation: "", runtimev1.PendingHooksAnnotation: "UpdateMachine"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "MachineSet", Name: set, UID: types.UID(set), Controller: &isController}},
		},
		Spec:   clusterv1.MachineSpec{ClusterName: "c", Version: v, InfrastructureRef: infrastructureRef("X", name)},
		Status: clusterv1.MachineStatus{NodeRef: clusterv1.MachineNodeReference{Name: name}},
	}
}

func (w *world) machine(name string) *clusterv1.Machine {
	w.Helper()
	m := &clusterv1.Machine{}
	if err := w.client.Get(w.Context(), types.NamespacedName{Namespace: namespace, Name: name}, m); err != nil {
		w.Fatal(err)
	}
	return m
}

func (w *world) annotate(name, key string, value *string) {
	w.Helper()
	annotations := map[string]any{key: value}
	if key == clusterv1.UpdateInProgressAnnotation {
		// Cluster API sets and removes the one with the other.
		annotations[runtimev1.PendingHooksAnnotation] = nil
		if value != nil {
			annotations[runtimev1.PendingHooksAnnotation] = "UpdateMachine"
		}
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	if err != nil {
		w.Fatal(err)
	}
	if err := w.client.Patch(w.Context(), w.machine(name), client.RawPatch(types.MergePatchType, patch)); err != nil {
		w.Fatal(err)
	}
}

// inCluster names the cluster of all machines.
var inCluster = types.NamespacedName{Namespace: namespace, Name: "c"}

func clientKey(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}

func (w *world) node(name, kubelet string) {
	w.nodes.Set(inCluster, name, porttest.ReadyNode(kubelet, w.now))
}

func external(edit func(*v1alpha1.UpdatePolicySpec)) v1alpha1.UpdatePolicySpec {
	p := v1alpha1.UpdatePolicySpec{Strategy: v1alpha1.ExternalUpdate, Fallback: v1alpha1.FallbackNone, MaxInFlight: 1, MaxAttempts: 2, AttemptTimeoutSeconds: 600}
	if edit != nil {
		edit(&p)
	}
	return p
}

// moving returns a world in which machines a and b have moved to a new MachineSet after a positive decision.
func moving(t *testing.T, policy v1alpha1.UpdatePolicySpec) (*world, *scripted) {
	t.Helper()
	w := newWorld(t, policy, deployment(), machineSet("old", from), machine("a", "new", to), machine("b", "new", to))
	s := w.updater("kubelet", 0, versionPatch)
	w.node("a", from)
	w.node("b", from)
	if _, err := w.canUpdateSet(machineSet("old", from), machineSet("new", to)); err != nil {
		t.Fatal(err)
	}
	w.writes.Store(0)
	return w, s
}

// progress returns what is recorded on a machine; nil for nothing.
func (w *world) progress(name string) *inplace.Progress {
	w.Helper()
	p, err := readAnnotation[inplace.Progress](w.machine(name), v1alpha1.UpdateProgressAnnotation)
	if err != nil {
		w.Fatal(err)
	}
	return p
}

func TestUpdateFromDecisionToEnd(t *testing.T) {
	t.Parallel()
	w, s := moving(t, external(nil))
	s.answer = func(string) inplace.Answer {
		p := w.progress("a")
		if p == nil || p.Operation != "id1-1" || p.Phase != inplace.Updating {
			t.Errorf("the updater is called before the intent is on the Machine: %+v", p)
		}
		return inplace.Answer{Outcome: inplace.InProgress, Message: "downloading", RetryAfter: 7 * time.Second}
	}
	reply, err := w.update("a")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(inplace.Reply{RetryAfter: 7 * time.Second, Message: `updater "kubelet" (1 of 1), attempt 1: downloading`}, reply); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	m := w.machine("a")
	for key, want := range map[string]string{
		v1alpha1.UpdatePlanAnnotation: `["kubelet"]`, clusterv1.MachineSkipRemediationAnnotation: "", v1alpha1.RemediationPausedAnnotation: "",
	} {
		if got, ok := m.Annotations[key]; !ok || got != want {
			t.Errorf("annotation %s is %q, %v", key, got, ok)
		}
	}

	// The updater says that it is done; the node does not show it.
	s.answer = func(string) inplace.Answer { return inplace.Answer{Outcome: inplace.Finishes} }
	reply, err = w.update("a")
	if err != nil || reply.Done || !strings.Contains(reply.Message, "the node's kubelet reports v1.30.2, not v1.31.1") {
		t.Errorf("reply %+v, error %v", reply, err)
	}
	// After a restart the updater is not called again.
	w.restart()
	w.node("a", to)
	calls := len(s.updates)
	reply, err = w.update("a")
	if err != nil || !reply.Done {
		t.Errorf("reply %+v, error %v", reply, err)
	}
	if len(s.updates) != calls {
		t.Errorf("a finished updater was called again: %v", s.updates)
	}
	if n := w.writes.Load(); n > 4 {
		t.Errorf("%d writes for one machine, want at most 4", n)
	}
	m = w.machine("a")
	for _, key := range []string{v1alpha1.UpdatePlanAnnotation, v1alpha1.UpdateProgressAnnotation, clusterv1.MachineSkipRemediationAnnotation, v1alpha1.RemediationPausedAnnotation} {
		if _, ok := m.Annotations[key]; ok {
			t.Errorf("annotation %s is left", key)
		}
	}
	// Asked again before Cluster API has noted the end: the same answer, and no call.
	reply, err = w.update("a")
	if err != nil || !reply.Done || len(s.updates) != calls {
		t.Errorf("reply %+v, error %v, calls %v", reply, err, s.updates)
	}
}

func TestMaxInFlight(t *testing.T) {
	t.Parallel()
	w, s := moving(t, external(nil))
	s.answer = func(string) inplace.Answer { return inplace.Answer{Outcome: inplace.InProgress} }
	if _, err := w.update("a"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		reply, err := w.update("b")
		if err != nil || reply.Done || !strings.Contains(reply.Message, "not started: as many machines as maxInFlight allows (1)") {
			t.Errorf("reply %+v, error %v", reply, err)
		}
		if _, marked := w.machine("b").Annotations[v1alpha1.UpdateProgressAnnotation]; marked {
			t.Error("a machine that waits for its turn is marked as begun")
		}
		w.restart()
	}
	s.answer = func(string) inplace.Answer { return inplace.Answer{Outcome: inplace.Finishes} }
	w.node("a", to)
	if reply, err := w.update("a"); err != nil || !reply.Done {
		t.Fatalf("reply %+v, error %v", reply, err)
	}
	w.node("b", to)
	if reply, err := w.update("b"); err != nil || !reply.Done {
		t.Errorf("reply %+v, error %v", reply, err)
	}
}

func TestFinalFailureRetryAndAbandon(t *testing.T) {
	t.Parallel()
	w, s := moving(t, external(nil))
	s.answer = func(string) inplace.Answer { return inplace.Answer{Outcome: inplace.Fails, Message: "disk full"} }
	reply, err := w.update("a")
	if err != nil || !strings.Contains(reply.Message, "disk full") {
		t.Fatalf("reply %+v, error %v", reply, err)
	}
	w.now = w.now.Add(time.Minute)
	_, err = w.update("a")
	refusal, ok := errors.AsType[*RefusedError](err)
	if !ok || refusal.Reason != v1alpha1.UpdateFailedReason || !strings.Contains(refusal.Message, "disk full") || !strings.Contains(refusal.Message, "update-retry") {
		t.Fatalf("error %v", err)
	}
	condition := meta.FindStatusCondition(w.machine("a").Status.Conditions, v1alpha1.UpdateBlockedCondition)
	if condition == nil || condition.Reason != v1alpha1.UpdateFailedReason || !strings.Contains(condition.Message, "disk full") {
		t.Errorf("condition %+v", condition)
	}
	calls := len(s.updates)
	if _, err := w.update("a"); err == nil || len(s.updates) != calls {
		t.Errorf("a finally failed update goes on: %v %v", err, s.updates)
	}

	// A wish to abandon is not granted while the owner desires just what the spec says.
	empty := ""
	w.annotate("a", v1alpha1.UpdateAbandonAnnotation, &empty)
	if _, err := w.update("a"); err == nil {
		t.Error("abandoned")
	}
	w.annotate("a", v1alpha1.UpdateAbandonAnnotation, nil)

	w.annotate("a", v1alpha1.UpdateRetryAnnotation, &empty)
	s.answer = func(operation string) inplace.Answer {
		if operation != "id1-3" {
			t.Errorf("a retry has operation %s", operation)
		}
		return inplace.Answer{Outcome: inplace.Fails, Message: "still full"}
	}
	if reply, err := w.update("a"); err != nil || !strings.Contains(reply.Message, "still full") {
		t.Errorf("reply %+v, error %v", reply, err)
	}
	if _, left := w.machine("a").Annotations[v1alpha1.UpdateRetryAnnotation]; left {
		t.Error("the wish for a retry is left")
	}

	m := w.machine("a")
	m.Status.Conditions = append(m.Status.Conditions, metav1.Condition{
		Type: clusterv1.MachineUpToDateCondition, Status: metav1.ConditionFalse, Reason: clusterv1.MachineNotUpToDateReason, LastTransitionTime: metav1.NewTime(w.now),
	})
	if err := w.client.Status().Update(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	w.annotate("a", v1alpha1.UpdateAbandonAnnotation, &empty)
	if _, err := w.update("a"); err != nil {
		t.Fatal(err)
	}
	m = w.machine("a")
	for _, key := range []string{clusterv1.UpdateInProgressAnnotation, v1alpha1.UpdateProgressAnnotation, v1alpha1.UpdateAbandonAnnotation, clusterv1.MachineSkipRemediationAnnotation} {
		if _, ok := m.Annotations[key]; ok {
			t.Errorf("annotation %s is left after an abandon", key)
		}
	}
}

func TestNotCovered(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		fallback v1alpha1.UpdateFallback
		err      error
		want     string
	}{
		"fail closed":                       {fallback: v1alpha1.FallbackNone, want: `forbids to replace machines (fallback None): no updater covers Machine /spec/template/spec/version. Fix: register an updater that covers it`},
		"replace":                           {fallback: v1alpha1.FallbackRollingUpdate},
		"an updater that cannot be reached": {fallback: v1alpha1.FallbackRollingUpdate, err: errors.New("connection refused"), want: "connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, external(func(p *v1alpha1.UpdatePolicySpec) { p.Fallback = tt.fallback }), deployment(), machineSet("old", from))
			w.updater("nothing", 0, "{}").err = tt.err
			coverage, err := w.canUpdateSet(machineSet("old", from), machineSet("new", to))
			if tt.want == "" {
				if err != nil || len(coverage.Patches.Machine.Data) > 0 || !strings.HasPrefix(coverage.Message, "replaced: ") {
					t.Errorf("coverage %+v, error %v", coverage, err)
				}
				return
			}
			if _, ok := errors.AsType[*RefusedError](err); !ok || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("error %v", err)
			}
			md := &clusterv1.MachineDeployment{}
			read := func() *metav1.Condition {
				if err := w.client.Get(t.Context(), types.NamespacedName{Namespace: namespace, Name: "md"}, md); err != nil {
					t.Fatal(err)
				}
				return meta.FindStatusCondition(md.Status.Conditions, v1alpha1.UpdateBlockedCondition)
			}
			if c := read(); c == nil || !strings.Contains(c.Message, tt.want) {
				t.Errorf("condition %+v", c)
			}
			// The condition goes when the change is covered, also after a restart.
			w.restart()
			if err := w.engine.FindBlocked(t.Context(), []schema.GroupVersionKind{clusterv1.GroupVersion.WithKind("MachineDeployment")}); err != nil {
				t.Fatal(err)
			}
			w.updaters["nothing"].err, w.updaters["nothing"].patch = nil, versionPatch
			if _, err := w.canUpdateSet(machineSet("old", from), machineSet("new", to)); err != nil {
				t.Fatal(err)
			}
			if c := read(); c != nil {
				t.Errorf("condition %+v is left", c)
			}
		})
	}
}

func TestNoDecisionFailsClosed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, external(nil), deployment(), machineSet("old", from), machine("a", "new", to))
	w.updater("kubelet", 0, versionPatch)
	w.node("a", from)
	_, err := w.update("a")
	if r, ok := errors.AsType[*RefusedError](err); !ok || r.Reason != v1alpha1.NoDecisionReason {
		t.Errorf("error %v", err)
	}
}

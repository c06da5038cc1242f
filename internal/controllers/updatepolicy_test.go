package controllers

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/contract"
	"github.com/windlass-dev/windlass/internal/guard"
)

// world is a management cluster and what a Reconciler does in it.
type world struct {
	client client.Client
	*UpdatePolicyReconciler
	// writes and liveReads count; writeError is what writes end with, by the policy's name.
	writes, liveReads int
	writeError        map[string]error
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, clusterv1.AddToScheme, controlplanev1.AddToScheme, corev1.AddToScheme, admissionregistrationv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{controlplanev1.GroupVersion})
	mapper.Add(controlplanev1.GroupVersion.WithKind("KubeadmControlPlane"), meta.RESTScopeNamespace)
	w := &world{writeError: map[string]error{}}
	w.client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&v1alpha1.UpdatePolicy{}).
		WithInterceptorFuncs(interceptor.Funcs{
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, object client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
				w.writes++
				if err := w.writeError[object.GetName()]; err != nil {
					return err
				}
				return c.SubResource(sub).Patch(ctx, object, patch, opts...)
			},
		}).Build()
	live := interceptor.NewClient(fakeWatch(t, w.client), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
			w.liveReads++
			return c.Get(ctx, key, object, opts...)
		},
	})
	now := func() time.Time { return time.Unix(1000, 0) }
	w.UpdatePolicyReconciler = &UpdatePolicyReconciler{
		Client: w.client, Live: live, Mapper: mapper, Kinds: contract.NewWatchable(lister{}, now), Now: now, Process: "one",
	}
	return w
}

// hiddenKind may not be listed.
const hiddenKind = "HiddenControlPlane"

// lister lists every kind but hiddenKind.
type lister struct{ client.Reader }

func (lister) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	if list.GetObjectKind().GroupVersionKind().Kind == hiddenKind+"List" {
		return errors.New("forbidden")
	}
	return nil
}

func fakeWatch(t *testing.T, c client.Client) client.WithWatch {
	t.Helper()
	w, ok := c.(client.WithWatch)
	if !ok {
		t.Fatalf("a %T cannot watch", c)
	}
	return w
}

// status reads the status of a policy.
func (w *world) status(t *testing.T, name string) v1alpha1.UpdatePolicyStatus {
	t.Helper()
	var p v1alpha1.UpdatePolicy
	if err := w.client.Get(t.Context(), types.NamespacedName{Namespace: "ns", Name: name}, &p); err != nil {
		t.Fatal(err)
	}
	return p.Status
}

func (w *world) reconcile(t *testing.T) {
	t.Helper()
	if result, err := w.Reconcile(t.Context(), inNamespace("ns")); err != nil || result.RequeueAfter != time.Hour {
		t.Fatalf("Reconcile = %+v, %v, want to look again in an hour", result, err)
	}
}

func newPolicy(name string, targets ...v1alpha1.UpdateTarget) *v1alpha1.UpdatePolicy {
	return &v1alpha1.UpdatePolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Generation: 3},
		Spec:       v1alpha1.UpdatePolicySpec{Targets: targets, Strategy: v1alpha1.ExternalUpdate},
	}
}

func newCluster(name, controlPlaneKind string) *clusterv1.Cluster {
	c := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
	if controlPlaneKind != "" {
		c.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: "controlplane.cluster.x-k8s.io", Kind: controlPlaneKind, Name: name + "-cp"}
	}
	return c
}

func newControlPlane(cluster string, replicas int32) *controlplanev1.KubeadmControlPlane {
	return &controlplanev1.KubeadmControlPlane{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: cluster + "-cp", Generation: 1, UID: types.UID(cluster), Labels: map[string]string{"hardware": "big"}},
		Spec:       controlplanev1.KubeadmControlPlaneSpec{Replicas: &replicas},
	}
}

func newDeployment(cluster, topology string) *clusterv1.MachineDeployment {
	return &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: cluster + "-" + topology + "-x7k2p", Labels: map[string]string{
		clusterv1.ClusterNameLabel: cluster, clusterv1.ClusterTopologyMachineDeploymentNameLabel: topology,
	}}}
}

func newGuard() *admissionregistrationv1.ValidatingWebhookConfiguration {
	return &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "windlass-guard"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name:              "guard.windlass.dev",
			NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "windlass.dev/guard", Operator: "NotIn", Values: []string{"disabled"}}}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{"CREATE", "DELETE"},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{"cluster.x-k8s.io"}, APIVersions: []string{"*"}, Resources: []string{"machines"}},
			}},
		}},
	}
}

func conditionOf(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: 3, LastTransitionTime: metav1.Unix(1000, 0)}
}

func TestUpdatePolicy(t *testing.T) {
	t.Parallel()
	leaving := newCluster("leaving", "KubeadmControlPlane")
	leaving.Finalizers, leaving.DeletionTimestamp = []string{"x/y"}, &metav1.Time{Time: time.Unix(1, 0)}
	orphan := newDeployment("gone", "md-0")
	w := newWorld(t, newPolicy("keep", v1alpha1.UpdateTarget{}), newPolicy("big", v1alpha1.UpdateTarget{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"hardware": "big"}}}),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}, newGuard(),
		newCluster("prod", "KubeadmControlPlane"), newControlPlane("prod", 1), newDeployment("prod", "md-0"),
		// Neither a control plane that does not exist yet, nor one whose kind is not installed, nor none keeps the rest from being known.
		newCluster("new", "KubeadmControlPlane"), newCluster("odd", "OtherControlPlane"), newCluster("none", ""), newDeployment("none", "md-1"),
		leaving, newControlPlane("leaving", 1), newDeployment("leaving", "md-0"), orphan)
	for range 3 {
		w.reconcile(t)
	}
	if w.writes != 2 || w.liveReads != 1 {
		t.Errorf("the statuses were written %d times, control planes read %d times, want 2 and 1", w.writes, w.liveReads)
	}
	groups, count := []string{
		"control plane of ns/new", "MachineDeployment ns/none-md-1-x7k2p (topology md-1)", "control plane of ns/odd", "MachineDeployment ns/prod-md-0-x7k2p (topology md-0)",
	}, int32(4)
	conditions := []metav1.Condition{conditionOf("Ready", "True", "Valid", ""), conditionOf("Guarding", "True", "GuardInstalled", "")}
	want := v1alpha1.UpdatePolicyStatus{ObservedGeneration: 3, GroupCount: &count, Groups: groups, Conditions: conditions}
	if diff := cmp.Diff(want, w.status(t, "keep")); diff != "" {
		t.Errorf("status of keep (-want +got):\n%s", diff)
	}
	one := int32(1)
	want = v1alpha1.UpdatePolicyStatus{ObservedGeneration: 3, GroupCount: &one, Groups: []string{"control plane of ns/prod"}, Conditions: conditions, Warnings: []string{
		"control plane of ns/prod: Cluster API cannot update a KubeadmControlPlane of 1 in place: it adds a machine first, because it refuses maxSurge 0 below 3 replicas; " +
			"no change reaches its machines, because the guard refuses the additional one",
	}}
	if diff := cmp.Diff(want, w.status(t, "big")); diff != "" {
		t.Errorf("status of big (-want +got):\n%s", diff)
	}
}

// TestReconcileFollows changes what a status depends on, one after another.
func TestReconcileFollows(t *testing.T) {
	t.Parallel()
	controlPlane, namespace := newControlPlane("prod", 1), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}
	w := newWorld(t, newPolicy("keep", v1alpha1.UpdateTarget{}), namespace, newCluster("prod", "KubeadmControlPlane"), controlPlane)
	config := newGuard()
	for _, step := range []struct {
		name         string
		change       func() error
		wantGuarding string
		wantWarnings int
	}{
		{name: "without a guard", change: func() error { return nil }, wantGuarding: "GuardMissing", wantWarnings: 1},
		{name: "with a guard", change: func() error { return w.client.Create(t.Context(), config) }, wantGuarding: "GuardInstalled", wantWarnings: 1},
		{name: "scaled", change: func() error {
			three := int32(3)
			controlPlane.Spec.Replicas = &three
			controlPlane.Generation++
			return w.client.Update(t.Context(), controlPlane)
		}, wantGuarding: "GuardInstalled"},
		{name: "excluded", change: func() error {
			namespace.Labels = map[string]string{v1alpha1.GuardLabel: v1alpha1.GuardDisabled}
			return w.client.Update(t.Context(), namespace)
		}, wantGuarding: "NamespaceExcluded"},
		{name: "without control plane", change: func() error { return w.client.Delete(t.Context(), controlPlane) }, wantGuarding: "NamespaceExcluded"},
		{name: "with another control plane", change: func() error {
			again := newControlPlane("prod", 1)
			again.UID = "another"
			return w.client.Create(t.Context(), again)
		}, wantGuarding: "NamespaceExcluded", wantWarnings: 1},
		{name: "without a cluster", change: func() error { return w.client.Delete(t.Context(), newCluster("prod", "")) }, wantGuarding: "NotNeeded"},
	} {
		if err := step.change(); err != nil {
			t.Fatal(err)
		}
		w.reconcile(t)
		status := w.status(t, "keep")
		if got := meta.FindStatusCondition(status.Conditions, v1alpha1.GuardingCondition); got.Reason != step.wantGuarding || len(status.Warnings) != step.wantWarnings {
			t.Errorf("%s: guarding is %+v, warnings %q, want %s and %d", step.name, got, status.Warnings, step.wantGuarding, step.wantWarnings)
		}
	}
	if len(w.replicas) != 0 {
		t.Errorf("what was read of control planes that are gone is kept: %v", w.replicas)
	}
}

// TestGuardingUndecided: while it is not known which policy counts, the guard refuses, and policies
// report that it does.
func TestGuardingUndecided(t *testing.T) {
	t.Parallel()
	invalid := newPolicy("c", v1alpha1.UpdateTarget{Selector: &metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Is"}},
	}})
	for reason, beside := range map[string]*v1alpha1.UpdatePolicy{
		v1alpha1.GuardConflictReason:      newPolicy("c", v1alpha1.UpdateTarget{}),
		v1alpha1.GuardInvalidPolicyReason: invalid,
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, newGuard(), newCluster("prod", ""), newDeployment("prod", "md-0"), beside,
				newPolicy("a", v1alpha1.UpdateTarget{}))
			w.reconcileAll(t, "ns")
			if scope, _, _ := w.registered(t.Context(), t); !scope.Covers("ns/prod/md/prod-md-0-x7k2p") {
				t.Fatalf("the scope is %v", scope)
			}
			got := meta.FindStatusCondition(w.status(t, "a").Conditions, v1alpha1.GuardingCondition)
			if got.Status != metav1.ConditionTrue || got.Reason != reason {
				t.Errorf("the condition is %+v", got)
			}
		})
	}
}

// TestStatusWritesReadNothing: writes of a control plane's status, which change its resourceVersion,
// have its replicas not read again, neither by themselves nor after a write of the scope.
func TestStatusWritesReadNothing(t *testing.T) {
	t.Parallel()
	controlPlane := newControlPlane("prod", 1)
	w := newWorld(t, newGuard(), newPolicy("keep", v1alpha1.UpdateTarget{}), newCluster("prod", "KubeadmControlPlane"), controlPlane)
	w.reconcileAll(t, "ns")
	w.liveReads = 0
	for i := range int64(20) {
		controlPlane.Status.ObservedGeneration = i
		if err := w.client.Update(t.Context(), controlPlane); err != nil {
			t.Fatal(err)
		}
		w.reconcileAll(t, "ns")
	}
	for _, o := range []client.Object{
		elsewhere(newPolicy("b", v1alpha1.UpdateTarget{})), elsewhere(newCluster("prod", "KubeadmControlPlane")),
	} {
		if err := w.client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	w.reconcileAll(t, "elsewhere", "ns")
	if scope, _, _ := w.registered(t.Context(), t); !cmp.Equal(guard.Scope{"elsewhere", "ns"}, scope) {
		t.Fatalf("the scope is %v", scope)
	}
	if w.liveReads != 0 {
		t.Errorf("20 writes of a status and one of the scope have %d reads", w.liveReads)
	}
}

func TestUpdatePolicyErrors(t *testing.T) {
	t.Parallel()
	resource := v1alpha1.GroupVersion.WithResource("updatepolicies").GroupResource()
	broken := errors.New("broken")
	for name, tt := range map[string]struct {
		writeError map[string]error
		want       error
		wantAfter  time.Duration
	}{
		"written by another replica":                 {writeError: map[string]error{"a": apierrors.NewConflict(resource, "a", nil)}, wantAfter: time.Second},
		"one that goes meanwhile":                    {writeError: map[string]error{"a": apierrors.NewNotFound(resource, "a")}, wantAfter: time.Hour},
		"a write that fails keeps none from another": {writeError: map[string]error{"a": broken}, want: broken},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, newPolicy("a", v1alpha1.UpdateTarget{}), newPolicy("b", v1alpha1.UpdateTarget{ControlPlane: true}))
			w.writeError = tt.writeError
			result, err := w.Reconcile(t.Context(), inNamespace("ns"))
			if !errors.Is(err, tt.want) || result.RequeueAfter != tt.wantAfter {
				t.Errorf("Reconcile = %+v, %v, want %v, error %v", result, err, tt.wantAfter, tt.want)
			}
			if len(w.status(t, "b").Conditions) == 0 || len(w.status(t, "a").Conditions) != 0 {
				t.Error("the other policy's status was not written, or this one's was")
			}
		})
	}
}

func TestReconcileNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newCluster("prod", "KubeadmControlPlane"), newControlPlane("prod", 1))
	if result, err := w.Reconcile(t.Context(), inNamespace("ns")); err != nil || result != (reconcile.Result{}) || w.liveReads != 0 {
		t.Errorf("Reconcile = %+v, %v after %d reads; a namespace without policies needs nothing", result, err, w.liveReads)
	}
}

package controllers_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/controllers"
	"github.com/windlass-dev/windlass/internal/refusal"
)

// refusing is a client that refuses to write the status of objects with the name "refused".
type refusing struct {
	client.Client

	// err is what it returns. With drop it stores the status without its conditions instead, as an
	// API server whose CRD has none.
	err    error
	drop   bool
	writes map[string]int
}

func (r *refusing) patch(ctx context.Context, c client.Client, sub string, object client.Object, patch client.Patch, o ...client.SubResourcePatchOption) error {
	r.writes[object.GetName()]++
	if object.GetName() != "refused" {
		return c.SubResource(sub).Patch(ctx, object, patch, o...)
	}
	if !r.drop {
		return r.err
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return err
	}
	unstructured.RemoveNestedField(fields, "status", "conditions")
	empty, is := object.DeepCopyObject().(client.Object)
	if !is {
		return fmt.Errorf("%T is no object", object)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, empty); err != nil {
		return err
	}
	if err := c.SubResource(sub).Update(ctx, empty); err != nil {
		return err
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(fields, object)
}

// pairs are the kinds with a status, each with an object that is refused and another one, and the
// requests that lead to both.
func pairs() map[string][2]client.Object {
	of := func(name string, build func(metav1.ObjectMeta) client.Object, namespace string) client.Object {
		return build(metav1.ObjectMeta{Name: name, Namespace: namespace, Generation: 3})
	}
	found := map[string][2]client.Object{}
	for kind, build := range map[string]func(metav1.ObjectMeta) client.Object{
		"updatepolicy": func(m metav1.ObjectMeta) client.Object {
			return &v1alpha1.UpdatePolicy{ObjectMeta: m, Spec: v1alpha1.UpdatePolicySpec{Strategy: v1alpha1.RollingUpdate, Targets: []v1alpha1.UpdateTarget{{ClusterName: m.Name}}}}
		},
		"updater": func(m metav1.ObjectMeta) client.Object {
			m.Namespace = ""
			return &v1alpha1.Updater{ObjectMeta: m, Spec: v1alpha1.UpdaterSpec{Remote: &v1alpha1.RemoteUpdater{URL: "https://updater.example"}}}
		},
		"upgradegate": func(m metav1.ObjectMeta) client.Object {
			return &v1alpha1.UpgradeGate{ObjectMeta: m, Spec: v1alpha1.UpgradeGateSpec{
				Steps: []v1alpha1.GateStep{{At: "BeforeClusterUpgrade"}}, Requires: v1alpha1.GateRequirements{Approval: &v1alpha1.GateApproval{}},
			}}
		},
		"upgradegraph": func(m metav1.ObjectMeta) client.Object {
			m.Namespace = ""
			return &v1alpha1.UpgradeGraph{ObjectMeta: m, Spec: v1alpha1.UpgradeGraphSpec{Versions: []v1alpha1.Version{"v1.31.0"}, Classes: []v1alpha1.ClassReference{{Name: m.Name}}}}
		},
	} {
		found[kind] = [2]client.Object{of("refused", build, "ns"), of("other", build, "ns")}
	}
	return found
}

// reconciler returns the Reconciler of a kind.
func (r *refusing) reconciler(kind string) reconcile.Reconciler {
	now := func() time.Time { return time.Unix(1000, 0) }
	switch kind {
	case "updatepolicy":
		return &controllers.UpdatePolicyReconciler{Client: r, Live: r, Mapper: r.RESTMapper(), Now: now, Process: "one"}
	case "updater":
		return &controllers.UpdaterReconciler{Client: r, Prober: reachable{}, Now: now}
	case "upgradegate":
		return &controllers.UpgradeGateReconciler{Client: r, Now: now}
	default:
		return &controllers.UpgradeGraphReconciler{Client: r, Now: now}
	}
}

type reachable struct{}

func (reachable) Check(context.Context, *v1alpha1.Updater) error { return nil }

// TestRefusedStatuses holds for each kind and each way to refuse its status that a day has a bounded
// number of writes, that one line is logged, and that the status of another object is written.
func TestRefusedStatuses(t *testing.T) {
	t.Parallel()
	resource := v1alpha1.GroupVersion.WithResource("any").GroupResource()
	for kind, objects := range pairs() {
		for name, refused := range map[string]refusing{
			"quota":     {err: apierrors.NewForbidden(resource, "refused", errors.New("exceeded quota: requested 1, limited 0"))},
			"too large": {err: apierrors.NewRequestEntityTooLargeError("limit is 3145728")},
			"etcd":      {err: apierrors.NewInternalError(errors.New("etcdserver: request is too large"))},
			"invalid":   {err: apierrors.NewInvalid(v1alpha1.GroupVersion.WithKind("Any").GroupKind(), "refused", nil)},
			"dropped":   {drop: true},
		} {
			t.Run(kind+"/"+name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { checkRefused(t, kind, refused, objects) })
			})
		}
	}
}

func checkRefused(t *testing.T, kind string, c refusing, objects [2]client.Object) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, clusterv1.AddToScheme, admissionregistrationv1.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	stored := []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}}
	for _, object := range objects {
		copied, _ := object.DeepCopyObject().(client.Object)
		stored = append(stored, copied)
	}
	c.writes = map[string]int{}
	c.Client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(stored...).WithStatusSubresource(stored[1]).
		WithInterceptorFuncs(interceptor.Funcs{SubResourcePatch: c.patch}).Build()
	var logged []string
	log := funcr.New(func(_, args string) { logged = append(logged, args) }, funcr.Options{})
	ctx := logr.NewContext(t.Context(), log)
	backOff := refusal.BackOff(t.Name(), c.reconciler(kind))
	request := func(object client.Object) reconcile.Request {
		if kind == "updatepolicy" {
			return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: object.GetNamespace()}}
		}
		return reconcile.Request{NamespacedName: client.ObjectKeyFromObject(object)}
	}
	for spent := time.Duration(0); spent < 24*time.Hour; {
		result, err := backOff.Reconcile(ctx, request(objects[0]))
		if err != nil || result.RequeueAfter <= 0 {
			t.Fatalf("Reconcile = %+v, %v", result, err)
		}
		spent += result.RequeueAfter
		time.Sleep(result.RequeueAfter) //nolint:forbidigo // synctest's clock.
	}
	most := 160
	if reason, _ := refusal.ReasonOf(c.err); reason == refusal.QuotaExceeded {
		most = 24*60 + 10
	}
	if got := c.writes["refused"]; got < 2 || got > most {
		t.Errorf("a day has %d writes", got)
	}
	before := len(logged)
	if _, err := backOff.Reconcile(ctx, request(objects[1])); err != nil {
		t.Fatal(err)
	}
	// The other subtests read these objects as well.
	other, _ := objects[1].DeepCopyObject().(client.Object)
	if err := c.Get(ctx, client.ObjectKeyFromObject(other), other); err != nil {
		t.Fatal(err)
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(other)
	if err != nil {
		t.Fatal(err)
	}
	if conditions, _, _ := unstructured.NestedSlice(fields, "status", "conditions"); len(conditions) == 0 {
		t.Error("the status of the other object was not written")
	}
	refusals := 0
	for _, line := range logged[:before] {
		if strings.Contains(line, "refuses a write") {
			refusals++
		}
	}
	if refusals != 1 {
		t.Errorf("logged %d refusals in %q", refusals, logged)
	}
}

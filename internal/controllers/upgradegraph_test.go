package controllers_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/controllers"
)

var graphRequest = reconcile.Request{NamespacedName: types.NamespacedName{Name: "stable"}}

func newGraph() *v1alpha1.UpgradeGraph {
	return &v1alpha1.UpgradeGraph{
		ObjectMeta: metav1.ObjectMeta{Name: "stable", Generation: 3},
		Spec:       v1alpha1.UpgradeGraphSpec{Versions: []v1alpha1.Version{"v1.31.2"}},
	}
}

// newReconciler returns a Reconciler at a fixed time over a client that holds objects. Writes of a status are counted
// and fail with writeError.
func newReconciler(t *testing.T, writeError error, objects ...client.Object) (r *controllers.UpgradeGraphReconciler, c client.Client, writes *int) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	writes = new(int)
	c = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&v1alpha1.UpgradeGraph{}).
		WithInterceptorFuncs(interceptor.Funcs{
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, object client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
				*writes++
				if writeError != nil {
					return writeError
				}
				return c.SubResource(sub).Patch(ctx, object, patch, opts...)
			},
		}).Build()
	return &controllers.UpgradeGraphReconciler{Client: c, Now: func() time.Time { return time.Unix(1000, 0) }}, c, writes
}

func TestReconcileWritesOnce(t *testing.T) {
	t.Parallel()
	r, c, writes := newReconciler(t, nil, newGraph())
	for range 3 {
		result, err := r.Reconcile(t.Context(), graphRequest)
		if err != nil || result.RequeueAfter != time.Hour {
			t.Fatalf("Reconcile = %+v, %v, want to look again in an hour", result, err)
		}
	}
	if *writes != 1 {
		t.Errorf("the status was written %d times, want once", *writes)
	}
	var got v1alpha1.UpgradeGraph
	if err := c.Get(t.Context(), graphRequest.NamespacedName, &got); err != nil {
		t.Fatal(err)
	}
	want := v1alpha1.UpgradeGraphStatus{
		ObservedGeneration: 3, OldestVersion: "v1.31.2", NewestVersion: "v1.31.2",
		Conditions: []metav1.Condition{{Type: "Ready", Status: "True", Reason: "Valid", ObservedGeneration: 3, LastTransitionTime: metav1.Unix(1000, 0)}},
	}
	if diff := cmp.Diff(want, got.Status); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
}

// watchedCache is a cache whose only informer hands over the handler that it is given.
type watchedCache struct {
	informertest.FakeInformers
	handlers chan toolscache.ResourceEventHandler
}

type watchedInformer struct {
	*controllertest.FakeInformer
	handlers chan<- toolscache.ResourceEventHandler
}

func (c *watchedCache) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	return watchedInformer{controllertest.NewFakeInformer(controllertest.Synced), c.handlers}, nil
}

func (i watchedInformer) AddEventHandlerWithOptions(handler toolscache.ResourceEventHandler, options toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	i.handlers <- handler
	return i.FakeInformer.AddEventHandlerWithOptions(handler, options)
}

// TestEvents holds which events reconcile all graphs. Were a status enough, two releases that word it differently would
// overwrite each other's without end. That all graphs are reconciled shows in their being listed, which happens before the
// handler returns.
func TestEvents(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	listed := false
	// Without objects nothing is reconciled, so that only the handler lists.
	empty := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			listed = true
			return c.List(ctx, list, opts...)
		},
	}).Build()
	skipNameValidation := true // The test may run more than once in a process.
	watched := &watchedCache{FakeInformers: informertest.FakeInformers{Scheme: scheme}, handlers: make(chan toolscache.ResourceEventHandler, 2)}
	mgr, err := manager.New(&rest.Config{}, manager.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0", Logger: logr.Discard(),
		Controller:     config.Controller{SkipNameValidation: &skipNameValidation},
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return meta.NewDefaultRESTMapper(nil), nil },
		NewCache:       func(*rest.Config, cache.Options) (cache.Cache, error) { return watched, nil },
		NewClient:      func(*rest.Config, client.Options) (client.Client, error) { return empty, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := (&controllers.UpgradeGraphReconciler{Client: mgr.GetClient(), Now: time.Now}).SetupWithManager(mgr); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if more := len(watched.handlers); more != 0 {
			t.Errorf("%d more watches, which this test has not seen", more)
		}
	}()
	var handler toolscache.ResourceEventHandler
	select {
	case handler = <-watched.handlers:
	case err := <-done:
		t.Fatalf("the manager ended with %v", err)
	}
	before, status, metadata, spec := newGraph(), newGraph(), newGraph(), newGraph()
	before.ResourceVersion, status.ResourceVersion, metadata.ResourceVersion, spec.ResourceVersion = "1", "2", "2", "2"
	status.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: "True", Reason: "Valid", Message: "another release says so"}}
	metadata.Labels = map[string]string{"a": "b"}
	spec.Generation++
	for _, tt := range []struct {
		name  string
		event func()
		want  bool
	}{
		{name: "a new graph", event: func() { handler.OnAdd(before, false) }, want: true},
		{name: "a change of the status", event: func() { handler.OnUpdate(before, status) }},
		{name: "a change of the metadata", event: func() { handler.OnUpdate(before, metadata) }},
		{name: "a resync of the cache", event: func() { handler.OnUpdate(before, before) }},
		{name: "a change of the spec", event: func() { handler.OnUpdate(before, spec) }, want: true},
		{name: "a deletion", event: func() { handler.OnDelete(spec) }, want: true},
	} {
		listed = false
		tt.event()
		if listed != tt.want {
			t.Errorf("after %s, that all graphs are reconciled is %t, want %t", tt.name, listed, tt.want)
		}
	}
}

func TestUpgradeGraphErrors(t *testing.T) {
	t.Parallel()
	resource := v1alpha1.GroupVersion.WithResource("upgradegraphs").GroupResource()
	broken := errors.New("broken")
	tests := map[string]struct {
		objects    []client.Object
		writeError error
		want       error
		wantAfter  time.Duration
		wantWrites int
	}{
		"a graph that is gone":                     {},
		"a graph that another replica has written": {objects: []client.Object{newGraph()}, writeError: apierrors.NewConflict(resource, "stable", nil), wantAfter: time.Second, wantWrites: 1},
		"a graph that goes meanwhile":              {objects: []client.Object{newGraph()}, writeError: apierrors.NewNotFound(resource, "stable"), wantWrites: 1},
		"a write that fails is tried again":        {objects: []client.Object{newGraph()}, writeError: broken, want: broken, wantWrites: 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, _, writes := newReconciler(t, tt.writeError, tt.objects...)
			result, err := r.Reconcile(t.Context(), graphRequest)
			if !errors.Is(err, tt.want) || result.RequeueAfter != tt.wantAfter || *writes != tt.wantWrites {
				t.Errorf("Reconcile = %+v, %v after %d writes, want error %v, %v and %d writes", result, err, *writes, tt.want, tt.wantAfter, tt.wantWrites)
			}
		})
	}
}

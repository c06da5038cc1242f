package controllers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/windlass-dev/windlass/internal/contract"
)

// TestChanged holds after which events a status may be another. Were any event enough, namespaces with many machines would be
// reconciled without end.
func TestChanged(t *testing.T) {
	t.Parallel()
	before := newCluster("prod", "")
	for name, tt := range map[string]struct {
		edit func(*clusterv1.Cluster)
		want bool
	}{
		"nothing":     {edit: func(*clusterv1.Cluster) {}},
		"status":      {edit: func(c *clusterv1.Cluster) { c.ResourceVersion, c.Status.Phase = "2", "Provisioned" }},
		"annotations": {edit: func(c *clusterv1.Cluster) { c.Annotations = map[string]string{"a": "b"} }},
		"labels":      {edit: func(c *clusterv1.Cluster) { c.Labels = map[string]string{"a": "b"} }, want: true},
		"spec":        {edit: func(c *clusterv1.Cluster) { c.Generation++ }, want: true},
		"deletion":    {edit: func(c *clusterv1.Cluster) { now := metav1.Unix(1, 0); c.DeletionTimestamp = &now }, want: true},
	} {
		after := before.DeepCopy()
		tt.edit(after)
		if got := changed.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); got != tt.want {
			t.Errorf("a change of %s: %t, want %t", name, got, tt.want)
		}
	}
	if !changed.Create(event.CreateEvent{Object: before}) || !changed.Delete(event.DeleteEvent{Object: before}) {
		t.Error("that a cluster comes or goes changes nothing")
	}
}

func TestRequests(t *testing.T) {
	t.Parallel()
	elsewhere := newPolicy("x")
	elsewhere.Namespace = "elsewhere"
	w := newWorld(t, newPolicy("a"), newPolicy("b"), elsewhere)
	for name, tt := range map[string]struct {
		f      handler.MapFunc
		object client.Object
		want   []string
	}{
		"an object of a namespace": {f: namespaceOf, object: newCluster("prod", ""), want: []string{"ns/"}},
		"a namespace":              {f: nameOf, object: &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}, want: []string{"ns/"}},
		"the guard":                {f: w.allNamespaces, object: newGuard(), want: []string{"elsewhere/", "ns/"}},
	} {
		requests := tt.f(t.Context(), tt.object)
		got := make([]string, 0, len(requests))
		for _, r := range requests {
			got = append(got, r.String())
		}
		slices.Sort(got)
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	other := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "other"}}
	if isGuard.Create(event.CreateEvent{Object: other}) || !isGuard.Create(event.CreateEvent{Object: newGuard()}) {
		t.Error("another webhook configuration is taken for the guard")
	}
}

// recordedCache is a cache that tells which kinds are watched.
type recordedCache struct {
	informertest.FakeInformers
	watched chan string
}

func (c *recordedCache) GetInformer(_ context.Context, object client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	c.watched <- fmt.Sprintf("%T %s", object, object.GetObjectKind().GroupVersionKind().Kind)
	return controllertest.NewFakeInformer(controllertest.Synced), nil
}

// TestWatches holds what is watched: of most kinds metadata, and a control plane's kind once it is met, and once only.
func TestWatches(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	skipNameValidation := true // The test may run more than once in a process.
	recorded := &recordedCache{FakeInformers: informertest.FakeInformers{Scheme: w.client.Scheme()}, watched: make(chan string, 16)}
	mgr, err := manager.New(&rest.Config{}, manager.Options{
		Scheme: w.client.Scheme(), Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0", Logger: logr.Discard(),
		Controller:     config.Controller{SkipNameValidation: &skipNameValidation},
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return meta.NewDefaultRESTMapper(nil), nil },
		NewCache:       func(*rest.Config, cache.Options) (cache.Cache, error) { return recorded, nil },
		NewClient:      func(*rest.Config, client.Options) (client.Client, error) { return w.client, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.SetupWithManager(mgr); err != nil {
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
	got := take(recorded.watched, 5)
	want := []string{
		"*v1.PartialObjectMetadata MachineDeployment", "*v1.PartialObjectMetadata Namespace", "*v1.ValidatingWebhookConfiguration ",
		"*v1alpha1.UpdatePolicy ", "*v1beta2.Cluster ",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("watches (-want +got):\n%s", diff)
	}
	older := schema.GroupVersionKind{Group: controlplanev1.GroupVersion.Group, Version: "v1beta1", Kind: "KubeadmControlPlane"}
	for _, gvk := range []schema.GroupVersionKind{controlplanev1.GroupVersion.WithKind("KubeadmControlPlane"), controlplanev1.GroupVersion.WithKind("KubeadmControlPlane"), older, {Group: "x", Version: "v1", Kind: "Other"}} {
		if err := w.watches.add(t.Context(), gvk); err != nil {
			t.Fatal(err)
		}
	}
	hidden := schema.GroupVersionKind{Group: "x", Version: "v1", Kind: hiddenKind}
	if _, ok := errors.AsType[*contract.NotWatchableError](w.watches.add(t.Context(), hidden)); !ok {
		t.Error("a kind that may not be listed can be watched")
	}
	if diff := cmp.Diff([]string{"*v1.PartialObjectMetadata KubeadmControlPlane", "*v1.PartialObjectMetadata Other"}, take(recorded.watched, 2)); diff != "" {
		t.Errorf("watches of control planes (-want +got):\n%s", diff)
	}
	if more := len(recorded.watched); more != 0 {
		t.Errorf("%d more watches", more)
	}
}

// TestCacheThatNeverSyncs: a read of a control plane from the cache ends soon, so that the one worker
// goes on with other namespaces.
func TestCacheThatNeverSyncs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newPolicy("p"), newCluster("c", "KubeadmControlPlane"))
	w.Client = interceptor.NewClient(fakeWatch(t, w.client), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
			if object.GetObjectKind().GroupVersionKind().Kind == "KubeadmControlPlane" {
				<-ctx.Done()
				return ctx.Err()
			}
			return c.Get(ctx, key, object, opts...)
		},
	})
	ctx, cancel := context.WithTimeout(t.Context(), timeout/2)
	defer cancel()
	_, err := w.Reconcile(ctx, inNamespace("ns"))
	if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
		t.Errorf("error %v; the context: %v", err, ctx.Err())
	}
}

// take receives n items and sorts them.
func take(from <-chan string, n int) []string {
	items := make([]string, 0, n)
	for range n {
		items = append(items, <-from)
	}
	slices.Sort(items)
	return items
}

package topology

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// watchedCache tells which kinds are watched.
type watchedCache struct {
	informertest.FakeInformers
	kinds chan string
}

func (c *watchedCache) GetInformer(_ context.Context, object client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	c.kinds <- fmt.Sprintf("%T", object)
	return controllertest.NewFakeInformer(controllertest.Synced), nil
}

// TestSetUp checks that the controller watches what a decision depends on from the start.
func TestSetUp(t *testing.T) {
	w := newWorld(t)
	watched := &watchedCache{FakeInformers: informertest.FakeInformers{Scheme: w.Scheme}, kinds: make(chan string, 16)}
	skipNameValidation := true // The test may run more than once in a process.
	mgr, err := manager.New(&rest.Config{}, manager.Options{
		Scheme: w.Scheme, Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0", Logger: logr.Discard(),
		Controller:     config.Controller{SkipNameValidation: &skipNameValidation},
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return meta.NewDefaultRESTMapper(nil), nil },
		NewCache:       func(*rest.Config, cache.Options) (cache.Cache, error) { return watched, nil },
		NewClient:      func(*rest.Config, client.Options) (client.Client, error) { return w.Client, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := SetUpController(t.Context(), mgr, Options{}, controller.Options{}); err == nil {
		t.Error("options without a client are accepted")
	}
	options := Options{Client: w.Client, APIReader: w.Client, Runtime: &extensions{world: w}, Recorder: &events.FakeRecorder{}, Now: time.Now, Gates: true}
	if err := SetUpController(t.Context(), mgr, options, controller.Options{}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	want := []string{
		"*v1alpha1.UpgradeGate", "*v1beta2.Cluster", "*v1beta2.ClusterClass", "*v1beta2.Machine", "*v1beta2.MachineDeployment", "*v1beta2.MachineHealthCheck", "*v1beta2.MachinePool",
	}
	var got []string
	for range want {
		select {
		case kind := <-watched.kinds:
			got = append(got, kind)
		case err := <-done:
			t.Fatalf("the manager ended with %v", err)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("watched kinds (-want +got):\n%s", diff)
	}
}

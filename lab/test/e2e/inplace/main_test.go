// Package inplace_test updates machines in place on a development plane, with stock Cluster API: that no machine is ever
// replaced, whatever updaters and the extension's process do.
package inplace_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/internal/programs"
	"github.com/windlass-dev/windlass/lab/internal/setup"
	"github.com/windlass-dev/windlass/lab/test/e2e/internal/rig"
)

// timeout is for everything that one plane is used for; far beyond what a busy machine needs.
const (
	timeout     = 20 * time.Minute
	longTimeout = 2 * time.Hour
)

// seed makes a run's random choices again.
var seed = flag.Uint64("seed", 0, "seed of the random choices (default: a new one)")

func TestMain(m *testing.M) {
	flag.Parse()
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	// Tests side by side wait for Cluster API most of the time; the number of processors does not matter.
	if err := flag.Set("test.parallel", "16"); err != nil {
		panic(err) // The testing package defines it.
	}
	ctrl.SetLogger(logr.Discard())
	code := m.Run()
	programs.Remove()
	os.Exit(code)
}

func long() bool { return os.Getenv("WINDLASS_LONG") == "1" }

// plane is a plane on which the extension runs, its guard included.
type plane struct {
	*rig.Plane
	client client.WithWatch
}

// start starts a plane that ends with the test. Its context ends with the test's time.
func start(t *testing.T) (context.Context, *plane) {
	t.Helper()
	if os.Getenv("WINDLASS_E2E") != "1" {
		t.Skip("set WINDLASS_E2E=1 to run tests on a development plane")
	}
	limit := timeout
	if long() {
		limit = longTimeout
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), limit, fmt.Errorf("it took longer than %s", limit))
	t.Cleanup(cancel)
	p := &plane{Plane: rig.Start(ctx, t, setup.EngineStock)}
	p.client = p.Client
	if err := setup.Register(ctx, p.Plane.Plane, p.Programs.Windlass); err != nil {
		t.Fatal(err)
	}
	if err := p.History.Include(ctx, &clusterv1.MachineSet{}, &eventsv1.Event{}, &v1alpha1.Updater{}, &v1alpha1.UpdatePolicy{}); err != nil {
		t.Fatal(err)
	}
	return ctx, p
}

// namespace makes a namespace.
func (p *plane) namespace(ctx context.Context, t *testing.T, name string) {
	t.Helper()
	if err := p.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
		t.Fatal(err)
	}
}

// inside is an HTTP client that reaches the plane's own addresses.
func (p *plane) inside(transport *http.Transport) *http.Client {
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		return p.DialContext(ctx, network, address)
	}
	return &http.Client{Transport: transport}
}

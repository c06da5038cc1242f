// Package inplace_test updates machines in place on a development plane, with stock Cluster API: that no machine is ever
// replaced, whatever updaters and the extension's process do.
package inplace_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

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
	return ctx, &plane{rig.StartWithExtension(ctx, t, setup.EngineStock)}
}

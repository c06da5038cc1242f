// Package pools_test has groups of workers live on a development plane: kept and replaced
// machines, with the manager killed and frozen, stock Cluster API in its place and back at every
// stage, people who scale, health checks, and an extension that is down.
package pools_test

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

// timeout is for everything that the plane is used for; far beyond what a busy machine needs.
const (
	timeout     = 20 * time.Minute
	longTimeout = 2 * time.Hour
)

// nextVersion is where pools are sent from rig.FirstVersion.
const nextVersion = "v1.31.1"

// seed makes a run's random choices again.
var seed = flag.Uint64("seed", 0, "seed of the random choices (default: a new one)")

func TestMain(m *testing.M) {
	flag.Parse()
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	// Tests side by side wait for Cluster API most of the time; the number of processors does not
	// matter.
	if err := flag.Set("test.parallel", "16"); err != nil {
		panic(err) // The testing package defines it.
	}
	ctrl.SetLogger(logr.Discard())
	code := m.Run()
	programs.Remove()
	os.Exit(code)
}

func long() bool { return os.Getenv("WINDLASS_LONG") == "1" }

// plane is a plane on which Windlass' engine and its extension run.
type plane struct {
	*rig.Plane
	// processes arms traps for the manager.
	processes *processes
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
	ctx, cancel := context.WithTimeoutCause(t.Context(), limit,
		fmt.Errorf("it took longer than %s", limit))
	t.Cleanup(cancel)
	t.Logf("the seed is %d", *seed)
	p := &plane{Plane: rig.StartWithExtension(ctx, t, setup.EngineWindlass)}
	p.processes = newProcesses(p.History)
	return ctx, p
}

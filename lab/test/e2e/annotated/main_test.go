// Package annotated_test upgrades machines in place that annotations ask for, on a development plane with stock Cluster API: that everything ends as it
// should, in order and once, whatever the extension's process does.
package annotated_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/lab/internal/programs"
	"github.com/windlass-dev/windlass/lab/internal/setup"
	"github.com/windlass-dev/windlass/lab/test/e2e/internal/rig"
)

// timeout is for everything; far beyond what a busy machine needs.
const timeout = 15 * time.Minute

// seed makes a run's random choices again.
var seed = flag.Uint64("seed", 0, "seed of the random choices (default: a new one)")

func TestMain(m *testing.M) {
	flag.Parse()
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	ctrl.SetLogger(logr.Discard())
	code := m.Run()
	programs.Remove()
	os.Exit(code)
}

// plane is a plane on which the extension runs, and the updaters.
type plane struct {
	*rig.Plane
	client client.Client
	story  story
}

// TestAnnotated goes through the life of two clusters whose machines annotations upgrade.
func TestAnnotated(t *testing.T) {
	if os.Getenv("WINDLASS_E2E") != "1" {
		t.Skip("set WINDLASS_E2E=1 to run tests on a development plane")
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), timeout, fmt.Errorf("it took longer than %s", timeout))
	defer cancel()
	p := start(ctx, t)
	single := p.createSingle(ctx, t)
	snaps := p.createSnaps(ctx, t)
	p.Judge(ctx, t, single.key(), snaps.key())
	// While the larger cluster comes up, the smaller one is there.
	ok := t.Run("one control plane machine", func(t *testing.T) { single.testSingle(ctx, t) }) &&
		t.Run("killed", func(t *testing.T) { snaps.testKilled(ctx, t) }) &&
		t.Run("side by side", func(t *testing.T) {
			t.Run("k8sd fails twice", func(t *testing.T) {
				t.Parallel()
				single.testFailsTwice(ctx, t)
			})
			t.Run("by hand, then cancelled", func(t *testing.T) {
				t.Parallel()
				snaps.testByHand(ctx, t)
				snaps.testCancelled(ctx, t)
			})
		})
	if !ok {
		t.Log("what follows a failure is not tested")
	}
}

// start starts a plane that ends with the test.
func start(ctx context.Context, t *testing.T) *plane {
	t.Helper()
	p := &plane{Plane: rig.Start(ctx, t, setup.EngineStock)}
	rig.LogFailure(t, p.StateDir, setup.UpdaterProcess(setup.K8sdName))
	p.client, p.story = p.Client, story{p.History}
	if err := setup.Register(ctx, p.Plane.Plane, p.Programs.Windlass); err != nil {
		t.Fatal(err)
	}
	if err := p.story.Include(ctx, &corev1.ConfigMap{}, &eventsv1.Event{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			p.explain(t)
		}
	})
	p.mustRunLab(ctx, t, "k8sd", "--state-dir", p.StateDir, "--duration", "1s")
	p.mustRunLab(ctx, t, "updater", "kubelet", "--state-dir", p.StateDir, "--duration", "0s")
	return p
}

// explain shows what there is, for a test that failed.
func (p *plane) explain(t *testing.T) {
	t.Helper()
	for _, name := range []string{sampleName, singleName} {
		for _, line := range p.story.lines(name) {
			t.Log(line)
		}
	}
}

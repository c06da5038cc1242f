// Package seeds_test shows requirements of the documents that Windlass was created from beside a real API server, with Windlass'
// own engine and its extension: docs/conformance.md names the scenario of each.
package seeds_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/windlass-dev/windlass/lab/internal/programs"
	"github.com/windlass-dev/windlass/lab/internal/setup"
	"github.com/windlass-dev/windlass/lab/test/e2e/internal/rig"
)

// timeout is for everything that the plane is used for; far beyond what a busy machine needs.
const timeout = 20 * time.Minute

// nextVersion is where pools are sent.
const nextVersion = "v1.31.1"

func TestMain(m *testing.M) {
	flag.Parse()
	if os.Getenv(kubeletVariable) != "" {
		if err := setKubelet(context.Background(), flag.Arg(0), flag.Arg(1)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	// Scenarios side by side wait for Cluster API most of the time; the number of processors does not matter.
	if err := flag.Set("test.parallel", "32"); err != nil {
		panic(err) // The testing package defines it.
	}
	ctrl.SetLogger(logr.Discard())
	code := m.Run()
	programs.Remove()
	os.Exit(code)
}

// plane is a plane on which Windlass' engine and its extension run.
type plane struct {
	*rig.Plane
}

// TestSeeds runs everything on one plane, side by side: pools of one Cluster, each with updaters of its own, and Clusters
// of a ClusterClass.
func TestSeeds(t *testing.T) {
	if os.Getenv("WINDLASS_E2E") != "1" {
		t.Skip("set WINDLASS_E2E=1 to run tests on a development plane")
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), timeout, fmt.Errorf("it took longer than %s", timeout))
	defer cancel()
	p := &plane{rig.StartWithExtension(ctx, t, setup.EngineWindlass)}
	topologies := p.topologies()
	p.createTopologies(ctx, t, topologies)
	for _, c := range topologies {
		p.Judge(ctx, t, c.key)
	}
	checkMutants := p.judgeMutants(ctx, t)
	upstream := buildUpstream(ctx, t)
	scenarios := p.poolScenarios(upstream)
	var pools []rig.Pool
	for _, s := range scenarios {
		pools = append(pools, s.pool)
	}
	p.CreatePools(ctx, t, rig.PoolsCluster, pools)
	p.createUpstream(ctx, t, upstream)
	t.Run("side by side", func(t *testing.T) {
		t.Run("control plane", func(t *testing.T) { t.Parallel(); p.testControlPlane(ctx, t) })
		t.Run("upstream extension", func(t *testing.T) { t.Parallel(); p.testUpstreamHooks(ctx, t) })
		for _, s := range scenarios {
			t.Run(s.pool.Name, func(t *testing.T) {
				t.Parallel()
				p.AwaitPool(ctx, t, s.pool.Name, rig.FirstVersion, int(s.pool.Replicas))
				s.test(ctx, t, s.pool.Name)
			})
		}
		p.runTopologies(ctx, t, topologies)
	})
	p.checkPoolsReport(ctx, t)
	checkMutants()
}

// poolScenario is a pool, and what happens to it once its machines are ready.
type poolScenario struct {
	pool rig.Pool
	test func(ctx context.Context, t *testing.T, pool string)
}

// poolScenarios are in the order in which their pools are created. upstream is Cluster API's test extension.
func (p *plane) poolScenarios(upstream string) []poolScenario {
	return slices.Concat(p.remediationScenarios(), p.policyScenarios(), p.updaterScenarios(upstream))
}

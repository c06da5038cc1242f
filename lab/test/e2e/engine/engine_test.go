package engine_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/lab/internal/setup"
	"github.com/windlass-dev/windlass/lab/test/e2e/internal/rig"
)

// Namespaces: in one the class lists versions, in the other an extension makes the plans and all hooks are called.
const (
	listed = "listed"
	asked  = "asked"
)

// world is the plane and what runs on it.
type world struct {
	*rig.Plane
	extension *extension
}

func inListed(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: listed, Name: name}
}
func inAsked(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: asked, Name: name}
}

// TestEngine runs everything on one plane: first Clusters side by side; then chains while the manager is killed at random points; then one while
// the stock manager takes over and hands back.
func TestEngine(t *testing.T) {
	if os.Getenv("WINDLASS_E2E") != "1" {
		t.Skip("set WINDLASS_E2E=1 to run tests on a development plane")
	}
	limit := timeout
	if long() {
		limit = longTimeout
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), limit, fmt.Errorf("it took longer than %s", limit))
	defer cancel()
	w := startWorld(ctx, t)
	w.create(ctx, t)
	w.Judge(ctx, t, annotated, hooked, killed, swapped)

	t.Run("side by side", func(t *testing.T) {
		t.Run("pools at different versions", func(t *testing.T) { t.Parallel(); w.testAhead(ctx, t) })
		t.Run("annotations and concurrency", func(t *testing.T) { t.Parallel(); w.testAnnotations(ctx, t) })
		t.Run("hooks", func(t *testing.T) { t.Parallel(); w.testHooks(ctx, t) })
		t.Run("life without upgrade", func(t *testing.T) { t.Parallel(); w.testLife(ctx, t) })
		t.Run("older than the class", func(t *testing.T) { t.Parallel(); w.testLate(ctx, t) })
	})
	t.Run("killed", func(t *testing.T) { w.testKills(ctx, t) })
	t.Run("swapped", func(t *testing.T) { w.testSwaps(ctx, t) })
	t.Run("deleted", func(t *testing.T) { w.testDelete(ctx, t) })
}

func startWorld(ctx context.Context, t *testing.T) *world {
	t.Helper()
	p := rig.Start(ctx, t, setup.EngineWindlass)
	w := &world{Plane: p, extension: startExtension(ctx, t, p)}
	w.Namespace(ctx, t, listed, nil)
	w.Namespace(ctx, t, asked, map[string]string{hooksLabel: extensionName})
	w.ApplyClass(ctx, t, listed, rig.Class{Versions: versions()})
	w.ApplyClass(ctx, t, asked, rig.Class{Extension: "generateupgradeplan." + extensionName})
	return w
}

// create creates all Clusters at once: they take their time to come up.
func (w *world) create(ctx context.Context, t *testing.T) {
	t.Helper()
	v := versions()
	one := func(name string) rig.Group { return rig.Group{Name: name, Replicas: 1} }
	with := func(name, annotation string) rig.Group {
		return rig.Group{Name: name, Replicas: 1, Annotations: map[string]string{annotation: ""}}
	}
	clusters := []*clusterv1.Cluster{
		rig.NewCluster(ahead, v[0], 1, with("behind", clusterv1.ClusterTopologyDeferUpgradeAnnotation), one("ahead")),
		rig.NewCluster(annotated, v[1], 1, one("md-0"), with("md-1", clusterv1.ClusterTopologyDeferUpgradeAnnotation), one("md-2"),
			with("md-3", clusterv1.ClusterTopologyHoldUpgradeSequenceAnnotation), one("md-4")),
		rig.NewCluster(hooked, v[1], 1, one("md-0")),
		rig.NewCluster(lively, v[1], 1, one("md-0"), one("md-1")),
		rig.NewCluster(killed, v[1], 1, one("md-0"), one("md-1")),
		rig.NewCluster(swapped, v[1], 1, rig.Group{Name: "md-0", Replicas: 2}),
	}
	for _, c := range clusters {
		if err := w.Client.Create(ctx, c); err != nil {
			t.Fatal(err)
		}
	}
}

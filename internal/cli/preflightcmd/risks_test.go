package preflightcmd

import (
	"errors"
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/preflight"
	"github.com/windlass-dev/windlass/internal/snapshot"
	"github.com/windlass-dev/windlass/pkg/version"
)

// TestUnknownRoute: an upgrade by one minor has one step, so nobody is told that others are unknown.
func TestUnknownRoute(t *testing.T) {
	t.Parallel()
	topology := &clusterv1.Cluster{}
	topology.Spec.Topology.ClassRef.Name = "k"
	for name, tt := range map[string]struct {
		cluster  *clusterv1.Cluster
		to, want string
	}{
		"one minor":   {&clusterv1.Cluster{}, "v1.33.4", ""},
		"one patch":   {topology, "v1.32.9", ""},
		"no topology": {&clusterv1.Cluster{}, "v1.34.1", "the Cluster has no topology"},
		"a fault":     {topology, "v1.34.1", "no class"},
		"a new major": {topology, "v2.0.0", "no class"},
	} {
		u := preflight.Upgrade{From: version.MustParse("v1.32.1"), To: version.MustParse(tt.to)}
		if got := unknownRoute(snapshot.Objects{Cluster: tt.cluster}, u, errors.New("no class")); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

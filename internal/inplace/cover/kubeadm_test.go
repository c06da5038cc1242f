package cover_test

import (
	"fmt"
	"testing"

	"github.com/blang/semver/v4"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	"sigs.k8s.io/cluster-api/controlplane/kubeadm/pkg/desiredstate"

	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/pkg/version"
)

// TestSetsLocalMode: Cluster API's own code sets the gate in the same versions, and nothing else.
func TestSetsLocalMode(t *testing.T) {
	t.Parallel()
	for minor := range 60 {
		for _, rest := range []string{".0-alpha.1", ".0-rc.1+x", ".0", ".14", ".3+rke2r1"} {
			text := fmt.Sprintf("1.%d%s", minor, rest)
			spec := &bootstrapv1.KubeadmConfigSpec{}
			desiredstate.DefaultFeatureGates(spec, semver.MustParse(text))
			gates := spec.ClusterConfiguration.FeatureGates
			sets := cover.SetsLocalMode(version.MustParse("v" + text).Minor())
			if gates[cover.LocalModeGate] != sets || len(gates) > 1 {
				t.Errorf("v%s: Cluster API sets %v, SetsLocalMode is %t", text, gates, sets)
			}
		}
	}
}

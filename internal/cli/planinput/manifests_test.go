package planinput

import (
	"slices"
	"strings"
	"testing"

	"github.com/windlass-dev/windlass/internal/manifest"
	"github.com/windlass-dev/windlass/pkg/version"
)

// TestHoldInManifests: a plan from manifests tells of a hook that has blocked the upgrade since long, as one of
// a live Cluster does.
func TestHoldInManifests(t *testing.T) {
	t.Parallel()
	const cluster = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: c, namespace: ns}
spec: {topology: {classRef: {name: k}, version: v1.33.1}}
status:
  conditions:
  - {type: TopologyReconciled, status: "False", reason: ClusterUpgrading, lastTransitionTime: "2026-11-26T09:00:00Z",
     message: "Cluster is upgrading to v1.33.1\n  * Following hooks are blocking upgrade: BeforeClusterUpgrade: wait"}
`
	const extension = `
---
apiVersion: runtime.cluster.x-k8s.io/v1beta2
kind: ExtensionConfig
metadata: {name: stack}
spec: {clientConfig: {url: "https://127.0.0.1"}}
status: {handlers: [{name: h, requestHook: {apiVersion: hooks.runtime.cluster.x-k8s.io/v1alpha1, hook: BeforeClusterUpgrade}}]}
`
	for manifests, want := range map[string]bool{cluster: false, cluster + extension: true} {
		set := &manifest.Set{}
		if err := set.Decode("f.yaml", []byte(manifests)); err != nil {
			t.Fatal(err)
		}
		r, err := ResolveManifest(set, set.Clusters[0], Input{
			From: version.MustParse("v1.32.1"), To: version.MustParse("v1.33.1"),
			Versions: []version.Version{version.MustParse("v1.33.1")},
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.ContainsFunc(r.Notes, func(n string) bool { return strings.Contains(n, "ExtensionConfig stack") }); got != want {
			t.Errorf("%t, want %t: %q", got, want, r.Notes)
		}
	}
}

package doctorcmd

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/windlass-dev/windlass/internal/cli/management"
	"github.com/windlass-dev/windlass/test/apiserver"
)

const clusterYAML = `apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: prod, namespace: team-a}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineDeployment
metadata: {name: md-0, namespace: team-a, labels: {cluster.x-k8s.io/cluster-name: prod}}
spec: {clusterName: prod}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Machine
metadata: {name: m, namespace: team-a, labels: {cluster.x-k8s.io/cluster-name: prod}}
spec: {clusterName: prod}
`

// TestNotInstalled: an API server without our kinds is told from one without policies.
func TestNotInstalled(t *testing.T) {
	t.Parallel()
	const policy = `---
apiVersion: windlass.dev/v1alpha1
kind: UpdatePolicy
metadata: {name: other, namespace: team-b}
`
	for objects, want := range map[string]bool{clusterYAML: true, clusterYAML + policy: false} {
		_, kubeconfig := apiserver.Start(t, objects)
		m, _, err := management.Connect(&management.Flags{KubeConfig: kubeconfig})
		if err != nil {
			t.Fatal(err)
		}
		key := types.NamespacedName{Namespace: "team-a", Name: "prod"}
		f, err := liveFacts(t.Context(), m, key)
		if err != nil {
			t.Fatal(err)
		}
		if f.NotInstalled != want {
			t.Errorf("NotInstalled is %t, want %t", f.NotInstalled, want)
		}
	}
}

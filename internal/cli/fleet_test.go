package cli

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windlass-dev/windlass/internal/cli/management"
	"github.com/windlass-dev/windlass/test/apiserver"
)

// TestEachCluster: every chosen Cluster is looked at once, no more than fleetParallel at a time, and in
// the end they are in order.
func TestEachCluster(t *testing.T) {
	t.Parallel()
	const clusters = 3 * fleetParallel
	var documents, want []string
	for i := range clusters {
		name := fmt.Sprintf("c-%02d", i)
		documents = append(documents, fmt.Sprintf("apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\n"+
			"metadata: {name: %s, namespace: team-%c, labels: {env: a}}\n", name, 'b'-i%2))
	}
	for _, namespace := range []string{"a", "b"} {
		for i := range clusters {
			if (i%2 == 1) == (namespace == "a") {
				want = append(want, fmt.Sprintf("team-%s/c-%02d", namespace, i))
			}
		}
	}
	_, kubeconfig := apiserver.Start(t, strings.Join(documents, "---\n"))
	kube := &management.Flags{KubeConfig: kubeconfig}
	var running, most atomic.Int32
	// The first ones wait for each other, so that they run at a time.
	together := make(chan struct{})
	got, err := EachCluster(t.Context(), &FleetFlags{All: true, Selector: "env=a"}, kube,
		func(_ context.Context, _ management.Cluster, key types.NamespacedName) string {
			n := running.Add(1)
			defer running.Add(-1)
			for last := most.Load(); n > last && !most.CompareAndSwap(last, n); {
				last = most.Load()
			}
			if n == fleetParallel && most.Load() == fleetParallel {
				select {
				case <-together:
				default:
					close(together)
				}
			}
			<-together
			return key.String()
		})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Clusters (-want +got):\n%s", diff)
	}
	if most.Load() != fleetParallel {
		t.Errorf("%d Clusters were looked at at a time, not %d", most.Load(), fleetParallel)
	}
}

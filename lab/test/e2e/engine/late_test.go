package engine_test

import (
	"context"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/lab/internal/setup"
	"github.com/windlass-dev/windlass/lab/test/e2e/internal/rig"
)

// testLate creates Clusters at the moment at which their classes exist and have not been looked at.
// Such a Cluster gets the defaults of its variables with the next write of anybody, which is the
// finalizer of Cluster API's own controller, while BeforeClusterCreate is called. The hook is called
// once all the same. Without a rule for that, it was called twice for three of four such Clusters.
func (w *world) testLate(ctx context.Context, t *testing.T) {
	t.Helper()
	var keys []types.NamespacedName
	for i := range 3 {
		name := fmt.Sprintf("late-%d", i)
		w.Namespace(ctx, t, name, map[string]string{hooksLabel: extensionName})
		key := types.NamespacedName{Namespace: name, Name: name}
		created := make(chan error, 1)
		go func() {
			_, err := setup.Await(ctx, w.Client, &clusterv1.ClusterClassList{},
				func(*clusterv1.ClusterClass) string { return "" },
				setup.Named(rig.ClassName), client.InNamespace(name))
			if err == nil {
				err = w.Client.Create(ctx, rig.NewCluster(key, versions()[1], 1))
			}
			created <- err
		}()
		w.ApplyClass(ctx, t, name, rig.Class{Extension: "generateupgradeplan." + extensionName})
		if err := <-created; err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key)
	}
	for _, key := range keys {
		w.awaitCalls(ctx, t, key, rule{Hook: "AfterControlPlaneInitialized"}, 1)
		if n := w.extension.count(t, key, rule{Hook: "BeforeClusterCreate"}); n != 1 {
			t.Errorf("BeforeClusterCreate was called %d times for %s, want once", n, key)
		}
	}
}

package topology

import (
	"context"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/windlass-dev/windlass/api/v1alpha1"
)

// TestProgressNotStored has a webhook remove the record of the chain from each write of the Cluster. The
// control plane does not move: the next reconcile would not know how far the chain is. The Cluster is
// moved once the webhook is gone.
func TestProgressNotStored(t *testing.T) {
	w := newWorld(t).running("v1.31.0")
	w.r.Client = interceptor.NewClient(w.Client, interceptor.Funcs{
		Patch: func(
			ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption,
		) error {
			if err := c.Patch(ctx, object, patch, options...); err != nil {
				return err
			}
			cluster, is := object.(*clusterv1.Cluster)
			if !is || cluster.Annotations[v1alpha1.ChainProgressAnnotation] == "" {
				return nil
			}
			delete(cluster.Annotations, v1alpha1.ChainProgressAnnotation)
			return c.Update(ctx, cluster)
		},
	})
	w.merge("Cluster", "c", "spec: {topology: {version: v1.32.0}}")
	for range 3 {
		_, err := w.reconcile()
		if err == nil || !strings.Contains(err.Error(), v1alpha1.ChainProgressAnnotation) {
			t.Errorf("the chain continues without a record: %v", err)
		}
	}
	c := conditions.Get(w.Cluster(), clusterv1.ClusterTopologyReconciledCondition)
	if c == nil || !strings.Contains(c.Message, v1alpha1.ChainProgressAnnotation) {
		t.Errorf("the Cluster does not tell why the chain waits: %+v", c)
	}
	if v := w.controlPlaneVersion(); v != "v1.31.0" {
		t.Errorf("the control plane goes to %s without a record", v)
	}
	w.r.Client = w.Client
	w.settle()
	if v := w.controlPlaneVersion(); v != "v1.32.0" {
		t.Errorf("the control plane stays at %s without the webhook", v)
	}
}

func (w *world) controlPlaneVersion() string {
	w.t.Helper()
	_, current := w.read()
	version, _, err := unstructured.NestedString(current.ControlPlane.Object.Object, "spec", "version")
	if err != nil {
		w.t.Fatal(err)
	}
	return version
}

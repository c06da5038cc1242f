package engine_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// testDelete deletes a Cluster, which a hook holds at first.
func (w *world) testDelete(ctx context.Context, t *testing.T) {
	t.Helper()
	hold := rule{Cluster: hooked.Name, Hook: "BeforeClusterDelete", RetryAfterSeconds: 1, Message: "a backup runs"}
	w.extension.set(t, hold)
	if err := w.Client.Delete(ctx, &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: hooked.Namespace, Name: hooked.Name}}); err != nil {
		t.Fatal(err)
	}
	w.awaitMessage(ctx, t, hooked, "hook BeforeClusterDelete is blocking: a backup runs")
	w.awaitCalls(ctx, t, hooked, hold, 2)
	if o := w.History.Now(hooked); o.ControlPlane.Deleting || o.Groups["md-0"].Deleting {
		t.Errorf("objects go in spite of the hook: %+v", o)
	}
	w.extension.set(t, rule{Cluster: hooked.Name, Hook: hold.Hook})
	w.History.Await(ctx, t, "waiting until the Cluster is gone", func() string {
		o := w.History.Now(hooked)
		if o.Cluster.UID != "" {
			return "it is still there: " + o.Cluster.Reconciled().Message
		}
		return remaining(o, "")
	})
	order, _ := completed(w.extension.calls(t, hooked))
	if diff := cmp.Diff("BeforeClusterDelete", order[len(order)-1]); diff != "" {
		t.Errorf("the last hook (-want +got):\n%s", diff)
	}
}

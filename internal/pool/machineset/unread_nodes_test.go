package machineset

import (
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestUnreadNodes: if the workload cluster is not reachable, a run logs one line about all
// Machines.
func TestUnreadNodes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	existing(w)
	other := client.ObjectKey{Namespace: namespace, Name: "other"}
	w.r.ClusterCache = clustercache.NewFakeClusterCache(w.Client, other)
	var lines []string
	ctx := ctrl.LoggerInto(t.Context(), funcr.New(func(_, line string) {
		if strings.Contains(line, "Unable to retrieve Node status") {
			lines = append(lines, line)
		}
	}, funcr.Options{}))
	request := ctrl.Request{NamespacedName: client.ObjectKey{Namespace: namespace, Name: "a"}}
	if _, err := w.r.Reconcile(ctx, request); err != nil {
		t.Fatal(err)
	}
	if len(lines) != 1 || !strings.Contains(lines[0], `"count"=2`) ||
		!strings.Contains(lines[0], "connecting to the workload cluster") {
		t.Errorf("the log has\n%s", strings.Join(lines, "\n"))
	}
}

package hookclient

import (
	"testing"

	_ "sigs.k8s.io/cluster-api/core/reconcilers/clusterclass" // It makes clients of extensions, so Cluster API's metrics are registered.
	crmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
)

// Where Cluster API's client is linked in, its metrics are in controller-runtime's registry already. They are the same to the last word, or the manager
// would not start.
func TestStockMetricsAreShared(t *testing.T) {
	t.Parallel()
	ours := newStockMetrics()
	m := *ours
	if err := m.register(crmetrics.Registry); err != nil {
		t.Fatal(err)
	}
	if m.requests == ours.requests || m.duration == ours.duration {
		t.Error("Cluster API has not registered metrics of these names: are they its own?")
	}
}

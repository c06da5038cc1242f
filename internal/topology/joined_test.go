package topology

import (
	"context"
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// TestJoinProblemIsBounded: what a workload cluster answers does not fill a condition.
func TestJoinProblemIsBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("n", 1<<20)
	for name, answer := range map[string]error{"a Node": nil, "an error": errors.New(long)} {
		r := &run{Reconciler: &Reconciler{}, cluster: &clusterv1.Cluster{}}
		r.ControlPlaneNodes = func(context.Context, types.NamespacedName) ([]string, error) {
			return []string{long}, answer
		}
		if n := len(r.joinProblem(t.Context(), nil)); n == 0 || n > conditionBytes {
			t.Errorf("%s: the problem has %d bytes, want 1 to %d", name, n, conditionBytes)
		}
	}
}

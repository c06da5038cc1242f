package hookserver_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/windlass-dev/windlass/internal/hookserver"
)

// limits is a hookserver.Limits with a fixed answer.
type limits struct {
	minors int
	err    error
}

func (l limits) WorkerMinors(context.Context, *clusterv1.Cluster) (int, error) {
	return l.minors, l.err
}

// TestWorkersStopWhereTheirUpdatersCanReach checks that the plan has the stops that updaters with short steps need.
func TestWorkersStopWhereTheirUpdatersCanReach(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		limits limits
		// workers are the stops, or a part of the message of a failure.
		workers string
	}{
		"any number":      {workers: "v1.32.3"},
		"one at a time":   {limits: limits{minors: 1}, workers: "v1.30.3 v1.31.2 v1.32.3"},
		"two at a time":   {limits: limits{minors: 2}, workers: "v1.31.2 v1.32.3"},
		"it is not known": {limits: limits{err: errors.New("listing failed")}, workers: "finding out how far workers can be moved at once: listing failed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			response := &runtimehooksv1.GenerateUpgradePlanResponse{}
			hookserver.NewUpgradePlanner(graphs{stable()}, tt.limits, nil, nil).GenerateUpgradePlan(t.Context(), request("v1.29.0", "v1.29.0", "v1.32.3"), response)
			if got := stops(response.WorkersUpgrades) + response.Message; !strings.Contains(got, tt.workers) || tt.limits.err == nil && got != tt.workers {
				t.Errorf("workers stop at %q, want %q", got, tt.workers)
			}
		})
	}
}

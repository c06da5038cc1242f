package hookserver_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/windlass-dev/windlass/internal/hookserver"
)

// TestForgedHooksInTheLog forges 10,000 hooks: about one cluster with two outcomes in turn, about
// clusters with other names, and with names that no object has.
func TestForgedHooksInTheLog(t *testing.T) {
	t.Parallel()
	const hooks = 10_000
	for name, tt := range map[string]struct {
		cluster func(i int) string
		most    int
	}{
		"of one cluster":     {func(int) string { return "one" }, 2 * 5},
		"of many clusters":   {func(i int) string { return fmt.Sprint("c", i) }, 2 * 300},
		"of impossible ones": {func(i int) string { return fmt.Sprint(strings.Repeat("x", 300), i) }, 2 * 300},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var lines []string
			ctx := log.IntoContext(t.Context(), logr.New(&recordingSink{lines: &lines}))
			planner := hookserver.NewUpgradePlanner(graphs{stable()}, nil, nil, nil)
			for i := range hooks {
				forged := request("v1.29.0", "v1.29.0", []string{"v1.33.0", "v1.34.0"}[i%2])
				forged.Cluster.Name = tt.cluster(i)
				planner.GenerateUpgradePlan(ctx, forged, &runtimehooksv1.GenerateUpgradePlanResponse{})
			}
			if len(lines) == 0 || len(lines) > tt.most {
				t.Errorf("%d hooks cause %d lines, want 1 to %d", hooks, len(lines), tt.most)
			}
		})
	}
}

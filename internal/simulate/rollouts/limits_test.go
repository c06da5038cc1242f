package rollouts

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/windlass-dev/windlass/internal/pool"
)

// TestExploreFindsIgnoredLimits: the checks find an engine that ignores one limit.
func TestExploreFindsIgnoredLimits(t *testing.T) {
	t.Parallel()
	ignoring := func(forget func(*pool.Limits)) Engine {
		return edited(func(g *pool.Group) {
			l := *g.Limits
			forget(&l)
			g.Limits = &l
		}, nil)
	}
	for name, tt := range map[string]struct {
		forget   func(*pool.Limits)
		scenario Scenario
		want     string
	}{
		"canary": {
			func(l *pool.Limits) { l.Canary = intstr.FromInt32(2) },
			Scenario{Replicas: 3, Unavailable: 2, Limits: Limits{Canary: 1}}, "at most 1 may be",
		},
		"batches": {
			func(l *pool.Limits) { l.Batches = nil },
			Scenario{Replicas: 3, Unavailable: 2, Covered: true,
				Limits: Limits{Batch: 1}}, "at most 1 may be",
		},
		"partition": {
			func(l *pool.Limits) { l.Partition = intstr.FromInt32(0) },
			Scenario{Replicas: 3, Surge: 1, Limits: Limits{Partition: 1}}, "at most 2 may be",
		},
		"maxInFlight": {
			func(l *pool.Limits) { l.MaxInFlight = 2 },
			Scenario{Replicas: 3, Surge: 2, Limits: Limits{MaxInFlight: 1}}, "are in flight",
		},
		"a partition that grows": {
			func(l *pool.Limits) { l.Partition = intstr.FromInt32(2) },
			Scenario{Replicas: 3, Surge: 1,
				Limits: Limits{Partition: 1}}, "2 Machines are at the old template instead of 1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			finds(t, tt.scenario, ignoring(tt.forget), tt.want)
		})
	}
}

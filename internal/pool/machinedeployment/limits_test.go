package machinedeployment

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/windlass-dev/windlass/internal/pool"
)

// TestLimits: limits of a policy hold a rollout by replacement, the condition names the reason, and
// the rollout ends when they are lifted.
func TestLimits(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		limits  pool.Limits
		created int
		blocked string
	}{
		"a partition": {
			limits: pool.Limits{MaxInFlight: 3,
				Partition: intstr.FromInt32(2)}, created: 1, blocked: "Partition",
		},
		"an unknown policy": {limits: pool.Limits{Unknown: "two of them"}, blocked: "PolicyUnknown"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			limit := func(w *world) { w.policy = Policy{Name: "p", Limits: &tt.limits} }
			w := scenario{begin: limit, change: (*world).upgrade}.run(t)
			w.settle()
			if got, want := [...]int{w.created, w.deleted}, [...]int{tt.created, tt.created}; got != want {
				t.Errorf("created and deleted are %v, want %v:\n%s", got, want, w.picture())
			}
			if got := w.blocked(); got != tt.blocked {
				t.Errorf("the condition has the reason %q, want %q", got, tt.blocked)
			}
			w.policy = Policy{}
			w.settle()
			if got := w.blocked(); got != "" {
				t.Errorf("the condition still has the reason %q", got)
			}
			if n := len(w.sets()); n != 1 {
				t.Errorf("%d MachineSets are left:\n%s", n, w.picture())
			}
		})
	}
}

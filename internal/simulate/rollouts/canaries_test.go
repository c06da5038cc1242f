package rollouts

import (
	"strings"
	"testing"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/pool"
)

// TestExploreFindsForgottenCanaries: the checks find an engine that does not read the record, and
// one that has no canaries after a retry. A kept group needs no record for the latter: no Machine
// that is created there is a canary.
func TestExploreFindsForgottenCanaries(t *testing.T) {
	t.Parallel()
	forgetting := func(when func(*pool.FailedCanaries) bool) Engine {
		return edited(func(g *pool.Group) {
			copyOf(g)
			if c, _ := pool.FailedCanariesOf(g.MachineDeployment); c != nil && when(c) {
				delete(g.MachineDeployment.Annotations, v1alpha1.FailedCanariesAnnotation)
			}
		}, nil)
	}
	for want, forgets := range map[string]func(*pool.FailedCanaries) bool{
		"another Machine begins": func(*pool.FailedCanaries) bool { return true },
		"2 Machines try an update that has failed": func(c *pool.FailedCanaries) bool {
			return c.Retried
		},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			s := Scenario{Replicas: 3, Unavailable: 2, Covered: true,
				Limits: Limits{Canary: 1}, Faults: Faults{Hangs: 2, Retries: 1}}
			s.Keep = want == "another Machine begins"
			v := finds(t, s, forgetting(forgets), want)
			if !strings.Contains(v.String(), "remediates") {
				t.Errorf("no canary was remediated:\n%v", v)
			}
		})
	}
}

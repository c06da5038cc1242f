package scenario_test

import (
	"strings"
	"testing"

	"github.com/windlass-dev/windlass/internal/simulate/scenario"
)

// TestBadRollouts: what a policy's rollout says is checked, and named.
func TestBadRollouts(t *testing.T) {
	t.Parallel()
	const head = "clusters: [{name: c, from: v1.31.0, to: v1.32.0, versions: [v1.31.0, v1.32.0]}]\n" +
		"policies: [{name: p, strategy: InPlace, rollout: "
	for rollout, want := range map[string]string{
		"{canary: few}":     "policies[0].rollout.canary",
		"{canary: -1}":      "policies[0].rollout.canary",
		"{batches: [2, 0]}": "policies[0].rollout.batches[1]",
		"{partition: -2}":   "policies[0].rollout.partition",
		"{maxFailures: -1}": "policies[0].rollout.maxFailures",
	} {
		file, err := scenario.Parse("file", []byte(head+rollout+"}]\n"))
		if err == nil {
			_, err = scenario.Translate(file, scenario.Options{})
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: the error is %v, want one about %s", rollout, err, want)
		}
	}
}

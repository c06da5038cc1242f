package probe_test

import (
	"strings"
	"testing"

	"github.com/windlass-dev/windlass/internal/clustercheck"
	"github.com/windlass-dev/windlass/internal/preflight"
)

// TestUnhealthyEviction: Pods that crash are told, unless their budget lets them go.
func TestUnhealthyEviction(t *testing.T) {
	t.Parallel()
	for policy, want := range map[string]clustercheck.Outcome{
		"": clustercheck.Warned, "IfHealthyBudget": clustercheck.Warned, "AlwaysAllow": clustercheck.Passed,
	} {
		found := run(t, look(t, newAPI(func(answers map[string]string) {
			answers["/apis/policy/v1/poddisruptionbudgets"] = `{"items": [{"metadata": {"namespace": "ns", "name": "b"},
				"spec": {"selector": {"matchLabels": {"a": "b"}}, "unhealthyPodEvictionPolicy": "` + policy + `"},
				"status": {"expectedPods": 2, "desiredHealthy": 1}}]}`
			answers["/api/v1/pods"] = `{"items": [{"metadata": {"namespace": "ns", "name": "p", "labels": {"a": "b"}},
				"spec": {"nodeName": "n"}, "status": {"phase": "Running", "containerStatuses": [
				{"restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}}]}`
		}).ServeHTTP))
		for _, f := range found {
			crash := strings.Contains(f.Message, "p on Node n (CrashLoopBackOff, 3 restarts)")
			if f.ID == preflight.BudgetsCanBeSatisfied &&
				(f.Outcome != want || crash != (want == clustercheck.Warned)) {
				t.Errorf("%s is %s: %s", policy, f.Outcome, f.Message)
			}
		}
	}
}

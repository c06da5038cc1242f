package scenario_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/internal/simulate/scenario"
)

func TestWhatIsGivenIsNoAssumption(t *testing.T) {
	t.Parallel()
	got := translate(t, `
clusters: [{name: c, from: v1.29.4, to: v1.30.1, pools: [{name: md, replicas: 3, maxSurge: 0, maxUnavailable: 1, policy: p}], controlPlane: {policy: p}}]
policies:
- {name: p, strategy: InPlace, drain: true, maxInFlight: 1, soak: 0s, maxAttempts: 3, attemptTimeout: 30m, updaters: [{name: u, needsDrain: true}]}
- {name: of-no-group, strategy: InPlace}
durations: {updaters: {u: 3m}, settle: 1s, react: 1s}
failures: {updateFails: 0.01}
gates: [{name: g, steps: [{at: BeforeWorkersUpgrade}], windows: [{timeZone: UTC, from: "22:00", to: "05:00"}]}]
begin: 2026-01-05T08:00:00Z
budget: {qps: 0, burst: 0}
costs: {replace: 0, inPlace: 0}
`)
	want := []string{
		"draining a node before an update in place takes 1m (durations.drain)",
		"nobody has a machine retried whose update failed finally (durations.attend)",
		"a step that has begun in a window continues after the window closes",
	}
	if diff := cmp.Diff(want, got.Assumptions); diff != "" {
		t.Errorf("other assumptions (-want +got):\n%s", diff)
	}
}

// TestAssumed tells of each assumption when it is told, and that it is not told otherwise.
func TestAssumed(t *testing.T) {
	t.Parallel()
	const (
		begins  = "the simulation begins on Monday, 2026-01-05T08:00:00Z (begin)"
		late    = "machines that take longer than giveUp to be created are not given up; only those that createFails picks (durations.giveUp)"
		all     = "all clusters are upgraded at once (clustersAtOnce)"
		onePool = "one pool of a kind is upgraded at a time in a cluster that says nothing else (clusters[].poolsAtOnce)"
		limits  = "where pools leave them out, maxSurge is 1 and maxUnavailable 0, and with an InPlace policy 0 and 1 (clusters[].pools)"
		replace = "the policy p leaves out what it has by default: maxInFlight 1, drain false, soak 0s, maxAttempts 3, attemptTimeout 30m (policies)"
		canary  = "the policy p leaves out what it has by default: canary 1, soak 0s (policies)"
		some    = "the policy p leaves out what it has by default: maxInFlight 1, soak 0s (policies)"
		gates   = "\ngates: [{name: g, steps: [{at: BeforeWorkersUpgrade}], windows: [{timeZone: UTC, from: \"22:00\", to: \"05:00\"}]}]"
		c       = "clusters: [{name: c, from: v1.29.4, to: v1.30.1, "
	)
	for name, tt := range map[string]struct {
		text, line string
		want       bool
	}{
		"gates without begin":             {c + "}]" + gates, begins, true},
		"gates with begin":                {c + "}]" + gates + "\nbegin: 2026-01-05T08:00:00Z", begins, false},
		"no gates":                        {c + "}]", begins, false},
		"creating never takes too long":   {c + "}]\ndurations: {create: 10m, giveUp: 10m}", late, false},
		"creating may take too long":      {c + "}]\ndurations: {create: 5m..11m, giveUp: 10m}", late, true},
		"several clusters":                {c + "count: 2}]", all, true},
		"several clusters, one at once":   {c + "count: 2}]\nclustersAtOnce: 1", all, false},
		"several clusters and pools":      {c + "count: 2, pools: [{name: md, count: 2, replicas: 1}]}]", all + "; " + onePool, true},
		"several pools":                   {c + "pools: [{name: md, count: 2, replicas: 1}]}]", onePool, true},
		"several pools, one at once":      {c + "poolsAtOnce: 1, pools: [{name: md, count: 2, replicas: 1}]}]", onePool, false},
		"one pool":                        {c + "pools: [{name: md, replicas: 1}]}]", onePool, false},
		"a pool with one limit":           {c + "pools: [{name: md, replicas: 1, maxSurge: 1}]}]", limits, true},
		"a pool with both limits":         {c + "pools: [{name: md, replicas: 1, maxSurge: 1, maxUnavailable: 0}]}]", limits, false},
		"a policy that replaces":          {c + "pools: [{name: md, replicas: 1, policy: p}]}]\npolicies: [{name: p, strategy: Replace}]", replace, false},
		"a policy that leaves some out":   {c + "controlPlane: {policy: p}}]\npolicies: [{name: p, strategy: InPlace, drain: false, maxAttempts: 3, attemptTimeout: 30m}]", some, true},
		"a policy that leaves canary out": {c + "controlPlane: {policy: p}}]\npolicies: [{name: p, strategy: InPlace, maxInFlight: 2, drain: false, maxAttempts: 3, attemptTimeout: 30m}]", canary, true},
		"an outage is a failure as well":  {c + "}]\nfailures: {outageEvery: 1h, outageTakes: 1m}", "no failures are given, so nothing fails (failures)", false},
	} {
		got := translate(t, tt.text)
		if told := slices.Contains(got.Assumptions, tt.line); told != tt.want {
			t.Errorf("%s: %q", name, got.Assumptions)
		}
	}
}

// TestWithBegin: a begin is written down where windows depend on it.
func TestWithBegin(t *testing.T) {
	t.Parallel()
	gates := []scenario.Gate{{Name: "g"}}
	for _, tt := range []struct {
		file scenario.File
		want string
	}{
		{scenario.File{}, ""},
		{scenario.File{Gates: gates}, "2026-01-05T08:00:00Z"},
		{scenario.File{Gates: gates, Begin: "2026-03-01T21:00:00Z"}, "2026-03-01T21:00:00Z"},
	} {
		if got := tt.file.WithBegin().Begin; got != tt.want {
			t.Errorf("%+v begins at %q", tt.file, got)
		}
	}
}

// TestSurgesInPlaceTakeTheTimeOfNewMachines: so what is guessed of these counts.
func TestSurgesInPlaceTakeTheTimeOfNewMachines(t *testing.T) {
	t.Parallel()
	for limits, want := range map[string]bool{"": false, ", maxSurge: 0%": false, ", maxSurge: 1%": true} {
		got := translate(t, `
clusters: [{name: c, from: v1.29.4, to: v1.30.1, pools: [{name: md, replicas: 3, policy: p`+limits+`}], controlPlane: {policy: p}}]
policies: [{name: p, strategy: InPlace, fallback: Replace}]
`)
		if told := slices.Contains(got.Assumptions, "a new machine is Ready after p50=5m,p90=8m (durations.create)"); told != want {
			t.Errorf("%q: %q", limits, got.Assumptions)
		}
	}
}

package gate_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/windlass-dev/windlass/internal/gate"
	"github.com/windlass-dev/windlass/pkg/version"
)

var (
	monday  = time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)
	workers = gate.Step{Hook: gate.BeforeWorkersUpgrade, Version: version.MustParse("v1.32.4")}
	closed  = gate.Window{Location: time.UTC, Days: []time.Weekday{time.Saturday}, From: 22 * 60, To: 4 * 60}
	soon    = gate.Window{Location: time.UTC, From: 9*60 + 1, To: 10 * 60}
	opened  = gate.Window{Location: time.UTC, From: 8 * 60, To: 10 * 60}
	all     = []gate.Check{gate.NodesReady, gate.EtcdHealthy, gate.NoDeprecatedAPIs, gate.BudgetsCanBeSatisfied}
)

func minor(s string) version.Minor { return version.MustParse(s + ".0").Minor() }

func unknown(checks ...gate.Check) gate.Facts {
	facts := gate.Facts{Unknown: make(map[gate.Check]string)}
	for _, c := range checks {
		facts.Unknown[c] = "no answer"
	}
	return facts
}

func TestDecide(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		gates []gate.Gate
		facts gate.Facts
		now   time.Time
		want  []gate.Finding
		retry time.Duration
	}{
		"no gate":     {},
		"nothing due": {gates: []gate.Gate{{Name: "g"}}},
		"an invalid gate holds, whatever else it says": {
			gates: []gate.Gate{{Name: "g", Problem: "no such zone", NeedsApproval: true, Approved: true}},
			want:  []gate.Finding{{Gate: "g", Reason: gate.GateInvalid, Message: "cannot evaluate it, so it holds: no such zone"}}, retry: time.Minute,
		},
		"approval": {
			gates: []gate.Gate{{Name: "g", NeedsApproval: true, HowToApprove: "ask"}},
			want:  []gate.Finding{{Gate: "g", Reason: gate.NotApproved, Message: "needs approval: ask"}}, retry: time.Minute,
		},
		"approved": {gates: []gate.Gate{{Name: "g", NeedsApproval: true, Approved: true}}},
		"approval and window are said together, checks later": {
			gates: []gate.Gate{{Name: "g", NeedsApproval: true, Windows: []gate.Window{closed}, Checks: all}},
			facts: gate.Facts{EtcdProblem: "down"},
			want: []gate.Finding{
				{Gate: "g", Reason: gate.NotApproved, Message: "needs approval"},
				{Gate: "g", Reason: gate.OutsideWindows, Message: "waits for the window Sat 22:00-04:00 UTC, opens 2026-11-28T22:00:00Z"},
			}, retry: time.Minute,
		},
		"the window that opens next is named, and asked at": {
			gates: []gate.Gate{{Name: "g", Windows: []gate.Window{closed, soon}}}, now: monday.Add(15 * time.Second),
			want:  []gate.Finding{{Gate: "g", Reason: gate.OutsideWindows, Message: "waits for the window daily 09:01-10:00 UTC, opens 2026-11-23T09:01:00Z"}},
			retry: 45 * time.Second,
		},
		"one open window is enough": {gates: []gate.Gate{{Name: "g", Windows: []gate.Window{closed, opened, soon}}}},
		"what is not known holds": {
			gates: []gate.Gate{{Name: "g", Checks: []gate.Check{gate.NodesReady}}},
			facts: unknown(gate.NodesReady, gate.EtcdHealthy),
			want:  []gate.Finding{{Gate: "g", Reason: gate.CheckUnknown, Message: "cannot check NodesReady: no answer. Fix: if it can never be checked here, remove the check from the gate"}},
			retry: 30 * time.Second,
		},
		"a check of a later version": {
			gates: []gate.Gate{{Name: "g", Checks: []gate.Check{"MoonPhase"}}},
			want:  []gate.Finding{{Gate: "g", Reason: gate.GateInvalid, Message: `there is no check "MoonPhase" in this version of Windlass`}}, retry: 30 * time.Second,
		},
		"all is well": {
			gates: []gate.Gate{{Name: "g", Windows: []gate.Window{opened}, Checks: all}},
			facts: gate.Facts{
				Nodes:          []gate.Node{{Name: "a"}},
				DeprecatedAPIs: []gate.API{{Version: "v1", Resource: "later", Removed: minor("v1.33")}},
				Budgets:        []gate.Budget{{Name: "none expected"}, {Name: "unhealthy, but may become healthy", ExpectedPods: 3, DesiredHealthy: 2}},
			},
		},
		"each fault by its name, in order": {
			gates: []gate.Gate{{Name: "g", Checks: []gate.Check{gate.BudgetsCanBeSatisfied, gate.NoDeprecatedAPIs, gate.EtcdHealthy, gate.NodesReady}}},
			facts: gate.Facts{
				Nodes:       []gate.Node{{Name: "b", NotReady: "Ready is Unknown: NodeStatusUnknown"}, {Name: "a", NotReady: "Ready is False"}, {Name: "c"}},
				EtcdProblem: "member 2 is down",
				DeprecatedAPIs: []gate.API{
					{Group: "flowcontrol.apiserver.k8s.io", Version: "v1beta3", Resource: "flowschemas", Subresource: "status", Removed: minor("v1.32")},
					{Version: "v1", Resource: "old", Removed: minor("v1.25")},
				},
				Budgets: []gate.Budget{{Namespace: "x", Name: "all", ExpectedPods: 2, DesiredHealthy: 2}, {Namespace: "x", Name: "a", Problem: "stale"}},
			},
			want: []gate.Finding{
				{Gate: "g", Reason: gate.NodesNotReady, Message: "Nodes that are not Ready: a (Ready is False), b (Ready is Unknown: NodeStatusUnknown)"},
				{Gate: "g", Reason: gate.EtcdNotHealthy, Message: "etcd is not healthy: member 2 is down"},
				{Gate: "g", Reason: gate.DeprecatedAPIsInUse, Message: "APIs in use that are removed, as reported by the metric apiserver_requested_deprecated_apis: " +
					"flowschemas/status.v1beta3.flowcontrol.apiserver.k8s.io (removed in v1.32), old.v1 (removed in v1.25)"},
				{Gate: "g", Reason: gate.BudgetsNeverSatisfied, Message: "PodDisruptionBudgets that allow no eviction ever: x/a (stale), x/all"},
			}, retry: 30 * time.Second,
		},
		"gates by name; the soonest retry of all": {
			gates: []gate.Gate{{Name: "b", Checks: []gate.Check{gate.EtcdHealthy}}, {Name: "c"}, {Name: "a", NeedsApproval: true}},
			facts: gate.Facts{EtcdProblem: "down"},
			want: []gate.Finding{
				{Gate: "a", Reason: gate.NotApproved, Message: "needs approval"}, {Gate: "b", Reason: gate.EtcdNotHealthy, Message: "etcd is not healthy: down"},
			}, retry: 30 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := test.now
			if now.IsZero() {
				now = monday
			}
			got := gate.Decide(workers, test.gates, test.facts, now)
			if diff := cmp.Diff(gate.Verdict{Findings: test.want, RetryAfter: test.retry}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestMessage(t *testing.T) {
	t.Parallel()
	gates := []gate.Gate{{Name: "maintenance", Windows: []gate.Window{closed}}, {Name: "boss", NeedsApproval: true}}
	got := gate.Decide(workers, gates, gate.Facts{}, monday).Message(workers)
	want := "gate boss: before workers v1.32.4: needs approval; " +
		"gate maintenance: before workers v1.32.4: waits for the window Sat 22:00-04:00 UTC, opens 2026-11-28T22:00:00Z"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if later := gate.Decide(workers, gates, gate.Facts{}, monday.Add(time.Hour)).Message(workers); later != got {
		t.Errorf("an hour later it says %s", later)
	}
	var facts gate.Facts
	for i := range 1000 {
		facts.Nodes = append(facts.Nodes, gate.Node{Name: fmt.Sprintf("node-%04d-%s", i, strings.Repeat("x", 240)), NotReady: strings.Repeat("y", 300)})
	}
	verdict := gate.Decide(workers, []gate.Gate{{Name: "g", Checks: all}}, facts, monday)
	if got := verdict.Of("g"); len(got) > 1024 || !strings.Contains(got, "node-0000") {
		t.Errorf("%d bytes: %s", len(got), got)
	}
}

// Needs asks for just those facts that the verdict depends on.
func TestNeeds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		flags := rapid.Bool()
		var gates []gate.Gate
		for i := range rapid.IntRange(0, 4).Draw(t, "gates") {
			g := gate.Gate{Name: fmt.Sprint(i), NeedsApproval: flags.Draw(t, "needs approval"), Approved: flags.Draw(t, "approved"),
				Windows: rapid.SliceOfN(rapid.SampledFrom([]gate.Window{closed, opened, soon}), 0, 2).Draw(t, "windows"),
				Checks:  rapid.SliceOfNDistinct(rapid.SampledFrom(all), 0, 4, rapid.ID[gate.Check]).Draw(t, "checks")}
			if flags.Draw(t, "broken") {
				g.Problem = "broken"
			}
			gates = append(gates, g)
		}
		needed := gate.Needs(gates, monday)
		well := gate.Decide(workers, gates, gate.Facts{}, monday)
		for _, check := range all {
			blind := gate.Decide(workers, gates, unknown(check), monday)
			depends := len(blind.Findings) > len(well.Findings)
			asked := strings.Contains(fmt.Sprint(needed), string(check))
			if depends != asked {
				t.Fatalf("%s: the verdict depends on it: %t; it is asked for: %t", check, depends, asked)
			}
		}
		if (len(well.Findings) == 0) != (well.RetryAfter == 0) || well.RetryAfter > time.Minute {
			t.Fatalf("%d findings, and ask again after %s", len(well.Findings), well.RetryAfter)
		}
	})
}

func TestParseStepPattern(t *testing.T) {
	t.Parallel()
	step := func(hook gate.Hook, v string) gate.Step { return gate.Step{Hook: hook, Version: version.MustParse(v)} }
	for name, test := range map[string]struct {
		text    string
		step    gate.Step
		matches bool
	}{
		"a minor":                  {text: "workers v1.32", step: step(gate.BeforeWorkersUpgrade, "v1.32.9"), matches: true},
		"another minor":            {text: "workers v1.32", step: step(gate.BeforeWorkersUpgrade, "v1.33.0")},
		"another hook":             {text: "workers v1.32", step: step(gate.AfterWorkersUpgrade, "v1.32.9")},
		"a version":                {text: "before workers 1.32.4", step: step(gate.BeforeWorkersUpgrade, "v1.32.4"), matches: true},
		"another version":          {text: "before workers v1.32.4", step: step(gate.BeforeWorkersUpgrade, "v1.32.5")},
		"a version's builds":       {text: "After  Control plane v1.32.4", step: step(gate.AfterControlPlaneUpgrade, "v1.32.4+rke2r1"), matches: true},
		"a build":                  {text: "control plane v1.32.4+rke2r1", step: step(gate.BeforeControlPlaneUpgrade, "v1.32.4+rke2r1"), matches: true},
		"another build":            {text: "control plane v1.32.4+rke2r1", step: step(gate.BeforeControlPlaneUpgrade, "v1.32.4+rke2r2")},
		"a release, not its rc":    {text: "cluster v1.32.4", step: step(gate.BeforeClusterUpgrade, "v1.32.4-rc.1")},
		"the hook's name":          {text: "AfterClusterUpgrade v1.32", step: step(gate.AfterClusterUpgrade, "v1.32.0"), matches: true},
		"as a step calls itself":   {text: step(gate.AfterClusterUpgrade, "v1.32.0").String(), step: step(gate.AfterClusterUpgrade, "v1.32.0"), matches: true},
		"no version at all, never": {text: "workers v1.32", step: gate.Step{Hook: gate.BeforeWorkersUpgrade}},
	} {
		pattern, err := gate.ParseStepPattern(test.text)
		if err != nil || pattern.Matches(test.step) != test.matches {
			t.Errorf("%s: %q matches %s: %t, %v", name, test.text, test.step, pattern.Matches(test.step), err)
		}
	}
	for _, s := range []string{"", "workers", "v1.32", "sideways v1.32", "workers 1", "workers v1.32 now", "before v1.32", "workers latest"} {
		if got, err := gate.ParseStepPattern(s); err == nil {
			t.Errorf("%q was read as %+v", s, got)
		}
	}
}

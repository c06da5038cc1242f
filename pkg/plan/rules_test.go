package plan_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

func minorMatch(n int) plan.Match { return plan.MatchMinor(version.Minor{Major: 1, Minor: uint32(n)}) }

func TestStopRules(t *testing.T) {
	t.Parallel()
	offer := vs("v1.29.0 v1.30.0 v1.31.2 v1.31.5 v1.32.0 v1.33.0 v1.34.0")
	everyMinor := plan.StopRule{Groups: []string{"a"}, EveryMinor: true}
	at := func(m ...plan.Match) plan.StopRule { return plan.StopRule{Groups: []string{"a"}, At: m} }
	tests := map[string]struct {
		rules   []plan.StopRule
		floors  []plan.Floor
		cp      string
		groups  string
		target  string
		workers plan.Workers
		begun   bool
		want    string
	}{
		"no rule": {
			cp: "v1.29.0", groups: "a=v1.29.0 b=v1.29.0", target: "v1.33.0", workers: plan.WorkersPerGroup,
			want: "CP v1.30.0; CP v1.31.5; CP v1.32.0; a,b v1.29.0 -> v1.32.0; CP v1.33.0; a,b v1.32.0 -> v1.33.0",
		},
		"every minor, of one group": {
			rules: []plan.StopRule{everyMinor}, cp: "v1.29.0", groups: "a=v1.29.0 b=v1.29.0", target: "v1.32.0", workers: plan.WorkersPerGroup,
			want: "CP v1.30.0; a v1.29.0 -> v1.30.0; CP v1.31.5; a v1.30.0 -> v1.31.5; CP v1.32.0; a v1.31.5 -> v1.32.0; b v1.29.0 -> v1.32.0",
		},
		"shared by all": {
			rules: []plan.StopRule{everyMinor}, cp: "v1.29.0", groups: "a=v1.29.0 b=v1.29.0", target: "v1.31.5",
			want: "CP v1.30.0; a v1.29.0 -> v1.30.0; b v1.29.0 -> v1.30.0; CP v1.31.5; a,b v1.30.0 -> v1.31.5",
		},
		"a rule of a group that is not there": {
			rules: []plan.StopRule{{Groups: []string{"c"}, EveryMinor: true}}, cp: "v1.29.0", groups: "a=v1.29.0", target: "v1.31.5",
			want: "CP v1.30.0; CP v1.31.5; a v1.29.0 -> v1.31.5",
		},
		"the first rule decides": {
			rules: []plan.StopRule{at(minorMatch(30)), everyMinor}, cp: "v1.29.0", groups: "a=v1.29.0", target: "v1.32.0",
			want: "CP v1.30.0; a v1.29.0 -> v1.30.0; CP v1.31.5; CP v1.32.0; a v1.30.0 -> v1.32.0",
		},
		"skew adds stops": {
			rules: []plan.StopRule{at(minorMatch(30))}, cp: "v1.29.0", groups: "a=v1.29.0", target: "v1.34.0",
			want: "CP v1.30.0; a v1.29.0 -> v1.30.0; CP v1.31.5; CP v1.32.0; CP v1.33.0; a v1.30.0 -> v1.33.0; CP v1.34.0; a v1.33.0 -> v1.34.0",
		},
		"a minor is met at its last version": {
			rules: []plan.StopRule{at(minorMatch(31))}, floors: []plan.Floor{{Before: version.Minor{Major: 1, Minor: 32}, AtLeast: v("v1.31.5")}},
			cp: "v1.31.2", groups: "a=v1.30.0", target: "v1.32.0",
			want: "CP v1.31.5; a v1.30.0 -> v1.31.5; CP v1.32.0; a v1.31.5 -> v1.32.0",
		},
		"a minor is met by its older patches": {
			rules: []plan.StopRule{everyMinor}, cp: "v1.31.5", groups: "a=v1.31.2", target: "v1.32.0",
			want: "CP v1.32.0; a v1.31.2 -> v1.32.0",
		},
		"a version is met by itself alone": {
			rules: []plan.StopRule{at(plan.MatchVersion(v("v1.31.5")))}, cp: "v1.31.5", groups: "a=v1.31.2", target: "v1.32.0",
			want: "a v1.31.2 -> v1.31.5; CP v1.32.0; a v1.31.5 -> v1.32.0",
		},
		"in the middle of a stop": {
			rules: []plan.StopRule{everyMinor}, cp: "v1.30.0", groups: "b=v1.30.0 a=v1.29.0", target: "v1.31.5", begun: true,
			want: "a v1.29.0 -> v1.30.0; CP v1.31.5; b,a v1.30.0 -> v1.31.5",
		},
		"a version that is behind": {
			rules: []plan.StopRule{at(plan.MatchVersion(v("v1.31.2")))}, cp: "v1.31.5", groups: "a=v1.30.0", target: "v1.32.0",
			want: "CP v1.32.0; a v1.30.0 -> v1.32.0",
		},
		"a version of the target's minor": {
			rules: []plan.StopRule{at(plan.MatchVersion(v("v1.31.2")))}, cp: "v1.30.0", groups: "a=v1.30.0", target: "v1.31.5",
			want: "CP v1.31.5; a v1.30.0 -> v1.31.5",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := plan.Compute(plan.Request{
				Inventory: plan.Inventory{ControlPlane: v(tt.cp), Groups: groups(tt.groups), WorkersUpgrading: tt.begun}, Target: v(tt.target),
				Source: plan.Graph{Versions: offer, Floors: tt.floors, Stops: tt.rules}, Policy: plan.Policy{Workers: tt.workers},
			})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, sequence(p.Operations)); diff != "" {
				t.Errorf("operations (-want +got):\n%s", diff)
			}
		})
	}
}

// TestStopRuleOffRoute holds that no stop is skipped because the route goes past its version.
func TestStopRuleOffRoute(t *testing.T) {
	t.Parallel()
	_, err := plan.Compute(plan.Request{
		Inventory: plan.Inventory{ControlPlane: v("v1.30.0"), Groups: groups("a=v1.30.0")}, Target: v("v1.32.0"),
		Source: plan.Graph{
			Versions: vs("v1.31.2 v1.31.5 v1.32.0"), Stops: []plan.StopRule{{Groups: []string{"a"}, At: []plan.Match{plan.MatchVersion(v("v1.31.2"))}}},
		},
	})
	if refused := wantRule(t, err, plan.RuleNotOnRoute); refused.Item != plan.GroupItem("a") || refused.Version != v("v1.31.2") {
		t.Errorf("it is about %s %s", refused.Item, refused.Version)
	}
}

// TestStopRuleReasons holds that a plan explains the stops that rules make.
func TestStopRuleReasons(t *testing.T) {
	t.Parallel()
	request := plan.Request{
		Inventory: plan.Inventory{ControlPlane: v("v1.30.0"), Groups: groups("b=v1.30.0 a=v1.30.0")}, Target: v("v1.33.0"),
		Source: plan.Graph{Versions: vs("v1.31.0 v1.32.0 v1.33.0"), Stops: []plan.StopRule{
			{Groups: []string{"a"}, At: []plan.Match{minorMatch(31)}, Reason: "drivers"}, {Groups: []string{"b"}, EveryMinor: true, Reason: "audit"},
		}},
	}
	var lines []string
	for _, line := range plan.Explain(request).Lines {
		lines = append(lines, line.Text)
	}
	explained := strings.Join(lines, "\n")
	for _, want := range []string{
		"workers a v1.30.0 -> v1.31.0: the upgrade graph makes these workers stop at v1.31.0 (drivers)",
		"workers b v1.30.0 -> v1.31.0: the upgrade graph makes these workers stop at every minor (audit)",
		"workers a v1.31.0 -> v1.32.0: all workers share one list of stops, and the upgrade graph makes others stop at v1.32.0 (audit)",
	} {
		if !strings.Contains(explained, want) {
			t.Errorf("the explanation lacks %q:\n%s", want, explained)
		}
	}
}

// TestStopRulesFewest compares, for one group, the number of stops with that of the best of all legal sets of stops that
// hold what a rule demands.
func TestStopRulesFewest(t *testing.T) {
	t.Parallel()
	const from, to = 26, 32
	var offer []version.Version
	for m := from; m <= to; m++ {
		offer = append(offer, sweepVersion(m))
	}
	for kubelet := from - 3; kubelet <= from; kubelet++ {
		for demanded := range 1 << (to - from) {
			for limit := range uint32(4) {
				rule := plan.StopRule{Groups: []string{"a"}}
				for m := from; m < to; m++ {
					if demanded&(1<<(m-from)) != 0 {
						rule.At = append(rule.At, minorMatch(m))
					}
				}
				p, err := plan.Compute(plan.Request{
					Inventory: plan.Inventory{
						ControlPlane: sweepVersion(from), Groups: []plan.Group{{Name: "a", Version: sweepVersion(kubelet), MaxMinorStep: limit}},
					},
					Target: sweepVersion(to), Source: plan.Graph{Versions: offer, Stops: []plan.StopRule{rule}},
				})
				want := fewestWith(kubelet, from, to, demanded, int(limit))
				if got := len(p.Workers); err == nil && got != want || (err != nil) != (want == impossible) {
					t.Errorf("kubelet %d, demanded %b, limit %d: %v, %v, want %d stops", kubelet, demanded, limit, list(p.Workers), err, want)
				}
			}
		}
	}
}

// fewestWith tries every set of stops.
func fewestWith(kubelet, from, to, demanded, limit int) int {
	best := impossible
	for stops := range 1 << (to - from) {
		if required := demanded &^ (1<<max(0, kubelet-from+1) - 1); stops&required != required {
			continue
		}
		at, count, legal := kubelet, 0, true
		for m := from; m <= to && legal; m++ {
			legal = skewAllows(at, m)
			if m == to || stops&(1<<(m-from)) != 0 && at < m {
				legal = legal && (limit == 0 || m-at <= limit)
				at, count = m, count+1
			}
		}
		if legal {
			best = min(best, count)
		}
	}
	return best
}

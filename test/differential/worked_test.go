package differential

import (
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/windlass-dev/windlass/pkg/plan"
)

// worked is a case as people write it, and as a failing random input is printed.
type worked struct {
	controlPlane, target string
	// groups are VERSION[,maxMinorStep=N][,kind=MachinePool].
	groups   []string
	versions []string
	// response says that the lists below are the answer of an extension.
	response                              bool
	controlPlaneUpgrades, workersUpgrades []string
}

func (w worked) input(t *testing.T) input {
	t.Helper()
	in := input{controlPlane: parse(t, w.controlPlane), target: parse(t, w.target)}
	for _, text := range w.groups {
		at, options, _ := strings.Cut(text, ",")
		g := group{at: parse(t, at), pool: strings.Contains(options, "kind=MachinePool")}
		if _, limit, found := strings.Cut(options, "maxMinorStep="); found {
			limit, _, _ = strings.Cut(limit, ",")
			g.limit = number(t, limit)
		}
		in.groups = append(in.groups, g)
	}
	switch {
	case w.response:
		in.source, in.list, in.workers = fromResponse, parseAll(t, w.controlPlaneUpgrades), parseAll(t, w.workersUpgrades)
	case w.versions != nil:
		in.source, in.list = fromList, parseAll(t, w.versions)
	}
	return in
}

func parse(t *testing.T, s string) kver {
	t.Helper()
	k := kver{bare: !strings.HasPrefix(s, "v")}
	s, k.build, _ = strings.Cut(strings.TrimPrefix(s, "v"), "+")
	s, k.pre, _ = strings.Cut(s, "-")
	parts := strings.Split(s, ".")
	if len(parts) != 3 {
		t.Fatalf("%q is not a version", s)
	}
	k.major, k.minor, k.patch = number(t, parts[0]), number(t, parts[1]), number(t, parts[2])
	return k
}

func parseAll(t *testing.T, list []string) []kver {
	t.Helper()
	var ks []kver
	for _, s := range list {
		ks = append(ks, parse(t, s))
	}
	return ks
}

func number(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestWorkedCases holds the cases that people reason with: the proposal's tables, and one for every known difference. A random
// input that failed once becomes a case here.
func TestWorkedCases(t *testing.T) {
	const agrees, emptyPlan, refuses = "agrees", "empty plan", "refuses"
	minors := []string{"v1.29.0", "v1.30.3", "v1.31.2", "v1.32.1", "v1.33.0"}
	tests := []struct {
		name string
		worked
		wantControlPlane, wantWorkers []string
		wantRule                      plan.Rule
		// upstream is what its planner does, when it is not a plan of its own (wantUpstreamWorkers).
		upstream            string
		wantUpstreamWorkers []string
	}{
		{
			name:             "the proposal's chain",
			worked:           worked{controlPlane: "v1.29.0", target: "v1.33.0", groups: []string{"v1.29.0"}, versions: minors},
			wantControlPlane: minors[1:], wantWorkers: []string{"v1.32.1", "v1.33.0"},
			upstream: agrees,
		},
		{
			name: "six minors take two stops",
			worked: worked{controlPlane: "v1.30.0", target: "v1.36.0", groups: []string{"v1.30.0"},
				versions: []string{"v1.31.0", "v1.32.0", "v1.33.0", "v1.34.0", "v1.35.0", "v1.36.0"}},
			wantControlPlane: []string{"v1.31.0", "v1.32.0", "v1.33.0", "v1.34.0", "v1.35.0", "v1.36.0"},
			wantWorkers:      []string{"v1.33.0", "v1.36.0"},
			upstream:         agrees,
		},
		{
			name:             "the latest patch of each minor",
			worked:           worked{controlPlane: "v1.28.0", target: "v1.31.2", groups: []string{"v1.28.0"}, versions: []string{"v1.28.0", "v1.29.0", "v1.30.0", "v1.30.1", "v1.31.2"}},
			wantControlPlane: []string{"v1.29.0", "v1.30.1", "v1.31.2"}, wantWorkers: []string{"v1.31.2"},
			upstream: agrees,
		},
		{
			name:             "without a source: the next minor",
			worked:           worked{controlPlane: "v1.30.0", target: "v1.31.0", groups: []string{"v1.30.0"}},
			wantControlPlane: []string{"v1.31.0"}, wantWorkers: []string{"v1.31.0"},
			upstream: agrees,
		},
		{
			name:     "without a source: not two minors",
			worked:   worked{controlPlane: "v1.30.0", target: "v1.32.0", groups: []string{"v1.30.0"}},
			wantRule: plan.RuleNextMinorOnly, upstream: agrees,
		},
		{
			name: "stops that a response asks for",
			worked: worked{controlPlane: "v1.29.0", target: "v1.32.3", groups: []string{"v1.29.0"}, response: true,
				controlPlaneUpgrades: []string{"v1.30.0", "v1.31.0", "v1.32.3"}, workersUpgrades: []string{"v1.30.0", "v1.32.3"}},
			wantControlPlane: []string{"v1.30.0", "v1.31.0", "v1.32.3"}, wantWorkers: []string{"v1.30.0", "v1.32.3"},
			upstream: agrees,
		},
		{
			name: "a response that skips a minor",
			worked: worked{controlPlane: "v1.29.0", target: "v1.32.3", groups: []string{"v1.29.0"}, response: true,
				controlPlaneUpgrades: []string{"v1.30.0", "v1.32.3"}},
			wantRule: plan.RuleMinorSkipped, upstream: agrees,
		},
		{
			name: "a response that leaves out a stop",
			worked: worked{controlPlane: "v1.29.0", target: "v1.33.0", groups: []string{"v1.29.0"}, response: true,
				controlPlaneUpgrades: minors[1:], workersUpgrades: []string{"v1.33.0"}},
			wantRule: plan.RuleSkew, upstream: agrees,
		},
		{
			name:             "two groups share two stops",
			worked:           worked{controlPlane: "v1.29.0", target: "v1.33.0", groups: []string{"v1.28.0", "v1.29.0"}, versions: minors},
			wantControlPlane: minors[1:], wantWorkers: []string{"v1.31.2", "v1.33.0"},
			upstream: agrees,
		},
		{
			name:        "1: workers at a build that cannot be ordered",
			worked:      worked{controlPlane: "v1.31.2+b", target: "v1.31.2+b", groups: []string{"v1.31.2+a"}},
			wantWorkers: []string{"v1.31.2+b"}, upstream: refuses,
		},
		{
			name: "2: a build-only upgrade through kubernetesVersions",
			worked: worked{controlPlane: "v1.31.2+vmware.1", target: "v1.31.2+vmware.2", groups: []string{"v1.31.2+vmware.1"},
				versions: []string{"v1.31.2+vmware.1", "v1.31.2+vmware.2"}},
			wantControlPlane: []string{"v1.31.2+vmware.2"}, wantWorkers: []string{"v1.31.2+vmware.2"}, upstream: refuses,
		},
		{
			name:     "3: a minor missing during inference",
			worked:   worked{controlPlane: "v1.34.0", target: "v1.34.0", groups: []string{"v1.30.0"}},
			wantRule: plan.RuleSkew, upstream: emptyPlan,
		},
		{
			name:     "3: workers newer than the target",
			worked:   worked{controlPlane: "v1.30.0", target: "v1.30.0", groups: []string{"v1.31.0"}},
			wantRule: plan.RuleKubeletNewer, upstream: emptyPlan,
		},
		{
			name: "4: control plane done, workers sent elsewhere",
			worked: worked{controlPlane: "v1.33.0", target: "v1.33.0", groups: []string{"v1.30.0"}, response: true,
				workersUpgrades: []string{"v1.32.7", "v1.33.0"}},
			wantRule: plan.RuleNotOnRoute, wantUpstreamWorkers: []string{"v1.32.7", "v1.33.0"},
		},
		{
			name:     "5: another major",
			worked:   worked{controlPlane: "v1.35.0", target: "v2.36.0", groups: []string{"v1.35.0"}},
			wantRule: plan.RuleMajor, wantUpstreamWorkers: []string{"v2.36.0"},
		},
		{
			name: "6: kubelet v1.24 may lag two minors",
			worked: worked{controlPlane: "v1.24.0", target: "v1.27.0", groups: []string{"v1.24.0"},
				versions: []string{"v1.24.0", "v1.25.0", "v1.26.0", "v1.27.0"}},
			wantControlPlane: []string{"v1.25.0", "v1.26.0", "v1.27.0"}, wantWorkers: []string{"v1.26.0", "v1.27.0"},
			wantUpstreamWorkers: []string{"v1.27.0"},
		},
		{
			name: "7: versions without a v",
			worked: worked{controlPlane: "v1.29.0", target: "v1.31.0", groups: []string{"v1.29.0"}, response: true,
				controlPlaneUpgrades: []string{"1.30.0", "v1.31.0"}, workersUpgrades: []string{"v1.30.0", "v1.31.0"}},
			wantControlPlane: []string{"v1.30.0", "v1.31.0"}, wantWorkers: []string{"v1.30.0", "v1.31.0"}, upstream: refuses,
		},
		{
			name: "9: an update method that can do one minor",
			worked: worked{controlPlane: "v1.29.0", target: "v1.31.2", groups: []string{"v1.29.0,maxMinorStep=1"},
				versions: minors},
			wantControlPlane: []string{"v1.30.3", "v1.31.2"}, wantWorkers: []string{"v1.30.3", "v1.31.2"},
			wantUpstreamWorkers: []string{"v1.31.2"},
		},
		{
			name: "a group ahead of its control plane's build hides the one behind",
			worked: worked{controlPlane: "v1.28.2+a", target: "v1.28.2+b",
				groups: []string{"v1.28.2+b", "v1.28.2+a"}},
			wantControlPlane: []string{"v1.28.2+b"}, wantWorkers: []string{"v1.28.2+b"},
			upstream: emptyPlan,
		},
		{
			name:     "a downgrade between numbered builds",
			worked:   worked{controlPlane: "v1.28.2+rke2r10", target: "v1.28.2+rke2r2"},
			wantRule: plan.RuleDowngrade,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			in := test.input(t)
			if problem := examine(in, nil); problem != "" {
				t.Error(problem)
			}
			our, their := ours(in), upstream(in)
			if our.rule != test.wantRule {
				t.Fatalf("rule %q, want %q: %s", our.rule, test.wantRule, our)
			}
			if d := cmp.Diff(test.wantControlPlane, our.controlPlane, cmpopts.EquateEmpty()); d != "" {
				t.Errorf("control plane (-want +got):\n%s", d)
			}
			if d := cmp.Diff(test.wantWorkers, our.workers, cmpopts.EquateEmpty()); d != "" {
				t.Errorf("workers (-want +got):\n%s", d)
			}
			switch test.upstream {
			case agrees:
				if !our.equal(their) {
					t.Errorf("upstream differs: %s", their)
				}
			case refuses:
				if their.err == nil {
					t.Errorf("upstream has a plan: %s", their)
				}
			case emptyPlan:
				if their.err != nil || len(their.workers) > 0 {
					t.Errorf("upstream does not answer with an empty workers plan: %s", their)
				}
			default:
				if d := cmp.Diff(test.wantUpstreamWorkers, their.workers); d != "" {
					t.Errorf("upstream's workers (-want +got):\n%s", d)
				}
			}
		})
	}
}

// TestOwnPlans is difference 8: on the way to v1.33 a group at v1.31 need not stop at v1.32, though a slower group must.
func TestOwnPlans(t *testing.T) {
	in := worked{
		controlPlane: "v1.31.0", target: "v1.33.0", groups: []string{"v1.29.0", "v1.31.0"},
		versions: []string{"v1.32.1", "v1.33.0"},
	}.input(t)
	want := [][]string{{"v1.32.1", "v1.33.0"}, {"v1.33.0"}}
	if d := cmp.Diff(want, ours(in).groups); d != "" {
		t.Errorf("own plans (-want +got):\n%s", d)
	}
	if d := cmp.Diff(want[0], upstream(in).workers); d != "" {
		t.Errorf("upstream's one plan for both (-want +got):\n%s", d)
	}
}

package view

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/status"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

func controlPlaneStep(state status.StepState, from, to string) status.Step {
	return status.Step{State: state, Kind: plan.ControlPlaneUpgrade, From: version.MustParse(from), To: version.MustParse(to)}
}

func workersStep(state status.StepState, from, to string, groups ...string) status.Step {
	return status.Step{
		State: state, Kind: plan.WorkersUpgrade, GroupKind: plan.MachineDeployment, Groups: groups, From: version.MustParse(from), To: version.MustParse(to),
	}
}

// upgradingChain is in the middle, with all that there is to show.
func upgradingChain() *status.Chain {
	done := controlPlaneStep(status.StepDone, "v1.30.2", "v1.31.4")
	done.Began, done.Ended = ago(50*time.Minute), ago(46*time.Minute)
	begun := controlPlaneStep(status.StepDone, "v1.31.4", "v1.32.8")
	begun.Began = ago(40 * time.Minute)
	running := workersStep(status.StepRunning, "v1.31.4", "v1.32.8", "md-0", "a\x1bb")
	running.Updated, running.Machines, running.Began = 3, 12, ago(30*time.Minute)
	next := workersStep(status.StepNext, "v1.31.4", "v1.32.8", "md-1", "md-2", "md-3", "md-4", "md-5")
	next.Machines = 30
	return &status.Chain{
		State: status.ChainUpgrading, Engine: status.Windlass, From: version.MustParse("v1.30.2"), Target: version.MustParse("v1.33.1"), AtTarget: 1, Machines: 22, Began: ago(50 * time.Minute),
		Steps: []status.Step{done, begun, running, next, controlPlaneStep(status.StepNext, "v1.32.8", "v1.33.1")},
		Now:   "waits for MachineDeployments md-0, md-9 to v1.32.8", Reason: "WorkersUpgrading",
		ETA: status.Estimate{Least: 40 * time.Minute, Likely: 50 * time.Minute, Most: 70 * time.Minute, Since: ago(30 * time.Minute)},
		Condition: &status.Condition{
			Status: metav1.ConditionTrue, Reason: "ReconcileSucceeded", Message: "Cluster is upgrading\n  * b\x1b[31m", Since: ago(time.Hour),
		},
		Disagreement: "the condition says one thing, the objects say another, and this sentence is long enough to be wrapped in a terminal",
		EngineSeen:   ago(34 * time.Second), PlanMade: ago(50 * time.Minute),
		PlanChanges: []string{"workers: stop at v1.32.8, which was not planned (a\x1bb): others must"},
		NotKnown:    []string{"what Events do not tell any more", "why"},
	}
}

func heldChain() *status.Chain {
	c := upgradingChain()
	c.State, c.Engine, c.From, c.Began, c.Steps = status.ChainHeld, status.ClusterAPI, version.Version{}, time.Time{}, nil
	for i := range 40 {
		state := status.StepDone
		if i >= 20 {
			state = status.StepNext
		}
		c.Steps = append(c.Steps, controlPlaneStep(state, fmt.Sprintf("v1.%d.0", i), fmt.Sprintf("v1.%d.0", i+1)))
	}
	c.Disagreement, c.NotKnown, c.Condition, c.ETA.Since = "", nil, nil, time.Time{}
	c.EngineSeen, c.PlanMade, c.PlanChanges = ago(5*time.Second), time.Time{}, nil
	c.Holds = []status.Hold{
		{Kind: status.HeldByHook, By: "BeforeWorkersUpgrade", Message: "hook BeforeWorkersUpgrade for v1.32.8 is blocking: ask \x1b[31mthe team", Since: ago(3 * time.Hour), AtEarliest: true},
		{Kind: status.HeldByGate, By: "approval", Message: "needs approval: windlass approve prod", Since: ago(2 * time.Hour)},
		{Kind: status.HeldByRule, By: "the plan", Message: "there is no way"},
	}
	return c
}

func fleetGroups() []status.Group {
	groups := []status.Group{{Name: "control plane", Kind: "KubeadmControlPlane", Object: "cp", Machines: 3, Count: upToDate(3)}}
	for i := range 300 {
		g := status.Group{Name: fmt.Sprintf("md-%03d", i), Kind: "MachineDeployment", Machines: 100, Count: upToDate(100)}
		switch {
		case i >= 200:
			g.Count = make(map[status.State]int)
			g.Count[status.Waiting] = 100
		case i == 150:
			g.Policy = status.Policy{Name: "workers", Strategy: v1alpha1.ExternalUpdate, Fallback: v1alpha1.FallbackNone}
		}
		groups = append(groups, g)
	}
	return groups
}

func TestChainGolden(t *testing.T) {
	many := make([]string, 300)
	for i := range many {
		many[i] = fmt.Sprintf("md-%03d", i)
	}
	fleet := upgradingChain()
	fleet.AtTarget, fleet.Machines = 0, 30003
	fleet.Steps = []status.Step{workersStep(status.StepNext, "v1.31.4", "v1.32.8", many...)}
	for name, r := range map[string]status.Report{
		"upgrading": {Namespace: "team-a", Cluster: "prod", Chain: upgradingChain(), Groups: busyReport().Groups[:1]},
		"held":      {Namespace: "team-a", Cluster: "prod", Chain: heldChain()},
		"many":      {Namespace: "team-a", Cluster: "prod", Chain: fleet, Groups: fleetGroups()},
	} {
		for _, f := range StatusFormats() {
			if name == "many" && f != Table {
				continue
			}
			t.Run(name+"/"+string(f), func(t *testing.T) {
				var got strings.Builder
				if err := WriteStatus(&got, f, narrow, r, statusNow); err != nil {
					t.Fatalf("WriteStatus: %v", err)
				}
				golden(t, "status-upgrade-"+name+"."+string(f), got.String())
				checkText(t, f, got.String())
			})
		}
	}
}

// TestBlockedVerdict checks that the verdict names what a person must act on.
func TestBlockedVerdict(t *testing.T) {
	blocked := []status.Blocked{
		{Kind: "Machine", Name: "m", Group: "a", Reason: v1alpha1.UpdateFailedReason},
		{Kind: "MachineDeployment", Name: "a-1", Group: "a", Reason: v1alpha1.UpdateFailedReason},
		{Kind: "MachineDeployment", Name: "b-1", Group: "b", Reason: v1alpha1.NotCoveredReason},
	}
	to := version.MustParse("v1.33.1")
	for _, test := range []struct {
		state status.ChainState
		want  string
	}{
		{status.ChainUpgrading, "The upgrade to v1.33.1 is blocked in a (UpdateFailed), b (NotCovered). " +
			"It is run by Cluster API. There are no machines."},
		{status.ChainUpToDate, "No upgrade is under way: everything is at v1.33.1. " +
			"Updates are blocked in a (UpdateFailed), b (NotCovered). There are no machines."},
	} {
		chain := status.Chain{State: test.state, Target: to, Engine: status.ClusterAPI}
		r := status.Report{Chain: &chain, Blocked: blocked}
		if got := statusVerdict(r, statusNow); got != test.want {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
}

func TestTreeWithoutPlan(t *testing.T) {
	steps := []status.Step{{State: status.StepDone}, {State: status.StepRunning}}
	for _, test := range []struct {
		chain status.Chain
		want  string
		total int
	}{
		{status.Chain{Steps: steps}, "1 of 2 steps", 2},
		{status.Chain{Steps: steps, Reason: "NoPath"}, "1 step done", 0},
		{status.Chain{Steps: steps, Reason: "NoSource"}, "1 step done", 0},
	} {
		got := clusterBranch(status.Report{Chain: &test.chain}, statusNow)
		if got.text != test.want || got.total != test.total {
			t.Errorf("%q with a bar of %d, want %q and %d", got.text, got.total, test.want, test.total)
		}
	}
}

func TestChainVerdict(t *testing.T) {
	to := version.MustParse("v1.33.1")
	held := func(holds ...status.Hold) status.Chain {
		return status.Chain{
			State: status.ChainHeld, Target: to, Engine: status.Windlass, Holds: holds,
			Steps: []status.Step{{State: status.StepDone}, {State: status.StepNext}},
		}
	}
	for _, test := range []struct {
		chain status.Chain
		want  string
	}{
		{status.Chain{State: status.ChainUnknown, Problem: "it is latest"}, "The state of the upgrade is unknown: it is latest."},
		{status.Chain{State: status.ChainUpToDate, Target: to}, "No upgrade is under way: everything is at v1.33.1."},
		{status.Chain{State: status.ChainPaused, Now: "the Cluster is paused"}, "No upgrade is under way: the Cluster is paused."},
		{
			status.Chain{
				State: status.ChainPaused, Now: "the Cluster is paused", Target: to, Engine: status.Windlass,
				Steps: []status.Step{{State: status.StepRunning}},
			},
			"The upgrade to v1.33.1 is paused; 0 of 1 step is done. It is run by windlass manager.",
		},
		{
			status.Chain{State: status.ChainUpgrading, Target: to, Engine: status.ClusterAPI},
			"The upgrade to v1.33.1 is under way. It is run by Cluster API.",
		},
		{
			held(status.Hold{Kind: status.HeldByHook, By: "AfterClusterUpgrade"}, status.Hold{Kind: status.HeldByGate, By: "approval"}),
			"The upgrade to v1.33.1 is held by UpgradeGate approval; 1 of 2 steps are done. It is run by windlass manager.",
		},
		{
			held(status.Hold{Kind: status.HeldByHook, By: "AfterClusterUpgrade"}),
			"The upgrade to v1.33.1 is held by hook AfterClusterUpgrade; 1 of 2 steps are done. It is run by windlass manager.",
		},
		{
			held(status.Hold{Kind: status.HeldByAnnotation, By: "a/b"}),
			"The upgrade to v1.33.1 is held by annotation a/b; 1 of 2 steps are done. It is run by windlass manager.",
		},
		{
			status.Chain{
				State: status.ChainHeld, Target: to, Engine: status.Windlass, Reason: "NoPath",
				Steps: []status.Step{{State: status.StepDone}, {State: status.StepRunning}},
				Holds: []status.Hold{{Kind: status.HeldByRule, By: "the plan"}},
			},
			"The upgrade to v1.33.1 is held by the plan; 1 step is done. It is run by windlass manager.",
		},
		{
			held(),
			"The upgrade to v1.33.1 is held by something that the objects do not show; 1 of 2 steps are done. It is run by windlass manager.",
		},
	} {
		if got := chainVerdict(&test.chain, "", statusNow); got != test.want {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
}

// TestTreeGolden checks what a person who follows an upgrade sees: every line fits the terminal, and nothing acts on it.
func TestTreeGolden(t *testing.T) {
	busy := busyReport()
	busy.Chain = upgradingChain()
	held := busyReport()
	held.Chain = heldChain()
	fleet := status.Report{Namespace: "team-a", Cluster: "prod", Chain: upgradingChain(), Groups: fleetGroups()}
	fleet.Chain.AtTarget, fleet.Chain.Machines = 0, 30003
	for i := range 12 {
		fleet.Updates = append(fleet.Updates, status.Update{
			Machine: fmt.Sprintf("md-200-%d", i), Group: "md-200", State: status.Updating, Phase: inplace.Draining,
		})
	}
	marked := markedReport()
	marked.Groups = busy.Groups
	for name, r := range map[string]status.Report{"busy": busy, "held": held, "fleet": fleet, "annotated": marked} {
		for _, s := range []Screen{narrow, {Width: 50}} {
			t.Run(fmt.Sprintf("%s/%d", name, s.Width), func(t *testing.T) {
				var got strings.Builder
				if err := WriteTree(&got, s, r, statusNow); err != nil {
					t.Fatalf("WriteTree: %v", err)
				}
				golden(t, fmt.Sprintf("tree-%s-%d.txt", name, s.Width), got.String())
				checkText(t, "tree", got.String())
				for line := range strings.Lines(got.String()) {
					if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > s.Width {
						t.Errorf("a line of %d characters: %s", n, line)
					}
				}
			})
		}
	}
}

func TestMachinesVerdict(t *testing.T) {
	failed := upToDate(1)
	failed[status.Failed] = 1
	for _, test := range []struct {
		groups []status.Group
		want   string
	}{
		{nil, "There are no machines."},
		{[]status.Group{{Missing: 2}}, "No machine exists; 2 missing."},
		{[]status.Group{{Machines: 1, Count: upToDate(1)}}, "All machines are up to date (1)."},
		{[]status.Group{{Machines: 2, Count: upToDate(2)}, {Machines: 1, Count: upToDate(1)}}, "All machines are up to date (3)."},
		{[]status.Group{{Machines: 2, Count: failed}, {Missing: 1}}, "1 of 2 machines are up to date; 1 failed; 1 missing."},
	} {
		if got := machinesVerdict(status.Report{Groups: test.groups}); got != test.want {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
}

func TestDescribeEstimate(t *testing.T) {
	for _, test := range []struct {
		estimate status.Estimate
		want     string
	}{
		{status.Estimate{}, ""},
		{status.Estimate{Unknown: "no data"}, "not known: no data"},
		{status.Estimate{Least: 3 * time.Minute, Most: 5 * time.Minute}, "3m0s to 5m0s after the gate opens, at the present speed"},
		{status.Estimate{Least: 3 * time.Minute, Most: 3 * time.Minute, Since: statusNow}, "in about 3m0s, at the present speed"},
		{status.Estimate{Least: 3 * time.Minute, Most: 5 * time.Minute, Since: ago(4 * time.Minute)}, "in 0s to 1m0s, at the present speed"},
		{status.Estimate{Least: 3 * time.Minute, Most: 5 * time.Minute, Since: ago(time.Hour)}, "55m ago, at the present speed"},
	} {
		if got := describeEstimate(test.estimate, statusNow); got != test.want {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
}

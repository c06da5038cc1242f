package whatif

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/simulate/fleet"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// TestReasonsAreNotThoseOfMachines: runs in which the same happens to different machines are counted together, and the machine of the first is an example.
func TestReasonsAreNotThoseOfMachines(t *testing.T) {
	t.Parallel()
	simulate := func(_ context.Context, _ fleet.Config, seed uint64) (fleet.Run, error) {
		run := fleet.Run{Outcome: fleet.Stuck, Groups: []fleet.GroupRun{{Failed: 3, GaveUp: int(seed)}, {Failed: 1}}}
		switch {
		case seed == 4:
			run.Why = "prod: waits for approval"
		case seed == 5:
			run.Outcome, run.Groups = fleet.Completed, nil
		case seed%2 == 0:
			run.Why = fmt.Sprintf("prod: machine prod/control plane/%d: the update failed 3 times: disk full", seed)
		default:
			run.Why = fmt.Sprintf("test: machine test/w/%d: the update failed 3 times: disk full", seed)
		}
		return run, nil
	}
	report, err := Compute(t.Context(), Request{Config: fleetOf(), Runs: 6, Seed: 2, Simulate: simulate})
	if err != nil {
		t.Fatalf("Compute: %v", err)
	}
	want := []Unfinished{
		{Outcome: "Stuck", Why: "the update failed 3 times: disk full", Machine: "prod/control plane/2", Runs: 4, Seed: 2},
		{Outcome: "Stuck", Why: "prod: waits for approval", Runs: 1, Seed: 4},
	}
	if diff := cmp.Diff(want, report.Variants[0].Unfinished); diff != "" {
		t.Errorf("reasons:\n%s", diff)
	}
	// Means are over all runs, though the median run is the only one that was completed: 5 times 4 attempts, and 2+3+4+6+7 machines.
	if diff := cmp.Diff(PerRun{Failed: 3.33, GaveUp: 3.67}, report.Variants[0].PerRun); diff != "" {
		t.Errorf("per run:\n%s", diff)
	}
}

func TestSplitWhy(t *testing.T) {
	t.Parallel()
	for why, want := range map[string][2]string{
		"":                                   {"", ""},
		"a: machine a/b/12: no: space":       {"no: space", "a/b/12"},
		"a: machine a/control plane/1: gone": {"gone", "a/control plane/1"},
		"a: machine b/c/1: of another":       {"a: machine b/c/1: of another", ""},
		"a: machine a/b/12":                  {"a: machine a/b/12", ""},
		"a: machine a/b/12: ":                {"a: machine a/b/12: ", ""},
		"a: waits for approval":              {"a: waits for approval", ""},
	} {
		if message, machine := splitWhy(why); message != want[0] || machine != want[1] {
			t.Errorf("%q is %q about %q, want %q", why, message, machine, want)
		}
	}
}

// TestRealReasonsNameTheirMachine: what the simulator says of a machine that waits for a person is split, not only what this test thinks it says.
func TestRealReasonsNameTheirMachine(t *testing.T) {
	t.Parallel()
	failing := fleet.Update{
		InPlace: true, PolicyName: "keep", Steps: []inplace.Step{{Updater: "kubelet", SetsVersion: true}},
		Policy: policy.Policy{MaxAttempts: 1, AttemptTimeout: time.Hour}, Timings: fleet.Timings{UpdateFails: 1},
	}
	from, to := version.MustParse("v1.30.0"), version.MustParse("v1.31.0")
	c := fleet.Config{Clusters: []fleet.Cluster{{
		Name: "ran", Target: to, Source: plan.VersionList{from, to}, ControlPlane: fleet.ControlPlane{Version: from, Replicas: 3, MaxSurge: 1},
		Pools: []fleet.Pool{{Name: "site", Version: from, Replicas: 4, MaxUnavailable: 1, Update: failing}},
	}}}
	run, err := fleet.Simulate(t.Context(), c, 1)
	if err != nil || run.Outcome != fleet.Stuck {
		t.Fatalf("%s, %v", run.Outcome, err)
	}
	if message, machine := splitWhy(run.Why); !strings.HasPrefix(machine, "ran/site/") || strings.Contains(message, "ran/") {
		t.Errorf("%q is split into %q and %q", run.Why, message, machine)
	}
}

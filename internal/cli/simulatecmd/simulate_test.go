package simulatecmd

import (
	"bytes"
	"errors"
	"path/filepath"
	"testing"

	"github.com/windlass-dev/windlass/internal/app"
	"github.com/windlass-dev/windlass/internal/cli"
	"github.com/windlass-dev/windlass/internal/simulate/scenario"
	"github.com/windlass-dev/windlass/internal/simulate/whatif"
)

// TestTheBudgetIsTheManagers: what a scenario leaves out is what the manager's flags allow.
func TestTheBudgetIsTheManagers(t *testing.T) {
	t.Parallel()
	o, b := app.DefaultManagerOptions(), scenario.DefaultBudget()
	if float64(o.QPS) != b.QPS || o.Burst != b.Burst {
		t.Errorf("the manager has %g and %d, a scenario %g and %d", o.QPS, o.Burst, b.QPS, b.Burst)
	}
}

// TestSampleScenarios: the examples are scenarios, and their upgrades have plans.
func TestSampleScenarios(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]int{"telco.yaml": 30_030, "edge.yaml": 1_300, "bare-metal.yaml": 43} {
		f, err := readScenario(filepath.Join("..", "..", "..", "config", "samples", "simulate", name), nil)
		if err != nil {
			t.Fatal(err)
		}
		s, err := scenario.Translate(f, scenario.Options{File: name})
		if err != nil {
			t.Fatal(err)
		}
		machines := 0
		for _, c := range s.Config.Clusters {
			machines += c.ControlPlane.Replicas
			for _, p := range c.Pools {
				machines += p.Replicas
			}
		}
		if err := checkPlans(s); err != nil || machines != want {
			t.Errorf("%s: %d machines, not %d; %v", name, machines, want, err)
		}
	}
}

func TestSimulateExitCodes(t *testing.T) {
	t.Parallel()
	good, stuck, givenUp, violated := whatif.Outcomes{Completed: 3}, whatif.Outcomes{Completed: 2, Stuck: 1}, whatif.Outcomes{GivenUp: 1}, whatif.Outcomes{Completed: 2, Violated: 1}
	for name, tt := range map[string]struct {
		variants []whatif.Outcomes
		want     cli.ExitCode
	}{
		"all completed":                     {variants: []whatif.Outcomes{good, good}, want: cli.ExitOK},
		"one is stuck":                      {variants: []whatif.Outcomes{stuck}, want: cli.ExitRefused},
		"given up":                          {variants: []whatif.Outcomes{givenUp}, want: cli.ExitRefused},
		"another way is stuck":              {variants: []whatif.Outcomes{good, stuck}, want: cli.ExitOK},
		"a violation":                       {variants: []whatif.Outcomes{violated}, want: cli.ExitUnsafe},
		"a violation of another way counts": {variants: []whatif.Outcomes{stuck, violated}, want: cli.ExitUnsafe},
	} {
		var r whatif.Report
		for _, o := range tt.variants {
			r.Variants = append(r.Variants, whatif.Result{Outcomes: o})
		}
		got := cli.ExitOK
		if err := outcomeOf(r); err != nil {
			coded, ok := errors.AsType[*cli.ExitError](err)
			if !ok || !coded.Silent {
				t.Errorf("%s: the error is %v", name, err)
				continue
			}
			got = coded.Code
		}
		if got != tt.want {
			t.Errorf("%s: exit code %d, not %d", name, got, tt.want)
		}
	}
}

// TestProgressIsForTerminals: whoever keeps standard error in a file wants no counter in it.
func TestProgressIsForTerminals(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	p := newProgress(&b)
	p.show(1, 2)
	p.clear()
	if b.Len() > 0 {
		t.Errorf("it says %q", b.String())
	}
}

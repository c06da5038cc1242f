package agree_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/internal/simulate/whatif"
	"github.com/windlass-dev/windlass/lab/test/e2e/internal/agree"
)

func happened() agree.Upgrade {
	return agree.Upgrade{
		Operations: []string{"control plane v1.30.0", "control plane v1.31.0", "a v1.31.0", "b v1.31.0"},
		Began:      []time.Duration{0, 30 * time.Second, 60 * time.Second, 80 * time.Second}, Took: 100 * time.Second,
	}
}

func TestCompare(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change   func(*agree.Upgrade)
		problems int
	}{
		"the same":           {change: func(*agree.Upgrade) {}},
		"20 % longer":        {change: func(u *agree.Upgrade) { u.Took = 120 * time.Second }},
		"20 % shorter":       {change: func(u *agree.Upgrade) { u.Took = 80 * time.Second }},
		"a bit longer":       {change: func(u *agree.Upgrade) { u.Took = 121 * time.Second }, problems: 1},
		"a bit shorter":      {change: func(u *agree.Upgrade) { u.Took = 79 * time.Second }, problems: 1},
		"twice as long":      {change: func(u *agree.Upgrade) { u.Took *= 2 }, problems: 1},
		"another order":      {change: func(u *agree.Upgrade) { slices.Reverse(u.Operations[2:]) }, problems: 1},
		"one less":           {change: func(u *agree.Upgrade) { u.Operations = u.Operations[1:] }, problems: 1},
		"another version":    {change: func(u *agree.Upgrade) { u.Operations[2] = "a v1.30.0" }, problems: 1},
		"nothing simulated":  {change: func(u *agree.Upgrade) { *u = agree.Upgrade{} }, problems: 2},
		"wrong in both ways": {change: func(u *agree.Upgrade) { slices.Reverse(u.Operations); u.Took /= 2 }, problems: 2},
	} {
		simulated := happened()
		tt.change(&simulated)
		if problems := agree.Compare(happened(), simulated); len(problems) != tt.problems {
			t.Errorf("%s: %d problems, want %d: %q", name, len(problems), tt.problems, problems)
		}
	}
}

// report is one of a simulation whose rows are by group, not by time.
func report() whatif.Report {
	row := func(name string, bars ...whatif.Bar) whatif.Row { return whatif.Row{Name: name, Groups: 1, Bars: bars} }
	return whatif.Report{Variants: []whatif.Result{{
		Duration: &whatif.Durations{P50Seconds: 100},
		Median: whatif.Median{Charts: whatif.Charts{Timeline: []whatif.Row{
			row("control plane", whatif.Bar{To: "v1.30.0"}, whatif.Bar{To: "v1.31.0", BeganSeconds: 30}),
			row("b", whatif.Bar{To: "v1.31.0", BeganSeconds: 80}), row("a", whatif.Bar{To: "v1.31.0", BeganSeconds: 60}),
		}}},
	}}}
}

func TestReadReport(t *testing.T) {
	t.Parallel()
	read := func(r whatif.Report) (agree.Upgrade, error) {
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		return agree.ReadReport(text)
	}
	got, err := read(report())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(happened(), got); diff != "" {
		t.Errorf("another upgrade (-want +got):\n%s", diff)
	}
	shared, unfinished := report(), report()
	shared.Variants[0].Median.Charts.Timeline[1].Groups = 2
	unfinished.Variants[0].Duration = nil
	for name, r := range map[string]whatif.Report{"groups share a row": shared, "no run was completed": unfinished, "nothing": {}} {
		if u, err := read(r); err == nil {
			t.Errorf("%s: %+v, want an error", name, u)
		}
	}
	if _, err := agree.ReadReport([]byte("{")); err == nil {
		t.Error("a broken report is read")
	}
}

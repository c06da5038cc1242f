package agree_test

import (
	"encoding/json"
	"slices"
	"strings"
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
		change            func(*agree.Upgrade)
		operations, takes bool
	}{
		"the same":           {change: func(*agree.Upgrade) {}},
		"20 % longer":        {change: func(u *agree.Upgrade) { u.Took = 120 * time.Second }},
		"20 % shorter":       {change: func(u *agree.Upgrade) { u.Took = 80 * time.Second }},
		"a bit longer":       {change: func(u *agree.Upgrade) { u.Took = 121 * time.Second }, takes: true},
		"a bit shorter":      {change: func(u *agree.Upgrade) { u.Took = 79 * time.Second }, takes: true},
		"twice as long":      {change: func(u *agree.Upgrade) { u.Took *= 2 }, takes: true},
		"another order":      {change: func(u *agree.Upgrade) { slices.Reverse(u.Operations[2:]) }, operations: true},
		"one less":           {change: func(u *agree.Upgrade) { u.Operations = u.Operations[1:] }, operations: true},
		"the last is not":    {change: func(u *agree.Upgrade) { u.Operations = u.Operations[:3] }, operations: true},
		"one more":           {change: func(u *agree.Upgrade) { u.Operations = append(u.Operations, "c v1.31.0") }, operations: true},
		"one twice":          {change: func(u *agree.Upgrade) { u.Operations[3] = "a v1.31.0" }, operations: true},
		"another version":    {change: func(u *agree.Upgrade) { u.Operations[2] = "a v1.30.0" }, operations: true},
		"nothing simulated":  {change: func(u *agree.Upgrade) { *u = agree.Upgrade{} }, operations: true, takes: true},
		"wrong in both ways": {change: func(u *agree.Upgrade) { slices.Reverse(u.Operations); u.Took /= 2 }, operations: true, takes: true},
	} {
		simulated := happened()
		tt.change(&simulated)
		if diff := agree.CompareOperations(happened(), simulated); (diff != "") != tt.operations {
			t.Errorf("%s: other operations: %v, want %v: %s", name, diff != "", tt.operations, diff)
		}
		if off := agree.CompareDurations(happened(), simulated); (off != "") != tt.takes {
			t.Errorf("%s: another duration: %v, want %v: %s", name, off != "", tt.takes, off)
		}
	}
}

// TestCompareTogether has operations that begin 0.6 s after each other: neighbors have no order, but
// the first is before the third.
func TestCompareTogether(t *testing.T) {
	t.Parallel()
	happened := agree.Upgrade{
		Operations: []string{"a", "b", "c", "d"},
		Began:      []time.Duration{0, 600 * time.Millisecond, 1200 * time.Millisecond, 10 * time.Second},
	}
	for operations, same := range map[string]bool{
		"a b c d": true, "b a c d": true, "a c b d": true,
		"b c a d": false, "c a b d": false, "c b a d": false, "a b d c": false,
	} {
		simulated := agree.Upgrade{Operations: strings.Fields(operations)}
		if diff := agree.CompareOperations(happened, simulated); (diff == "") != same {
			t.Errorf("%s agrees: %v, want %v: %s", operations, diff == "", same, diff)
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

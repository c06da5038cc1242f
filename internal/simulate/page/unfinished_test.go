package page

import (
	"strings"
	"testing"

	"github.com/windlass-dev/windlass/internal/simulate/whatif"
)

// unfinishedReport is one of 300 runs, of which so many were completed; there is a reason for 250 of the others.
func unfinishedReport(completed int) whatif.Report {
	v := whatif.Result{
		Name: "as configured", Outcomes: whatif.Outcomes{Completed: completed, Stuck: 300 - completed}, PerRun: whatif.PerRun{Failed: 5.25, GaveUp: 1.5},
		Unfinished: []whatif.Unfinished{{Outcome: "Stuck", Why: "disk full", Machine: "a/b/12", Runs: 250, Seed: 9}},
		Median:     whatif.Median{Outcome: "Stuck", Groups: []whatif.Group{{Cluster: "a", Group: "b", Machines: 3}}},
	}
	if completed > 0 {
		v.Median.Outcome, v.Duration = "Completed", &whatif.Durations{Runs: completed, P50Seconds: 60}
	}
	return whatif.Report{Inputs: whatif.Inputs{Clusters: 1, Runs: 300}, Variants: []whatif.Result{v}}
}

// oneLine makes a text independent of where its lines are broken.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// TestFewRunsCompleted: numbers of completed runs only are not shown as if they were to be expected, and all runs are accounted for.
func TestFewRunsCompleted(t *testing.T) {
	t.Parallel()
	for completed, want := range map[int]string{
		0:   "none of 300 runs was completed; all numbers are of the first. Over all runs: 300 stuck; per run, 5.25 attempts failed and 1.50 machines gave up (mean).",
		1:   "only 1 of 300 runs was completed; all numbers are of this one. Over all runs: 299 stuck;",
		6:   "only 6 of 300 runs were completed; durations are of these, and all else is of one of them. Over all runs: 294 stuck;",
		149: "only 149 of 300 runs were completed;",
		150: "",
	} {
		r := unfinishedReport(completed)
		for form, text := range map[string]string{"table": oneLine(render(t, narrow, r)), "page": oneLine(render(t, HTML, r))} {
			if want == "" && strings.Contains(text, "Over all runs") || !strings.Contains(text, want) {
				t.Errorf("%d completed: the %s has no %q:\n%s", completed, form, want, text)
			}
		}
	}
	if got, want := computeHeadlines(whatif.Inputs{Runs: 300}, unfinishedReport(6).Variants[0])[0].Note, "median of only 6 of 300\u00a0runs"; got != want {
		t.Errorf("the headline's note is %q, want %q", got, want)
	}
}

func TestReasons(t *testing.T) {
	t.Parallel()
	for completed, others := range map[int]string{6: "and 44 more runs for other reasons", 49: "and 1 more run for other reasons", 50: ""} {
		r := unfinishedReport(completed)
		for form, text := range map[string]string{"table": oneLine(render(t, narrow, r)), "page": oneLine(render(t, HTML, r))} {
			if !strings.Contains(text, "250 runs got stuck, the first with seed 9 at machine a/b/12: disk full") || !strings.Contains(text, others) {
				t.Errorf("%d completed: the %s does not say why, or not %q:\n%s", completed, form, others, text)
			}
			if others == "" && strings.Contains(text, "other reasons") {
				t.Errorf("%d completed: the %s has other reasons:\n%s", completed, form, text)
			}
		}
	}
}

// TestNothingToShow: there is no table of zeros, and no heading above nothing.
func TestNothingToShow(t *testing.T) {
	t.Parallel()
	const nothing, where, down = "nothing had to be done", "Where the time goes", "down for the longest"
	for name, tt := range map[string]struct {
		change      func(*whatif.Median)
		has, misses []string
	}{
		"nothing to do":   {func(*whatif.Median) {}, []string{where, nothing}, []string{down}},
		"stuck at once":   {func(m *whatif.Median) { m.Outcome = "Stuck" }, nil, []string{where, nothing, down}},
		"done in no time": {func(m *whatif.Median) { m.Updated = 3 }, nil, []string{where, nothing, down}},
		"something":       {func(m *whatif.Median) { m.CriticalPath.Sentence, m.Groups[0].DownSeconds = "all of it", 60 }, []string{where, "all of it", down}, []string{nothing}},
	} {
		r := unfinishedReport(300)
		r.Variants[0].Unfinished = nil
		tt.change(&r.Variants[0].Median)
		for form, text := range map[string]string{"table": oneLine(render(t, narrow, r)), "page": oneLine(render(t, HTML, r))} {
			for _, s := range tt.has {
				if !strings.Contains(text, s) {
					t.Errorf("%s: the %s has no %q:\n%s", name, form, s, text)
				}
			}
			for _, s := range tt.misses {
				if strings.Contains(text, s) {
					t.Errorf("%s: the %s has %q:\n%s", name, form, s, text)
				}
			}
		}
	}
}

package page

import (
	"fmt"

	"github.com/windlass-dev/windlass/internal/htmlpage"
	"github.com/windlass-dev/windlass/internal/simulate/whatif"
)

// describeReasons says why runs were not completed, and for how many it does not.
func describeReasons(v whatif.Result) []string {
	said := make([]string, 0, len(v.Unfinished)+1)
	others := v.Outcomes.Stuck + v.Outcomes.GivenUp + v.Outcomes.Violated
	for _, u := range v.Unfinished {
		said = append(said, describeReason(u))
		others -= u.Runs
	}
	if len(said) > 0 && others > 0 {
		said = append(said, "and "+htmlpage.Count(others, "more run")+" for other reasons")
	}
	return said
}

func describeReason(u whatif.Unfinished) string {
	why := htmlpage.Words(u.Why)
	if why == "" {
		why = "nothing is known of why"
	}
	at := ""
	if u.Machine != "" {
		at = " at machine " + htmlpage.Name(u.Machine)
	}
	return fmt.Sprintf("%s %s, the first with seed %d%s: %s", htmlpage.Count(u.Runs, "run"), describeOutcome(u.Outcome), u.Seed, at, why)
}

func describeOutcome(outcome string) string {
	switch outcome {
	case "Stuck":
		return "got stuck"
	case "GivenUp":
		return "reached the horizon"
	case "Violated":
		return "violated an invariant"
	default:
		return htmlpage.Name(outcome)
	}
}

func describeViolation(v whatif.Violation) string {
	return fmt.Sprintf("With seed %d, after %s, in cluster %s: %s", v.Seed, htmlpage.Bind(htmlpage.Duration(v.AtSeconds)), htmlpage.Name(v.Cluster), htmlpage.Words(v.Problem))
}

// mostUnfinished reports whether fewer than half of the runs were completed: then what is known of those is no longer what is to be expected.
func mostUnfinished(in whatif.Inputs, v whatif.Result) bool { return 2*v.Outcomes.Completed < in.Runs }

// describeSurvivors says which runs the numbers of a variant are of where most runs were not completed, and what all of them came to; otherwise it is empty.
func describeSurvivors(in whatif.Inputs, v whatif.Result) string {
	if !mostUnfinished(in, v) {
		return ""
	}
	runs := htmlpage.Count(in.Runs, "run")
	of := fmt.Sprintf("only %s of %s were completed; durations are of these, and all else is of one of them", htmlpage.Integer(v.Outcomes.Completed), runs)
	switch v.Outcomes.Completed {
	case 0:
		of = fmt.Sprintf("none of %s was completed; all numbers are of the first", runs)
	case 1:
		of = fmt.Sprintf("only 1 of %s was completed; all numbers are of this one", runs)
	}
	return fmt.Sprintf("%s. Over all runs: %s; per run, %s attempts failed and %s machines gave up (mean).", of, describeUnfinished(v.Outcomes), htmlpage.Decimal(v.PerRun.Failed), htmlpage.Decimal(v.PerRun.GaveUp))
}

// describePath says where the time of a run went, if there is anything to say.
func describePath(m whatif.Median) string {
	if m.CriticalPath.Sentence == "" && m.Outcome == "Completed" && m.DurationSeconds == 0 && m.Updated+m.Replaced == 0 {
		return "nothing had to be done"
	}
	return htmlpage.Words(m.CriticalPath.Sentence)
}

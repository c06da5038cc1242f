package view

import (
	"fmt"
	"io"
	"strings"

	"github.com/windlass-dev/windlass/internal/clustercheck"
	"github.com/windlass-dev/windlass/internal/text"
)

// ClusterCheck is whether a cluster works, and the stable interface of `windlass check cluster -o json` and `-o yaml`.
type ClusterCheck struct {
	Namespace string `json:"namespace"`
	Cluster   string `json:"cluster"`
	// Verdict answers in one sentence whether the cluster works.
	Verdict string `json:"verdict"`
	// Worst is Failed if a check failed, else NotChecked if one was not made, else Passed.
	Worst    clustercheck.Outcome            `json:"worst"`
	Findings text.List[clustercheck.Finding] `json:"findings"`
}

// WriteClusterCheck shows the outcome of all checks.
func WriteClusterCheck(w io.Writer, f Format, s Screen, c ClusterCheck) error {
	return show(w, f, c, texts{table: func() string { return clusterCheckTable(s, c) }})
}

func clusterCheckTable(s Screen, c ClusterCheck) string {
	rows := make([][]string, 0, len(c.Findings))
	for _, f := range c.Findings {
		said := text.Printable(f.Message)
		if f.Fix != "" {
			said += ". Fix: " + text.Printable(f.Fix)
		}
		rows = append(rows, []string{string(f.ID), describeOutcome(f.Outcome), said})
	}
	var buffer strings.Builder
	tones := map[clustercheck.Outcome]tone{clustercheck.Passed: good, clustercheck.NotChecked: fair, clustercheck.Failed: bad}
	s.verdict(&buffer, tones[c.Worst], c.Verdict)
	buffer.WriteString("\n")
	s.table(&buffer, []string{"Check", "Result", "Finding"}, rows)
	return buffer.String()
}

func describeOutcome(o clustercheck.Outcome) string {
	if o == clustercheck.NotChecked {
		return "not checked"
	}
	return strings.ToLower(fmt.Sprint(o))
}

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
	return show(w, f, c, texts{table: func() string { return checkTable(s, c.Verdict, c.Worst, c.Findings) }})
}

func describeOutcome(o clustercheck.Outcome) string {
	if o == clustercheck.NotChecked {
		return "not checked"
	}
	return strings.ToLower(fmt.Sprint(o))
}

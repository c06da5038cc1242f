package view

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/windlass-dev/windlass/internal/clustercheck"
	"github.com/windlass-dev/windlass/internal/doctor"
	"github.com/windlass-dev/windlass/internal/text"
	"github.com/windlass-dev/windlass/pkg/version"
)

// CheckedFleet is what was found out about several Clusters, those first that need a person, and
// the stable interface of `windlass doctor` and `windlass preflight` without a Cluster.
type CheckedFleet struct {
	AsOf     time.Time                 `json:"asOf"`
	Clusters text.List[CheckedCluster] `json:"clusters"`
}

// CheckedCluster is what was found out about one Cluster.
type CheckedCluster struct {
	Namespace string `json:"namespace"`
	Cluster   string `json:"cluster"`
	// From and To are of a preflight, and empty where there was none.
	From version.Version `json:"from,omitzero"`
	To   version.Version `json:"to,omitzero"`
	Rank Rank            `json:"result"`
	// Verdict is what the command answers for this Cluster alone, or why nothing was checked.
	Verdict string `json:"verdict"`
	// Failed, NotChecked and Warned are the checks with such findings, each once, in their order.
	Failed     text.List[string] `json:"failed"`
	NotChecked text.List[string] `json:"notChecked"`
	Warned     text.List[string] `json:"warned"`
	// First is the first of the worst findings, with what to do; empty if there is none.
	First string `json:"first"`
}

// Rank is the result of a Cluster.
type Rank string

// The ranks, the worst first.
const (
	// RankUnread: the Cluster could not be examined; Verdict says why.
	RankUnread     Rank = "Unread"
	RankFailed     Rank = "Failed"
	RankNotChecked Rank = "NotChecked"
	RankWarned     Rank = "Warned"
	RankPassed     Rank = "Passed"
	// RankSkipped: there is nothing to check; Verdict says why.
	RankSkipped Rank = "Skipped"
)

var ranks = []Rank{RankUnread, RankFailed, RankNotChecked, RankWarned, RankPassed, RankSkipped}

// IsBad reports whether the command fails for it.
func (r Rank) IsBad() bool { return slices.Index(ranks, r) <= slices.Index(ranks, RankNotChecked) }

// UnreadCluster is a Cluster that could not be examined.
func UnreadCluster(namespace, name string, err error) CheckedCluster {
	return CheckedCluster{Namespace: namespace, Cluster: name, Rank: RankUnread, Verdict: err.Error()}
}

// ExaminedCluster is the row of an examination.
func ExaminedCluster(e Examination) CheckedCluster {
	c := CheckedCluster{Namespace: e.Namespace, Cluster: e.Cluster, Verdict: e.Verdict}
	addAll := func(severity doctor.Severity, into *text.List[string]) {
		for _, f := range e.Findings {
			// The first check only sums the others up.
			if f.Severity == severity && f.ID != doctor.CheckMachinesKept {
				c.add(into, string(f.ID), f.Subject, f.Message, f.Fix)
			}
		}
	}
	addAll(doctor.Error, &c.Failed)
	addAll(doctor.Warning, &c.Warned)
	c.Rank = map[doctor.Severity]Rank{
		doctor.Error: RankFailed, doctor.Warning: RankWarned, doctor.OK: RankPassed,
	}[e.Worst]
	return c
}

// PreflightCluster is the row of a preflight.
func PreflightCluster(p Preflight) CheckedCluster {
	c := CheckedCluster{
		Namespace: p.Namespace, Cluster: p.Cluster, From: p.From, To: p.To, Verdict: p.Verdict,
		Rank: Rank(p.Worst),
	}
	addAll := func(outcome clustercheck.Outcome, into *text.List[string]) {
		for _, f := range p.Findings {
			if f.Outcome == outcome {
				c.add(into, string(f.ID), f.Subject, f.Message, f.Fix)
			}
		}
	}
	addAll(clustercheck.Failed, &c.Failed)
	addAll(clustercheck.NotChecked, &c.NotChecked)
	addAll(clustercheck.Warned, &c.Warned)
	return c
}

// add adds the check of a finding, and keeps the first finding.
func (c *CheckedCluster) add(into *text.List[string], id, subject, message, fix string) {
	if !slices.Contains(*into, id) {
		*into = append(*into, id)
	}
	if c.First != "" {
		return
	}
	c.First = message
	if subject != "" {
		c.First = subject + ": " + message
	}
	if fix != "" {
		c.First += ". Fix: " + fix
	}
}

// Sort puts those first that need a person, and the others by namespace and name.
func (f CheckedFleet) Sort() {
	slices.SortFunc(f.Clusters, func(a, b CheckedCluster) int {
		return cmp.Or(cmp.Compare(slices.Index(ranks, a.Rank), slices.Index(ranks, b.Rank)),
			strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Cluster, b.Cluster))
	})
}

// IsBad reports whether the command fails.
func (f CheckedFleet) IsBad() bool {
	return slices.ContainsFunc(f.Clusters, func(c CheckedCluster) bool { return c.Rank.IsBad() })
}

// maxFirst bounds the first finding in a table, in bytes; documents have the whole.
const maxFirst = 300

// WriteCheckedFleet shows what was found out about several Clusters.
func WriteCheckedFleet(w io.Writer, f Format, s Screen, fleet CheckedFleet) error {
	return show(w, f, fleet, texts{table: func() string { return checkedFleetTable(s, fleet) }})
}

func checkedFleetTable(s Screen, fleet CheckedFleet) string {
	var buffer strings.Builder
	words, worst := checkedFleetVerdict(fleet)
	s.verdict(&buffer, worst, words)
	if len(fleet.Clusters) == 0 {
		return buffer.String()
	}
	upgrades := slices.ContainsFunc(fleet.Clusters, func(c CheckedCluster) bool { return !c.To.IsZero() })
	head := []string{"Cluster", "Result", "Checks", "First finding"}
	if upgrades {
		head = slices.Insert(head, 1, "Upgrade")
	}
	rows := make([][]string, 0, len(fleet.Clusters))
	for _, c := range fleet.Clusters {
		row := []string{
			text.Printable(c.Namespace + "/" + c.Cluster), rankWords[c.Rank], describeChecks(c), describeFirst(c),
		}
		if upgrades {
			row = slices.Insert(row, 1, preflightVersions(c))
		}
		rows = append(rows, row)
	}
	buffer.WriteString("\n")
	s.table(&buffer, head, rows)
	return buffer.String()
}

var rankWords = map[Rank]string{
	RankUnread: "not examined", RankFailed: "failed", RankNotChecked: "not checked", RankWarned: "warned",
	RankPassed: "passed", RankSkipped: "nothing to check",
}

func preflightVersions(c CheckedCluster) string {
	switch {
	case c.To.IsZero():
		return ""
	case c.From.IsZero():
		return "to " + c.To.String()
	}
	return fmt.Sprintf("%s -> %s", c.From, c.To)
}

// describeChecks names the checks of the worst result, and counts the others.
func describeChecks(c CheckedCluster) string {
	var parts []string
	for _, list := range []struct {
		ids  []string
		what string
	}{{c.Failed, "failed"}, {c.NotChecked, "not checked"}, {c.Warned, "warned"}} {
		switch {
		case len(list.ids) == 0:
		case len(parts) == 0:
			parts = append(parts, strings.Join(list.ids, ", "))
		default:
			parts = append(parts, fmt.Sprintf("%d %s", len(list.ids), list.what))
		}
	}
	return strings.Join(parts, "; ")
}

func describeFirst(c CheckedCluster) string {
	if c.First == "" && c.Rank != RankPassed {
		return text.Bound(text.Printable(c.Verdict), maxFirst)
	}
	return text.Bound(text.Printable(c.First), maxFirst)
}

// checkedFleetVerdict counts Clusters by their results.
func checkedFleetVerdict(fleet CheckedFleet) (words string, worst tone) {
	if len(fleet.Clusters) == 0 {
		return noClusters, fair
	}
	count := make(map[Rank]int, len(ranks))
	for _, c := range fleet.Clusters {
		count[c.Rank]++
	}
	var parts []string
	for _, r := range ranks {
		if count[r] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", count[r], rankWords[r]))
		}
	}
	switch first := fleet.Clusters[0].Rank; {
	case first.IsBad():
		worst = bad
	case first == RankWarned:
		worst = fair
	default:
		worst = good
	}
	return text.Count(len(fleet.Clusters), "Cluster") + ": " + strings.Join(parts, ", ") + ".", worst
}

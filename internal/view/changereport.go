package view

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/windlass-dev/windlass/internal/changereport"
	"github.com/windlass-dev/windlass/internal/gate"
	"github.com/windlass-dev/windlass/internal/htmlpage"
	"github.com/windlass-dev/windlass/internal/status"
	"github.com/windlass-dev/windlass/internal/text"
	"github.com/windlass-dev/windlass/pkg/plan"
)

// ChangeReportFormats are those of WriteChangeReport, the default first.
func ChangeReportFormats() []Format { return append(ReportFormats(), HTML) }

// WriteChangeReport shows the plan of an upgrade and what has happened.
func WriteChangeReport(w io.Writer, f Format, s Screen, r changereport.Report) error {
	if f == HTML {
		return htmlpage.Write(w, sheetTemplate+changeReportTemplate, newChangePage(r))
	}
	return show(w, f, r, texts{table: func() string { return changeTable(s, r) }})
}

// How many rows the tables of people have. The documents have all.
const (
	maxStepRows    = 100
	maxGateRows    = 200
	maxGroupRows   = 500
	maxMachineRows = 200
	maxFailureRows = 100
)

// What stands for a time: one that has not come, and one that nobody has recorded.
const notYet, unrecorded = "-", "not recorded"

// sheet is a table of the report. Its texts come from outside, and are shown as one line each.
type sheet struct {
	Label string
	Head  []sheetCell
	Rows  [][]sheetCell
	// More says which rows are left out; empty where none are.
	More string
}

// sheetCell is a cell; Text says that it is words, not a figure.
type sheetCell struct {
	Value string
	Text  bool
}

// newSheet returns a table of at most so many rows. A heading that ends in "*" is of a column of words.
func newSheet(label, head string, rows [][]string, most int, what string) *sheet {
	if len(rows) == 0 {
		return nil
	}
	s := &sheet{Label: label}
	for h := range strings.SplitSeq(head, "|") {
		s.Head = append(s.Head, sheetCell{strings.TrimSuffix(h, "*"), strings.HasSuffix(h, "*")})
	}
	if left := len(rows) - most; left > 0 {
		s.More = fmt.Sprintf("%s more %s in the report as JSON", htmlpage.Integer(left), what)
		rows = rows[:most]
	}
	for _, row := range rows {
		cells := make([]sheetCell, 0, len(row))
		for i, value := range row {
			cells = append(cells, sheetCell{htmlpage.Words(value), s.Head[i].Text})
		}
		s.Rows = append(s.Rows, cells)
	}
	return s
}

// format writes the columns that a terminal has room for.
func (s *sheet) format(buffer *strings.Builder, screen Screen, columns ...int) {
	if s == nil {
		return
	}
	selectCells := func(from []sheetCell) []string {
		cells := make([]string, 0, len(columns))
		for _, i := range columns {
			cells = append(cells, text.Printable(from[i].Value))
		}
		return cells
	}
	head := selectCells(s.Head)
	rows := make([][]string, 0, len(s.Rows))
	for _, r := range s.Rows {
		rows = append(rows, selectCells(r))
	}
	buffer.WriteString("\n" + s.Label + ":\n")
	screen.table(buffer, head, rows)
	if s.More != "" {
		screen.paragraph(buffer, "... "+s.More)
	}
}

func changeTable(s Screen, r changereport.Report) string {
	var buffer strings.Builder
	tones := map[changereport.State]tone{
		changereport.Running: neutral, changereport.Ended: good, changereport.Held: fair,
	}
	t := neutral
	if r.Upgrade != nil {
		t = tones[r.Upgrade.State]
	}
	s.verdict(&buffer, t, changeVerdict(r))
	if r.Upgrade != nil && r.Upgrade.Now != "" {
		s.paragraph(&buffer, "Now: "+r.Upgrade.Now+".")
	}
	stepSheet(r).format(&buffer, s, 0, 1, 2, 3, 5)
	gateSheet(r).format(&buffer, s, 0, 1, 2, 3, 4, 5)
	groupSheet(r).format(&buffer, s, 0, 1, 2, 3, 5, 6, 7, 8)
	annotationSheet(r).format(&buffer, s, 0, 1, 2, 3, 5, 6)
	failureSheet(r).format(&buffer, s, 0, 1, 2, 4)
	buffer.WriteString("\nNot recorded:\n")
	for _, missing := range r.NotRecorded {
		s.hanging(&buffer, "  - ", missing)
	}
	return buffer.String()
}

// changeVerdict says which upgrade it is, and how it went.
func changeVerdict(r changereport.Report) string {
	u := r.Upgrade
	if u == nil {
		return "No upgrade is under way, and none is recorded."
	}
	words := fmt.Sprintf("The upgrade %s", describeWay(u))
	switch u.State {
	case changereport.Ended:
		return fmt.Sprintf("%s ended at %s, after %s.", words, formatTime(u.Ended, unrecorded), formatSpan(u.Began, u.Ended))
	case changereport.Held:
		words += " is held by " + describeHolder(u.Holds)
	case changereport.Running:
		words += " is under way"
	}
	words += ". It began at " + formatTime(u.Began, "a time that is not recorded") + "."
	if eta := describeEstimate(u.ETA, r.Time); eta != "" {
		words += " ETA: " + eta + "."
	}
	return words
}

func describeWay(u *changereport.Upgrade) string {
	if u.From.IsZero() {
		return "to " + u.Target.String()
	}
	return fmt.Sprintf("from %s to %s", u.From, u.Target)
}

// formatTime shows a time in UTC, and words for one that is zero.
func formatTime(t time.Time, zero string) string {
	if t.IsZero() {
		return zero
	}
	return t.UTC().Format(time.DateTime)
}

// formatSpan shows how long it was between two times; nothing where one is not known.
func formatSpan(from, to time.Time) string {
	if from.IsZero() || to.IsZero() {
		return notYet
	}
	return htmlpage.Duration(to.Sub(from).Seconds())
}

var planWords = map[changereport.Plan]string{
	changereport.Planned: "planned", changereport.Computed: "as computed now", changereport.Unplanned: "not planned",
	changereport.NotRecorded: unrecorded,
}

var stepWords = map[status.StepState]string{
	status.StepDone: "done", status.StepRunning: "running", status.StepNext: "next", changereport.NotMade: "not made, as far as recorded",
}

func stepSheet(r changereport.Report) *sheet {
	rows := make([][]string, 0, len(r.Steps))
	for _, s := range r.Steps {
		began, ended := notYet, notYet
		if s.State == status.StepDone || s.State == status.StepRunning {
			began = unrecorded
		}
		if s.State == status.StepDone {
			ended = unrecorded
		}
		rows = append(rows, []string{
			describeChangeStep(s), planWords[s.Plan], stepWords[s.State], formatTime(s.Began, began), formatTime(s.Ended, ended),
			formatSpan(s.Began, s.Ended),
		})
	}
	return newSheet("Plan and reality", "Step|Plan*|Reality*|Began|Ended|Took", rows, maxStepRows, "steps")
}

func describeChangeStep(s changereport.Step) string {
	words := "Control plane"
	if s.Operation == plan.WorkersUpgrade {
		words = "Workers"
	}
	if !s.From.IsZero() {
		words += " from " + s.From.String()
	}
	words += " to " + s.To.String()
	if len(s.Groups) > 0 {
		words += fmt.Sprintf(" (%s)", describeGroups(s.Groups))
	}
	if s.State == status.StepRunning {
		words += fmt.Sprintf(": %d of %d machines", s.Updated, s.Machines)
	}
	return words
}

func gateSheet(r changereport.Report) *sheet {
	words := map[changereport.GateState]string{
		changereport.GateHolds: "holds", changereport.GatePassed: "passed", changereport.GateApproved: "approved; not recorded as held",
	}
	rows := make([][]string, 0, len(r.Gates))
	for _, g := range r.Gates {
		by, at := notYet, notYet
		if a := g.Approval; a != nil {
			by, at = cmp.Or(a.By, unrecorded), formatTime(a.Time, unrecorded)
			if a.Outdated {
				by += " (does not count: the gate has changed since)"
			}
		}
		result := words[g.State]
		if g.Message != "" {
			result += ": " + g.Message
		}
		rows = append(rows, []string{
			g.Gate, gate.Step{Hook: g.At, Version: g.Version}.String(), formatTime(g.Since, notYet), formatTime(g.Passed, notYet), by, at, result,
		})
	}
	return newSheet("Gates and approvals", "Gate|Step*|Held since|Passed|Approved by*|Approved at|Result*", rows, maxGateRows, "steps at gates")
}

func groupSheet(r changereport.Report) *sheet {
	rows := make([][]string, 0, len(r.Groups))
	for _, g := range r.Groups {
		rows = append(rows, []string{
			g.Group, htmlpage.Integer(g.Machines), htmlpage.Integer(g.InPlace), htmlpage.Integer(g.Created), htmlpage.Integer(g.Untouched),
			htmlpage.Integer(g.Retried), htmlpage.Integer(g.Failed), formatTime(g.Began, notYet), formatTime(g.Ended, notYet),
			formatTook(g.Median), formatTook(g.Longest),
		})
	}
	return newSheet("Machines by group", "Group|Machines|In place|Created|Untouched|Retried|Failed|First began|Last ended|Median|Longest",
		rows, maxGroupRows, "groups")
}

func formatTook(s status.Seconds) string {
	if s.Duration == 0 {
		return notYet
	}
	return htmlpage.Duration(s.Seconds())
}

// machineSheet lists what needs attention first: machines that failed, then those under way, then those
// that took longest.
func machineSheet(r changereport.Report) *sheet {
	words := map[changereport.Way]string{changereport.InPlace: "in place", changereport.Created: "created", changereport.Untouched: "untouched"}
	rank := func(m changereport.Machine) int {
		switch {
		case m.State == status.Failed:
			return 0
		case m.Way == changereport.Untouched:
			return 3
		case m.Ended.IsZero():
			return 1
		default:
			return 2
		}
	}
	machines := slices.Clone(r.Machines)
	slices.SortStableFunc(machines, func(a, b changereport.Machine) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(b.Ended.Sub(b.Began), a.Ended.Sub(a.Began)))
	})
	rows := make([][]string, 0, min(len(machines), maxMachineRows+1))
	for _, m := range machines[:min(len(machines), maxMachineRows)] {
		steps := make([]string, 0, len(m.Updaters))
		for _, u := range m.Updaters {
			step := fmt.Sprintf("%s %s", u.Updater, htmlpage.Duration(float64(u.Seconds)))
			if u.Attempts > 1 {
				step += fmt.Sprintf(" (%d attempts)", u.Attempts)
			}
			steps = append(steps, step)
		}
		if m.Error != "" {
			steps = append(steps, fmt.Sprintf("attempt %d failed: %s", m.Attempts, m.Error))
		}
		versions := m.To.String()
		if !m.From.IsZero() {
			versions = m.From.String() + " to " + versions
		}
		rows = append(rows, []string{
			m.Machine, m.Group, words[m.Way], versions, formatTime(m.Began, notYet), formatTime(m.Ended, notYet), formatSpan(m.Began, m.Ended),
			strings.Join(steps, "; "),
		})
	}
	s := newSheet("Each machine", "Machine|Group*|Way*|Version*|Began|Ended|Took|Updaters*", rows, maxMachineRows, "machines")
	if left := len(machines) - len(rows); left > 0 {
		s.More = htmlpage.Integer(left) + " more machines in the report as JSON"
	}
	return s
}

func annotationSheet(r changereport.Report) *sheet {
	rows := make([][]string, 0, len(r.ByAnnotation))
	for _, g := range r.ByAnnotation {
		rows = append(rows, []string{
			g.Name, cmp.Or(g.Option, g.To), string(g.State), fmt.Sprintf("%d of %d", g.Done, g.Machines), htmlpage.Integer(g.Failed),
			formatTime(g.Began, unrecorded), formatTime(g.Ended, notYet), g.Message,
		})
	}
	return newSheet("Upgrades that annotations ask for", "Group|Option*|State*|Done|Failed|Began|Ended|Message*", rows, maxGroupRows, "groups")
}

func failureSheet(r changereport.Report) *sheet {
	rows := make([][]string, 0, len(r.Failures))
	for _, f := range r.Failures {
		names := text.JoinSome(f.Objects, shownGroups, ", ")
		if f.Count > len(f.Objects) {
			names = fmt.Sprintf("%s and others, %d in all", strings.Join(f.Objects[:shownGroups], ", "), f.Count)
		}
		times := notYet
		if f.Times > 0 {
			times = htmlpage.Integer(int(f.Times))
		}
		rows = append(rows, []string{
			f.Kind + " " + names, f.Reason, f.Message, formatTime(f.First, unrecorded), formatTime(f.Last, unrecorded), times, string(f.Source),
		})
	}
	return newSheet("Failures", "Objects|Reason*|Message*|First|Last|Times|Source*", rows, maxFailureRows, "failures")
}

package view

import (
	"fmt"
	"strings"
	"time"

	"github.com/windlass-dev/windlass/internal/status"
	"github.com/windlass-dev/windlass/internal/text"
	"github.com/windlass-dev/windlass/pkg/plan"
)

// Widths of the columns of an upgrade's steps. With their bars they fill tableWidth.
const (
	stepStateWidth    = 7
	stepWidth         = 52
	stepMachinesWidth = 14
	stepTimeWidth     = 14
)

// How many steps the narrow table has: the last that are done, and the first that come.
const shownDone, shownNext = 6, 8

// engineWords are the engines as tables call them.
var engineWords = map[status.Engine]string{status.Windlass: "windlass manager", status.ClusterAPI: "Cluster API"}

func formatChain(buffer *strings.Builder, wide bool, c *status.Chain, now time.Time) {
	if c == nil {
		return
	}
	width := lineWidth(wide)
	paragraph := func(words string) { writeParagraph(buffer, words, width) }
	paragraph(chainHeadline(c, now))
	if c.Now != "" && c.State != status.ChainUpToDate {
		paragraph("Now: " + c.Now + ".")
	}
	formatSteps(buffer, wide, c.Steps, now)
	formatList(buffer, "Held by", width, len(c.Holds), func(i int) (string, string) {
		h := c.Holds[i]
		return string(h.Kind) + " " + h.By, describeSince(h, now) + h.Message
	})
	if eta := describeEstimate(c.ETA, now); eta != "" {
		buffer.WriteString("\n")
		paragraph("ETA: " + eta + ".")
	}
	if c.Disagreement != "" {
		buffer.WriteString("\n")
		paragraph("Note: " + c.Disagreement + ".")
		if c.Condition != nil && c.Condition.Message != "" {
			paragraph(fmt.Sprintf("The condition says (%s): %s", c.Condition.Reason, strings.Join(strings.Fields(c.Condition.Message), " ")))
		}
	}
	formatList(buffer, "Not known", width, len(c.NotKnown), func(i int) (string, string) { return "", c.NotKnown[i] })
	buffer.WriteString("\n")
}

// chainHeadline says in one sentence what an upgrade is at.
func chainHeadline(c *status.Chain, now time.Time) string {
	words := ""
	switch c.State {
	case status.ChainUnknown:
		return "Upgrade: not known: " + c.Problem
	case status.ChainUpToDate:
		return restingHeadline(c)
	case status.ChainUpgrading:
		words = "under way"
	case status.ChainHeld:
		words = "held"
	case status.ChainPaused:
		if len(c.Steps) > 0 {
			words = "paused"
		}
	case status.ChainCreating, status.ChainDeleting:
	}
	if words == "" {
		return fmt.Sprintf("Upgrade: none under way; %s.", c.Now)
	}
	from := ""
	if !c.From.IsZero() {
		from = fmt.Sprintf("from %s ", c.From)
	}
	began := ""
	if !c.Began.IsZero() {
		began = fmt.Sprintf(", begun %s ago", formatAge(now, c.Began))
	}
	return fmt.Sprintf("Upgrade %sto %s: %s%s, run by %s.", from, c.Target, words, began, engineWords[c.Engine])
}

func restingHeadline(c *status.Chain) string {
	words := fmt.Sprintf("Upgrade: none; everything is at %s", c.Target)
	if c.OffSpec > 0 {
		words += fmt.Sprintf(", but for the nodes that annotations brought to other versions (%d)", c.OffSpec)
	}
	return words + "."
}

func formatSteps(buffer *strings.Builder, wide bool, steps []status.Step, now time.Time) {
	if len(steps) == 0 {
		return
	}
	count := make(map[status.StepState]int)
	for _, s := range steps {
		count[s.State]++
	}
	var rows [][]string
	add := func(cells ...string) { rows = append(rows, cells) }
	firstDone, lastNext := 0, len(steps)
	if !wide {
		firstDone, lastNext = max(0, count[status.StepDone]-shownDone), len(steps)-max(0, count[status.StepNext]-shownNext)
	}
	if firstDone > 0 {
		add("done", fmt.Sprintf("%d steps before these", firstDone), "", "")
	}
	for _, s := range steps[firstDone:lastNext] {
		add(strings.ToLower(string(s.State)), describeStep(s, wide), describeStepMachines(s), describeStepTime(s, now))
	}
	if more := len(steps) - lastNext; more > 0 {
		add("next", fmt.Sprintf("%d steps after these", more), "", "")
	}
	buffer.WriteString("\n")
	text.WriteTable(buffer, []string{"State", "Step", "Machines", "Time"}, rows, limits(wide, stepStateWidth, stepWidth, stepMachinesWidth, stepTimeWidth))
}

func describeStep(s status.Step, wide bool) string {
	from := ""
	if !s.From.IsZero() {
		from = s.From.String() + " "
	}
	buffer := fmt.Sprintf("%s upgrade %s-> %s", map[plan.OperationKind]string{plan.ControlPlaneUpgrade: "CP", plan.WorkersUpgrade: "Workers"}[s.Kind], from, s.To)
	switch {
	case len(s.Groups) == 0:
		return buffer
	case wide:
		names := make([]string, len(s.Groups))
		for i, name := range s.Groups {
			names[i] = text.Printable(name)
		}
		return fmt.Sprintf("%s (%s)", buffer, strings.Join(names, ", "))
	default:
		return fmt.Sprintf("%s (%s)", buffer, describeGroups(s.Groups))
	}
}

func describeStepMachines(s status.Step) string {
	switch s.State {
	case status.StepRunning:
		return fmt.Sprintf("%d of %d", s.Updated, s.Machines)
	case status.StepNext:
		return fmt.Sprint(s.Machines)
	case status.StepDone:
	}
	return ""
}

func describeStepTime(s status.Step, now time.Time) string {
	switch {
	case s.State == status.StepNext || s.Began.IsZero():
		return ""
	case s.State == status.StepRunning:
		return "for " + formatAge(now, s.Began)
	case s.Ended.IsZero():
		return "began " + formatAge(now, s.Began) + " ago"
	default:
		return "took " + formatAge(s.Ended, s.Began)
	}
}

func describeSince(h status.Hold, now time.Time) string {
	switch {
	case h.Since.IsZero():
		return ""
	case h.AtEarliest:
		return fmt.Sprintf("for %s at most: ", formatAge(now, h.Since))
	default:
		return fmt.Sprintf("for %s: ", formatAge(now, h.Since))
	}
}

// describeEstimate is empty where nothing is left to estimate.
func describeEstimate(e status.Estimate, now time.Time) string {
	if e.Unknown != "" {
		return "not known: " + e.Unknown
	}
	if !e.Known() {
		return ""
	}
	earliest, latest := e.Window()
	switch {
	case e.Since.IsZero():
		return fmt.Sprintf("%s once it is let go, if it goes on like this", describeRange(e.Least, e.Most))
	case !latest.After(now):
		return fmt.Sprintf("%s ago, if it had gone on like this", formatAge(now, latest))
	default:
		return fmt.Sprintf("in %s, if it goes on like this", describeRange(max(earliest.Sub(now), 0), latest.Sub(now)))
	}
}

// describeRange shows two durations, or one where both read the same.
func describeRange(least, most time.Duration) string {
	var zero time.Time
	// Any two times with that much between them will do.
	base := zero.Add(time.Hour)
	from, to := formatAge(base.Add(least), base), formatAge(base.Add(most), base)
	if from == to {
		return "about " + to
	}
	return from + " to " + to
}

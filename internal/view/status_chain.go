package view

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/windlass-dev/windlass/internal/status"
	"github.com/windlass-dev/windlass/internal/text"
	"github.com/windlass-dev/windlass/pkg/plan"
)

// How many steps the narrow table has: the last that are done, and the first that come.
const shownDone, shownNext = 6, 8

// unseenFor is after how long without a renewed lease it is said when a controller was last seen.
// Managers renew every few seconds.
const unseenFor = 15 * time.Second

// engineWords are the engines as tables call them.
var engineWords = map[status.Engine]string{status.Windlass: "windlass manager", status.ClusterAPI: "Cluster API"}

func formatChain(buffer *strings.Builder, s Screen, c *status.Chain, now time.Time) {
	if c == nil {
		return
	}
	paragraph := func(words string) { s.paragraph(buffer, words) }
	// The verdict on a Cluster without an upgrade contains what is true now.
	underWay := c.State == status.ChainUpgrading || c.State == status.ChainHeld ||
		c.State == status.ChainPaused && len(c.Steps) > 0
	if c.Now != "" && underWay {
		paragraph("Now: " + c.Now + ".")
	}
	formatSteps(buffer, s, c.Steps, now)
	formatPlanChanges(buffer, s, c, now)
	formatHolds(buffer, s, c.Holds, now)
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
	formatList(buffer, s, "Not known", len(c.NotKnown), func(i int) (string, string) { return "", c.NotKnown[i] })
}

func formatPlanChanges(buffer *strings.Builder, s Screen, c *status.Chain, now time.Time) {
	if len(c.PlanChanges) == 0 {
		return
	}
	title := fmt.Sprintf("The plan was made %s ago, and has changed", formatAge(now, c.PlanMade))
	formatList(buffer, s, title, len(c.PlanChanges), func(i int) (string, string) { return "", c.PlanChanges[i] })
}

func formatHolds(buffer *strings.Builder, s Screen, holds []status.Hold, now time.Time) {
	formatList(buffer, s, "Held by", len(holds), func(i int) (string, string) {
		h := holds[i]
		return string(h.Kind) + " " + h.By, describeSince(h, now) + h.Message
	})
}

// chainVerdict answers how an upgrade is going. blocked names what is blocked in it; empty where nothing is.
func chainVerdict(c *status.Chain, blocked string, now time.Time) string {
	words := ""
	switch c.State {
	case status.ChainUnknown:
		return "The state of the upgrade is unknown: " + strings.TrimSuffix(c.Problem, ".") + "."
	case status.ChainUpToDate:
		return restingVerdict(c)
	case status.ChainUpgrading:
		words = "is under way"
		if blocked != "" {
			words = "is blocked in " + blocked
		}
	case status.ChainHeld:
		words = "is held by " + describeHolder(c.Holds)
	case status.ChainPaused:
		if len(c.Steps) > 0 {
			words = "is paused"
		}
	case status.ChainCreating, status.ChainDeleting:
	}
	if words == "" {
		return fmt.Sprintf("No upgrade is under way: %s.", c.Now)
	}
	return describeUpgrade(c, words, now)
}

// describeUpgrade says between which versions an upgrade is, how far it is, and who runs it since when.
func describeUpgrade(c *status.Chain, words string, now time.Time) string {
	from, began, progress := "", "", ""
	if !c.From.IsZero() {
		from = fmt.Sprintf("from %s ", c.From)
	}
	if !c.Began.IsZero() {
		began = fmt.Sprintf("began %s ago and ", formatAge(now, c.Began))
	}
	switch done := countDone(c.Steps); {
	case len(c.Steps) == 0:
	case c.HasPlan():
		progress = fmt.Sprintf("; %d of %s done", done, text.CountAre(len(c.Steps), "step"))
	default:
		progress = fmt.Sprintf("; %s done", text.CountAre(done, "step"))
	}
	seen := ""
	if !c.EngineSeen.IsZero() && now.Sub(c.EngineSeen) > unseenFor {
		seen = fmt.Sprintf(", which was last seen %s ago", formatAge(now, c.EngineSeen))
	}
	return fmt.Sprintf("The upgrade %sto %s %s%s. It %sis run by %s%s.", from, c.Target, words, progress,
		began, engineWords[c.Engine], seen)
}

func countDone(steps []status.Step) int {
	done := 0
	for _, s := range steps {
		if s.State == status.StepDone {
			done++
		}
	}
	return done
}

// describeHolder names what holds an upgrade: a gate if there is one, because a hook only reports it.
func describeHolder(holds []status.Hold) string {
	if len(holds) == 0 {
		return "something that the objects do not show"
	}
	first := holds[0]
	for _, approved := range []bool{true, false} {
		isGate := func(h status.Hold) bool { return h.Kind == status.HeldByGate && h.Approved == approved }
		if gate := slices.IndexFunc(holds, isGate); gate >= 0 {
			first = holds[gate]
		}
	}
	switch first.Kind {
	case status.HeldByHook:
		return "hook " + first.By
	case status.HeldByGate:
		if first.Approved {
			return "UpgradeGate " + first.By + ", which is approved"
		}
		return "UpgradeGate " + first.By
	case status.HeldByAnnotation:
		return "annotation " + first.By
	case status.HeldByPause, status.HeldByRule, status.HeldByMachines, status.HeldByFailure:
	}
	return first.By
}

func restingVerdict(c *status.Chain) string {
	words := fmt.Sprintf("No upgrade is under way: everything is at %s", c.Target)
	if c.OffSpec > 0 {
		words += fmt.Sprintf(", except the nodes that annotations brought to other versions (%d)", c.OffSpec)
	}
	return words + "."
}

func formatSteps(buffer *strings.Builder, screen Screen, steps []status.Step, now time.Time) {
	if len(steps) == 0 {
		return
	}
	states := make(map[status.StepState]int)
	for _, s := range steps {
		states[s.State]++
	}
	var rows [][]string
	add := func(cells ...string) { rows = append(rows, cells) }
	firstDone, lastNext := 0, len(steps)
	if !screen.All {
		firstDone, lastNext = max(0, states[status.StepDone]-shownDone), len(steps)-max(0, states[status.StepNext]-shownNext)
	}
	if firstDone > 0 {
		add("done", text.Count(firstDone, "step")+" before these", "", "")
	}
	for _, s := range steps[firstDone:lastNext] {
		add(strings.ToLower(string(s.State)), describeStep(s, screen.All), describeStepMachines(s), describeStepTime(s, now))
	}
	if more := len(steps) - lastNext; more > 0 {
		add("next", text.Count(more, "step")+" after these", "", "")
	}
	buffer.WriteString("\n")
	screen.table(buffer, []string{"State", "Step", "Machines", "Time"}, rows)
}

func describeStep(s status.Step, all bool) string {
	from := ""
	if !s.From.IsZero() {
		from = s.From.String() + " "
	}
	buffer := fmt.Sprintf("%s upgrade %s-> %s", map[plan.OperationKind]string{plan.ControlPlaneUpgrade: "CP", plan.WorkersUpgrade: "Workers"}[s.Kind], from, s.To)
	switch {
	case len(s.Groups) == 0:
		return buffer
	case all:
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
	switch {
	case s.State == status.StepRunning, s.State == status.StepNext && s.Updated > 0:
		return fmt.Sprintf("%d of %d", s.Updated, s.Machines)
	case s.State == status.StepNext:
		return fmt.Sprint(s.Machines)
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
		return fmt.Sprintf("for %s or less: ", formatAge(now, h.Since))
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
		return fmt.Sprintf("%s after the gate opens, at the present speed", describeRange(e.Least, e.Most))
	case !latest.After(now):
		return fmt.Sprintf("%s ago, at the present speed", formatAge(now, latest))
	default:
		return fmt.Sprintf("in %s, at the present speed", describeRange(max(earliest.Sub(now), 0), latest.Sub(now)))
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

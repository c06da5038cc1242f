package view

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/windlass-dev/windlass/internal/status"
	"github.com/windlass-dev/windlass/internal/text"
)

// Wide is the table with every column, as wide as its content. Only WriteStatus knows it.
const Wide Format = "wide"

// ReportFormats returns the formats of reports on a cluster, the default first; those of a status have Wide too.
func ReportFormats() []Format { return []Format{Table, JSON, YAML} }

// StatusFormats returns the formats of WriteStatus, the default first.
func StatusFormats() []Format { return []Format{Table, Wide, JSON, YAML} }

// unbounded is the width of a column that is never wrapped.
const unbounded = 1 << 20

// Widths of columns of the narrow table. With their bars they fill tableWidth.
const (
	groupWidth   = 22
	policyWidth  = 30
	countsWidth  = 38
	machineWidth = 28
	updaterWidth = 20
	attemptWidth = 7
	phaseWidth   = 10
	sinceWidth   = 6
	etaWidth     = 10
)

// WriteStatus shows how the upgrade of a cluster and the updates of its machines stand. now is what the ages of a table are counted from.
func WriteStatus(w io.Writer, f Format, r status.Report, now time.Time) error {
	table := func() string { return statusTable(f == Wide, r, now) }
	return show(w, f, r, texts{table: table, wide: table})
}

// lineWidth is how wide text below tables may get.
func lineWidth(wide bool) int {
	if wide {
		return unbounded
	}
	return tableWidth
}

func statusTable(wide bool, r status.Report, now time.Time) string {
	var buffer strings.Builder
	formatChain(&buffer, wide, r.Chain, now)
	rows := groupRows(r.Groups, wide)
	text.WriteTable(&buffer, []string{"Group", "Policy", "Machines"}, rows, limits(wide, groupWidth, policyWidth, countsWidth))
	formatUpdates(&buffer, wide, r.Updates, now)
	formatInPlace(&buffer, wide, r.InPlace, now)
	width := lineWidth(wide)
	formatList(&buffer, "At other versions than their specs say", width, len(r.OffSpec), func(i int) (string, string) {
		return "Machine " + r.OffSpec[i].Machine, r.OffSpec[i].Message
	})
	formatList(&buffer, "Blocked", width, len(r.Blocked), func(i int) (string, string) {
		b := r.Blocked[i]
		return b.Kind + " " + b.Name, fmt.Sprintf("%s for %s: %s", b.Reason, formatAge(now, b.Since), b.Message)
	})
	if !wide {
		said := slices.DeleteFunc(slices.Clone(r.Updates), func(u status.Update) bool { return unbegun(u) || u.Text() == "" })
		formatList(&buffer, "Messages", width, len(said), func(i int) (string, string) { return said[i].Machine, said[i].Text() })
	}
	formatList(&buffer, "Not applied to running machines", width, len(r.Dirty), func(i int) (string, string) {
		d := r.Dirty[i]
		return d.Machine, fmt.Sprintf("%s of the %s, for %s", d.Path, d.Part, formatAge(now, d.Since))
	})
	if wide {
		formatList(&buffer, "Measured", width, len(r.Durations), func(i int) (string, string) {
			d := r.Durations[i]
			return d.Updater, fmt.Sprintf("%s (median of %d)", d.Median, d.Measured)
		})
	}
	formatList(&buffer, "Cannot be read", width, len(r.Problems), func(i int) (string, string) {
		p := r.Problems[i]
		return p.Kind + " " + p.Name, fmt.Sprintf("annotation %s: %s", p.Annotation, p.Message)
	})
	return buffer.String()
}

// shownGroupRows is how many groups the narrow table tells apart.
const shownGroupRows = 20

// groupRows has a row for each group or, where there are very many, one for those of which the same is said: the policy, and which states
// their machines are in.
func groupRows(groups []status.Group, wide bool) [][]string {
	var rows [][]string
	var merged []status.Group
	var members [][]string
	index := map[string]int{}
	for _, g := range groups {
		if wide || len(groups) <= shownGroupRows || g.Name == status.ControlPlaneGroup {
			rows = append(rows, []string{text.Printable(g.Name), text.Printable(g.Policy.Describe()), describeCounts(g)})
			continue
		}
		key := g.Policy.Describe()
		for _, s := range status.States() {
			key = fmt.Sprintf("%s %t", key, g.Count[s] > 0)
		}
		key = fmt.Sprintf("%s %t", key, g.Missing > 0)
		i, known := index[key]
		if !known {
			i = len(merged)
			index[key] = i
			merged = append(merged, status.Group{Policy: g.Policy, Count: make(map[status.State]int)})
			members = append(members, nil)
		}
		members[i] = append(members[i], g.Name)
		for state, n := range g.Count {
			merged[i].Count[state] += n
		}
		merged[i].Missing += g.Missing
		merged[i].Machines += g.Machines
	}
	for i, g := range merged {
		rows = append(rows, []string{describeGroups(members[i]), text.Printable(g.Policy.Describe()), describeCounts(g)})
	}
	return rows
}

func limits(wide bool, widths ...int) []int {
	if wide {
		for i := range widths {
			widths[i] = unbounded
		}
	}
	return widths
}

// stateWords are the states as tables call them.
var stateWords = map[status.State]string{
	status.UpToDate: "up to date", status.Marked: "marked", status.Queued: "queued", status.Updating: "updating",
	status.Finished: "finished", status.Failed: "failed",
	status.Waiting: "waiting", status.Deleting: "being deleted", status.Unreadable: "unreadable",
}

func describeCounts(g status.Group) string {
	var parts []string
	for _, s := range status.States() {
		if n := g.Count[s]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, stateWords[s]))
		}
	}
	text := strings.Join(parts, ", ")
	if len(parts) == 0 {
		text = "none"
	}
	if g.Missing > 0 {
		there := g.Machines - g.Count[status.Deleting]
		text = fmt.Sprintf("%d of %d: %s", there, there+g.Missing, text)
	}
	return text
}

func formatUpdates(buffer *strings.Builder, wide bool, updates []status.Update, now time.Time) {
	var rows [][]string
	for _, u := range updates {
		if unbegun(u) && !wide {
			continue
		}
		row := []string{
			text.Printable(u.Machine), describeUpdater(u), describeAttempt(u), describePhase(u), formatAge(now, u.Since), describeETA(u, now),
		}
		if wide {
			row = append(row, text.Printable(u.Group), describeVersions(u), formatAge(now, u.Began), orDash(text.Printable(u.Operation)), orDash(text.Printable(u.Text())))
		}
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		return
	}
	head := []string{"Machine", "Updater", "Attempt", "Phase", "Since", "ETA"}
	widths := limits(wide, machineWidth, updaterWidth, attemptWidth, phaseWidth, sinceWidth, etaWidth)
	if wide {
		head = append(head, "Group", "Versions", "Began", "Operation", "Message")
		widths = append(widths, limits(true, make([]int, 5)...)...)
	}
	buffer.WriteString("\n")
	text.WriteTable(buffer, head, rows, widths)
}

// unbegun reports whether an update has not begun. There can be very many, and all say the same.
func unbegun(u status.Update) bool { return u.State == status.Marked || u.State == status.Queued }

func describeUpdater(u status.Update) string {
	switch {
	case u.Updater != "":
		return fmt.Sprintf("%s (%d of %d)", text.Printable(u.Updater), u.Step, u.Steps)
	case u.Steps > 0:
		return fmt.Sprintf("all %d done", u.Steps)
	default:
		return "-"
	}
}

func describeAttempt(u status.Update) string {
	switch {
	case u.Attempt == 0:
		return "-"
	case u.MaxAttempts == 0:
		return strconv.Itoa(u.Attempt)
	default:
		return fmt.Sprintf("%d of %d", u.Attempt, u.MaxAttempts)
	}
}

func describePhase(u status.Update) string {
	if u.Phase == "" {
		return string(u.State)
	}
	return text.Printable(string(u.Phase))
}

func describeVersions(u status.Update) string {
	if u.From.IsZero() {
		return orDash(u.To.String())
	}
	return fmt.Sprintf("%s -> %s", u.From, u.To)
}

func describeETA(u status.Update, now time.Time) string {
	switch {
	case u.State != status.Updating:
		return "-"
	case u.At.IsZero():
		return "unknown"
	case u.Late:
		return formatAge(now, u.At) + " late"
	default:
		return "in " + formatAge(u.At, now)
	}
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// formatList writes a titled list of subjects, each with a text; nothing where it is empty. A subject is said once for items
// that follow each other.
func formatList(buffer *strings.Builder, title string, width, n int, item func(int) (subject, text string)) {
	if n == 0 {
		return
	}
	buffer.WriteString("\n" + title + ":\n")
	last := ""
	for i := range n {
		subject, body := item(i)
		if subject != last {
			buffer.WriteString("  " + text.Printable(subject) + "\n")
		}
		last = subject
		for _, line := range text.Wrap(text.Printable(body), width-4) {
			buffer.WriteString("    " + line + "\n")
		}
	}
}

// formatAge says in at most six characters how much later one time is than the other.
func formatAge(later, earlier time.Time) string {
	if earlier.IsZero() || later.IsZero() {
		return "-"
	}
	const day = 24 * time.Hour
	switch age := later.Sub(earlier).Truncate(time.Second); {
	case age <= 0:
		return "0s"
	case age < 10*time.Minute:
		return age.String()
	case age < 2*time.Hour:
		return fmt.Sprintf("%dm", age/time.Minute)
	case age < 2*day:
		return fmt.Sprintf("%dh", age/time.Hour)
	default:
		return fmt.Sprintf("%dd", age/day)
	}
}

// WriteChanges writes one line for each change of a status, with the time of day in UTC.
func WriteChanges(w io.Writer, changes []string, now time.Time) error {
	var buffer strings.Builder
	for _, c := range changes {
		buffer.WriteString(now.UTC().Format(time.TimeOnly) + " " + text.Printable(c) + "\n")
	}
	return writeText(w, buffer.String())
}

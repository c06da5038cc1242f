package view

import (
	"cmp"
	"fmt"
	"io"
	"maps"
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

// WriteStatus shows how the upgrade of a cluster and the updates of its machines stand. now is what the ages of a table are counted from.
func WriteStatus(w io.Writer, f Format, s Screen, r status.Report, now time.Time) error {
	return show(w, f, r, texts{
		table: func() string { return statusTable(s, r, now) },
		wide:  func() string { return statusTable(Screen{All: true}, r, now) },
	})
}

func statusTable(s Screen, r status.Report, now time.Time) string {
	var buffer strings.Builder
	s.verdict(&buffer, statusTone(r), statusVerdict(r, now))
	formatChain(&buffer, s, r.Chain, now)
	buffer.WriteString("\n")
	s.table(&buffer, []string{"Group", "Policy", "Machines"}, groupRows(r.Groups, s.All))
	formatUpdates(&buffer, s, r.Updates, now)
	formatInPlace(&buffer, s, r.InPlace, now)
	formatList(&buffer, s, "At other versions than their specs say", len(r.OffSpec), func(i int) (string, string) {
		return "Machine " + r.OffSpec[i].Machine, r.OffSpec[i].Message
	})
	formatDeletions(&buffer, s, r.Deletions, now)
	formatBlocked(&buffer, s, r.Blocked, now)
	formatWaits(&buffer, s, r.Groups)
	if !s.All {
		formatMessages(&buffer, s, r.Updates, r.Blocked)
	}
	formatList(&buffer, s, "Not applied to running machines", len(r.Dirty), func(i int) (string, string) {
		d := r.Dirty[i]
		return d.Machine, fmt.Sprintf("%s of the %s, for %s", d.Path, d.Part, formatAge(now, d.Since))
	})
	if s.All {
		formatList(&buffer, s, "Measured", len(r.Durations), func(i int) (string, string) {
			d := r.Durations[i]
			return d.Updater, fmt.Sprintf("%s (median of %d)", d.Median, d.Measured)
		})
	}
	formatList(&buffer, s, "Cannot be read", len(r.Problems), func(i int) (string, string) {
		p := r.Problems[i]
		return p.Kind + " " + p.Name, fmt.Sprintf("annotation %s: %s", p.Annotation, p.Message)
	})
	return buffer.String()
}

func formatBlocked(buffer *strings.Builder, s Screen, blocked []status.Blocked, now time.Time) {
	formatList(buffer, s, "Blocked", len(blocked), func(i int) (string, string) {
		b := blocked[i]
		return b.Kind + " " + b.Name, fmt.Sprintf("%s for %s: %s", b.Reason, formatAge(now, b.Since), b.Message)
	})
}

// formatDeletions lists what deletions of Machines wait for. Only the widest table has all of a
// fleet's.
func formatDeletions(
	buffer *strings.Builder, s Screen, deletions []status.Deletion, now time.Time,
) {
	shown := len(deletions)
	if !s.All {
		shown = min(shown, shownGroupRows)
	}
	formatList(buffer, s, "Being deleted", shown, func(i int) (string, string) {
		d := deletions[i]
		return "Machine " + d.Machine,
			fmt.Sprintf("%s for %s: %s", d.Reason, formatAge(now, d.Since), d.Text())
	})
	if more := len(deletions) - shown; more > 0 {
		buffer.WriteString("  and " + text.Count(more, "more machine") + "; -o wide shows them\n")
	}
}

// formatWaits says in which groups machines wait for a person, and what to do.
func formatWaits(buffer *strings.Builder, s Screen, groups []status.Group) {
	waiting := slices.DeleteFunc(slices.Clone(groups), func(g status.Group) bool {
		return g.Waits == ""
	})
	formatList(buffer, s, "Waiting", len(waiting), func(i int) (string, string) {
		return waiting[i].Kind + " " + waiting[i].Object, waiting[i].Waits
	})
}

// statusVerdict answers how the upgrade is going, and how many machines are not up to date.
func statusVerdict(r status.Report, now time.Time) string {
	var parts []string
	blocked := describeBlocked(r.Blocked)
	if r.Chain != nil {
		parts = append(parts, chainVerdict(r.Chain, blocked, now))
	}
	if blocked != "" && (r.Chain == nil || r.Chain.State != status.ChainUpgrading) {
		parts = append(parts, fmt.Sprintf("Updates are blocked in %s.", blocked))
	}
	parts = append(parts, machinesVerdict(r))
	words, failed := inPlaceVerdict(r.InPlace)
	if words != "" && !failed {
		parts = append(parts, words)
	}
	if offSpec := offSpecVerdict(r.OffSpec); offSpec != "" {
		parts = append([]string{offSpec}, parts...)
	}
	if failed {
		parts = append([]string{words}, parts...)
	}
	if since := r.ManagerSilentSince; !since.IsZero() {
		parts = append([]string{describeSilence(since, now)}, parts...)
	}
	return strings.Join(parts, " ")
}

// describeSilence says that nothing changes because windlass manager does not run.
func describeSilence(since, now time.Time) string {
	return fmt.Sprintf("windlass manager does not run, so nothing changes: it last renewed its lease %s ago. "+
		"Fix: see that the Deployment capi-controller-manager runs.", formatAge(now, since))
}

// offSpecVerdict names the machines whose nodes run other versions than their specs; empty for none.
func offSpecVerdict(offSpec []status.OffSpec) string {
	if len(offSpec) == 0 {
		return ""
	}
	names := make([]string, len(offSpec))
	for i, o := range offSpec {
		names[i] = o.Machine
	}
	return fmt.Sprintf("%s at another version than specified: %s.",
		text.CountAre(len(offSpec), "machine"), joinNames(names))
}

// describeBlocked names the groups that have blocked updates, and the reasons; empty where there are none.
func describeBlocked(blocked []status.Blocked) string {
	var words []string
	for _, b := range blocked {
		if word := fmt.Sprintf("%s (%s)", cmp.Or(b.Group, b.Name), b.Reason); !slices.Contains(words, word) {
			words = append(words, word)
		}
	}
	return joinNames(words)
}

// shownInVerdict is how many names the verdict lists.
const shownInVerdict = 3

// joinNames lists the first names, and how many more there are.
func joinNames(names []string) string {
	return text.JoinSome(names, shownInVerdict, ", ")
}

// statusTone is bad where a person must do something, and fair where something is held or under way.
func statusTone(r status.Report) tone {
	result := good
	if r.Chain != nil {
		switch r.Chain.State {
		case status.ChainUpToDate:
		case status.ChainUnknown:
			result = bad
		case status.ChainUpgrading, status.ChainHeld, status.ChainCreating, status.ChainDeleting, status.ChainPaused:
			result = fair
		}
	}
	words, failed := inPlaceVerdict(r.InPlace)
	switch {
	case failed, !r.ManagerSilentSince.IsZero():
		result = bad
	case len(r.Blocked)+len(r.OffSpec) > 0 || words != "":
		result = max(result, fair)
	}
	for _, g := range r.Groups {
		result = max(result, groupTone(g))
	}
	return result
}

// groupTone is good where all machines are up to date.
func groupTone(g status.Group) tone {
	switch {
	case g.Count[status.Failed]+g.Count[status.Unreadable] > 0 || g.Policy.Problem != "":
		return bad
	case g.Count[status.UpToDate] < g.Machines+g.Missing:
		return fair
	default:
		return good
	}
}

func machinesVerdict(r status.Report) string {
	var total status.Group
	for _, g := range r.Groups {
		total.Machines += g.Machines
		total.Missing += g.Missing
		total.Count = addCounts(total.Count, lasting(g.Count))
	}
	done := total.Count[status.UpToDate]
	switch {
	case total.Machines == 0 && total.Missing == 0:
		return "There are no machines."
	case total.Machines == 0:
		return fmt.Sprintf("No machine exists; %d missing.", total.Missing)
	case done == total.Machines && total.Missing == 0:
		return completeVerdict(r, done)
	}
	parts := []string{fmt.Sprintf("%d of %s up to date", done, text.CountAre(total.Machines, "machine"))}
	if target := targetVerdict(r); target != "" {
		parts = []string{target, fmt.Sprintf("%d of %d have what their step asks for", done, total.Machines)}
	}
	for _, s := range status.States() {
		if n := total.Count[s]; n > 0 && s != status.UpToDate {
			parts = append(parts, fmt.Sprintf("%d %s", n, stateWords[s]))
		}
	}
	if total.Missing > 0 {
		parts = append(parts, fmt.Sprintf("%d missing", total.Missing))
	}
	return strings.Join(parts, "; ") + "."
}

// targetVerdict says how many machines have arrived at the target of an upgrade that is under way; empty if
// none is.
func targetVerdict(r status.Report) string {
	if r.Chain == nil || !r.Chain.IsUnderWay() || r.Chain.Machines == 0 {
		return ""
	}
	return fmt.Sprintf("At the target %s: %d of %s", r.Chain.Target, r.Chain.AtTarget,
		text.Count(r.Chain.Machines, "machine"))
}

// completeVerdict is for a Cluster whose Machines all have the specs of their groups. During an
// upgrade, whoever runs it, the version from before may still be specified.
func completeVerdict(r status.Report, machines int) string {
	asked, _ := inPlaceVerdict(r.InPlace)
	target := targetVerdict(r)
	switch {
	case len(r.OffSpec) > 0:
		return fmt.Sprintf("The specs of all machines are up to date (%d).", machines)
	case target != "":
		return target + "; all have what their step asks for."
	case asked != "" || r.Chain != nil && r.Chain.State != status.ChainUpToDate:
		return fmt.Sprintf("All machines have what their groups specify (%d).", machines)
	default:
		return fmt.Sprintf("All machines are up to date (%d).", machines)
	}
}

// lasting counts machines whose state lasts a second as what they are for people: a machine that Cluster API has
// only marked waits, and one whose end it has not noticed is still being updated.
func lasting(counts status.Counts) status.Counts {
	merged := make(status.Counts, len(counts))
	for state, n := range counts {
		switch state {
		case status.Marked:
			state = status.Waiting
		case status.Finished:
			state = status.Updating
		case status.UpToDate, status.Queued, status.Updating, status.Failed, status.Waiting, status.Deleting, status.Unreadable:
		}
		merged[state] += n
	}
	return merged
}

// addCounts returns the sum of two counts.
func addCounts(a, b status.Counts) status.Counts {
	sum := make(status.Counts, len(a))
	maps.Copy(sum, a)
	for state, n := range b {
		sum[state] += n
	}
	return sum
}

// shownGroupRows is how many groups the narrow table tells apart.
const shownGroupRows = 20

// groupRows has a row for each group or, where there are very many, one for those of which the same is said: the policy, and which states
// their machines are in.
func groupRows(groups []status.Group, all bool) [][]string {
	var rows [][]string
	var merged []status.Group
	var members [][]string
	index := map[string]int{}
	for _, g := range groups {
		if !all {
			g.Count = lasting(g.Count)
		}
		if all || len(groups) <= shownGroupRows || g.Name == status.ControlPlaneGroup {
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
			merged = append(merged, status.Group{Policy: g.Policy})
			members = append(members, nil)
		}
		members[i] = append(members[i], g.Name)
		merged[i].Count = addCounts(merged[i].Count, g.Count)
		merged[i].Missing += g.Missing
		merged[i].Machines += g.Machines
	}
	for i, g := range merged {
		rows = append(rows, []string{describeGroups(members[i]), text.Printable(g.Policy.Describe()), describeCounts(g)})
	}
	return rows
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
	if g.Rollout != nil {
		text += "; rollout: " + g.Rollout.Describe()
	}
	return text
}

func formatUpdates(buffer *strings.Builder, s Screen, updates []status.Update, now time.Time) {
	var rows [][]string
	for _, u := range updates {
		if !s.All && !isWorkedOn(u) {
			continue
		}
		row := []string{
			text.Printable(u.Machine), describeUpdater(u), describeAttempt(u), describePhase(u), formatAge(now, u.Since), describeETA(u, now),
		}
		if s.All {
			row = append(row, text.Printable(u.Group), describeVersions(u), formatAge(now, u.Began), orDash(text.Printable(u.Operation)), orDash(text.Printable(u.Text())))
		}
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		return
	}
	head := []string{"Machine", "Updater", "Attempt", "Phase", "Since", "ETA"}
	if s.All {
		head = append(head, "Group", "Versions", "Began", "Operation", "Message")
	}
	buffer.WriteString("\n")
	s.table(buffer, head, rows)
}

// isWorkedOn reports whether an update has begun and not ended. Of those that have not begun there can be very many,
// and all say the same.
func isWorkedOn(u status.Update) bool {
	return u.State != status.Marked && u.State != status.Queued && u.State != status.Finished
}

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
	}
	late, left := formatAge(now, u.At), formatAge(u.At, now)
	switch {
	case u.Late && late != "0s":
		return late + " late"
	case left != "0s":
		return "in " + left
	default:
		return "now"
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
func formatList(buffer *strings.Builder, s Screen, title string, n int, item func(int) (subject, text string)) {
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
		s.indented(buffer, body, "    ")
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

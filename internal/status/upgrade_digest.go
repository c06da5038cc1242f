package status

import (
	"cmp"
	"maps"
	"regexp"
	"strings"

	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/inplace/request"
	"github.com/windlass-dev/windlass/internal/text"
)

// UpgradeDigest selects what matters to a person from the reports on one upgrade, and remembers
// what it has told. It is a value: Next does not change it. The zero value is for a group and has
// told nothing.
//
// It tells each change of a group's state, of how many Machines are done, and of why it waits. Of a
// group's Machine it tells that its upgrade begins, waits, or failed finally. An error or a reason
// that several Machines share is told once. The end of the whole upgrade is for the caller's
// verdict.
type UpgradeDigest struct {
	// Phases tells the phases of each Machine, for a person who follows a single one.
	Phases bool
	// latest is what was told last, by subject.
	latest map[string]string
	// once has what is told once in a run.
	once map[string]bool
}

// Past returns the digest that does not tell the failures of a report: they are from before the
// run.
func (d UpgradeDigest) Past(before *InPlaceUpgrades) UpgradeDigest {
	d = d.clone()
	if before == nil {
		return d
	}
	for _, m := range before.Machines {
		if m.State == UpgradeFailed {
			d.latest[machineSubject(m)] = string(UpgradeFailed) + " " + m.Option
		}
	}
	return d
}

// Next returns the lines to print for a report, and the digest that has told them. Each line is at
// most maxDigestLine bytes long if subject and state leave room.
func (d UpgradeDigest) Next(r *InPlaceUpgrades) ([]string, UpgradeDigest) {
	d = d.clone()
	var groups, machines []line
	if r == nil {
		r = &InPlaceUpgrades{}
	}
	// A group comes first: that it begins explains what follows.
	for _, g := range r.Groups {
		if l, told := d.tellGroup(g); told {
			groups = append(groups, l)
		}
	}
	for _, m := range r.Machines {
		tell := d.tellMember
		if d.Phases {
			tell = d.tellPhase
		}
		if l, told := tell(m); told {
			machines = append(machines, l)
		}
	}
	var lines []string
	for _, l := range append(groups, join(machines)...) {
		lines = append(lines, l.bounded())
	}
	return lines, d
}

func (d UpgradeDigest) clone() UpgradeDigest {
	d.latest, d.once = maps.Clone(d.latest), maps.Clone(d.once)
	if d.latest == nil {
		d.latest = map[string]string{}
	}
	if d.once == nil {
		d.once = map[string]bool{}
	}
	return d
}

// changes records what is told of a subject, and reports whether that is new.
func (d UpgradeDigest) changes(subject, told string) bool {
	changed := d.latest[subject] != told
	d.latest[subject] = told
	return changed
}

// first records what is told once, and reports whether it is the first time.
func (d UpgradeDigest) first(told string) bool {
	seen := d.once[told]
	d.once[told] = true
	return !seen
}

func (d UpgradeDigest) tellGroup(g GroupUpgrade) (line, bool) {
	g.InFlight = 0
	l := line{subject: g.Kind + " " + g.Object, state: g.Describe()}
	if g.State == UpgradeHeld {
		l.message = g.Text()
	}
	// The line of the Machine tells of a failure; the count is in the group's next line.
	g.Failed = 0
	changed := d.changes(l.subject, g.Describe())
	return l, changed && isNews(g.State)
}

// isNews reports whether the state of the target is worth a line. Asked follows the command at
// once, and the verdict has the ends.
func isNews(s UpgradeState) bool {
	return s == UpgradeHeld || s == UpgradeRunning || s == UpgradeCancelling
}

// tellPhase tells what one Machine goes through. Its change has an id about a second after its
// phase began.
func (d UpgradeDigest) tellPhase(m MachineUpgrade) (line, bool) {
	m.ChangeID = ""
	l := line{subject: machineSubject(m), state: m.Describe(), message: m.Text()}
	changed := d.changes(l.subject, l.state)
	return l, changed && isNews(m.State)
}

func machineSubject(m MachineUpgrade) string { return "Machine " + m.Machine }

// tellMember tells of a Machine of a group what its group does not tell.
func (d UpgradeDigest) tellMember(m MachineUpgrade) (line, bool) {
	l := line{subject: machineSubject(m), state: string(m.State), message: m.Text()}
	switch m.State {
	case UpgradeIdle, UpgradeAsked, UpgradeDone:
		delete(d.latest, l.subject)
		return line{}, false
	case UpgradeHeld:
		return d.tellHeld(l, m)
	case UpgradeRunning:
		return d.tellRunning(l, m)
	case UpgradeFailed:
		if !d.changes(l.subject, l.state+" "+m.Option) {
			return line{}, false
		}
		if d.hasTold(errorOf(m, l.message)) {
			l.message = "no attempt is left; the same error as above"
		}
		return l, true
	case UpgradeCancelling, UpgradeUnreadable:
		return l, d.changes(l.subject, l.state)
	}
	return line{}, false
}

func (d UpgradeDigest) tellRunning(l line, m MachineUpgrade) (line, bool) {
	begins := d.changes(l.subject, l.state+" "+m.Option)
	l.message = ""
	w := m.Work
	switch {
	case m.Reason == request.ReasonPaused || m.Reason == request.ReasonRemediating:
		l.message = strings.TrimSpace(m.Message)
		l.state += " (" + string(m.Reason) + ")"
		return l, d.first(l.subject+" "+string(m.Reason)) || begins
	case w.LastError == "" || w.Phase != inplace.BackingOff && w.Attempt < 2:
		return l, begins
	case d.first(errorPrefix + errorOf(m, w.LastError)):
		l.state, l.message = "an attempt failed and is tried again", w.LastError
		return l, true
	}
	return l, begins
}

// tellHeld tells each reason once: per Machine where a person must act on the Machine itself, else
// per run.
func (d UpgradeDigest) tellHeld(l line, m MachineUpgrade) (line, bool) {
	reason := string(cmp.Or(m.Reason, request.ReasonMachinesHeld))
	l.state += " (" + reason + ")"
	key := reason
	if m.Reason == request.ReasonPaused || m.Reason == request.ReasonRecordUnreadable {
		key += " " + m.Machine
	}
	return l, d.first("held " + key)
}

// shownNames is how many Machines one line names.
const shownNames = 4

// join makes one line of those that tell the same of several Machines.
func join(lines []line) []line {
	var joined []line
	names := map[line][]string{}
	for _, l := range lines {
		same := line{state: l.state, message: l.message}
		if names[same] == nil {
			joined = append(joined, same)
		}
		names[same] = append(names[same], strings.TrimPrefix(l.subject, "Machine "))
	}
	for i, l := range joined {
		joined[i].subject = "Machine"
		if len(names[l]) > 1 {
			joined[i].subject += "s"
		}
		joined[i].subject += " " + text.JoinSome(names[l], shownNames, ", ")
	}
	return joined
}

// errorPrefix begins what once has of an error.
const errorPrefix = "error "

// hasTold reports whether a final error contains one that was told, and records it. The final error
// of a Machine is that of its last attempt with words around it.
func (d UpgradeDigest) hasTold(final string) bool {
	for told := range d.once {
		if why, is := strings.CutPrefix(told, errorPrefix); is && strings.Contains(final, why) {
			return true
		}
	}
	d.once[errorPrefix+final] = true
	return false
}

var numbers = regexp.MustCompile(`[0-9]+`)

// errorOf returns an error without what differs between Machines: their names, and numbers.
func errorOf(m MachineUpgrade, message string) string {
	return numbers.ReplaceAllString(strings.ReplaceAll(message, m.Machine, "MACHINE"), "0")
}

// maxDigestLine is how many bytes a line has at most, so that with the time it takes two rows of a
// terminal of 80 columns. A message gets at least minDigestMessage.
const maxDigestLine, minDigestMessage = 150, 40

func (l line) bounded() string {
	room := maxDigestLine - len(l.subject) - len(l.state) - len(": : ")
	l.message = text.Bound(l.message, max(room, minDigestMessage))
	return l.String()
}

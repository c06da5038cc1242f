package status

import (
	"fmt"
	"strings"
	"time"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
)

// Changes returns one line for each thing that differs between two reports of the same cluster, for people who follow
// them. A message that changes by itself is no change: updaters count seconds there.
func Changes(before, after Report) []string {
	var changes []string
	self := func(l line) line { return l }
	diff(lines(before), lines(after), self, func(text string, _ line) { changes = append(changes, text) })
	for _, c := range ComputeUpgradeChanges(before.InPlace, after.InPlace) {
		changes = append(changes, "in-place upgrade of "+c.Text)
	}
	return changes
}

// diff adds the text of each item whose line has another state than before, then those that are
// gone, with a zero item.
func diff[T any](before, after []T, lineOf func(T) line, add func(text string, item T)) {
	old := map[string]line{}
	for _, item := range before {
		old[lineOf(item).subject] = lineOf(item)
	}
	for _, item := range after {
		l := lineOf(item)
		if old[l.subject].state != l.state && !l.brief {
			add(l.String(), item)
		}
		delete(old, l.subject)
	}
	for _, item := range before {
		l := lineOf(item)
		if _, gone := old[l.subject]; gone {
			add(l.subject+": "+l.gone, *new(T))
		}
	}
}

// line is one thing of a report. It has changed when its state has.
type line struct {
	subject, state, message string
	// gone is what to say when the thing is not in the report any more.
	gone string
	// brief is a state that lasts a second: people do not follow it.
	brief bool
}

func (l line) String() string {
	text := l.subject + ": " + l.state
	if l.message != "" {
		text += ": " + l.message
	}
	return text
}

func lines(r Report) []line {
	all := chainLines(r.Chain)
	for _, g := range r.Groups {
		all = append(all, line{subject: fmt.Sprintf("%s %s", g.Kind, g.Object), state: g.Policy.Describe(), gone: "gone"})
	}
	updates := map[string]Update{}
	for _, u := range r.Updates {
		updates[u.Machine] = u
	}
	for _, m := range r.Machines {
		l := line{subject: fmt.Sprintf("Machine %s (%s)", m.Name, m.Group), state: fmt.Sprintf("%s, %s", m.State, m.Version), gone: "gone"}
		if u, under := updates[m.Name]; under {
			l.state, l.message = u.describe(), u.Text()
			l.brief = u.State == Marked || u.State == Finished
		}
		all = append(all, l)
	}
	for _, d := range r.Deletions {
		all = append(all, line{
			subject: "deletion of Machine " + d.Machine, state: d.Reason, message: d.Text(),
			gone: "no longer held",
		})
	}
	for _, b := range r.Blocked {
		all = append(all, line{
			subject: fmt.Sprintf("%s %s is blocked", b.Kind, b.Name), state: b.Reason, message: b.Message, gone: "no longer",
		})
	}
	for _, d := range r.Dirty {
		all = append(all, line{
			subject: fmt.Sprintf("Machine %s, %s of the %s", d.Machine, d.Path, d.Part), state: "dirty since " + d.Since.UTC().Format(time.RFC3339),
			gone: "not dirty any more",
		})
	}
	for _, p := range r.Problems {
		all = append(all, line{subject: fmt.Sprintf("%s %s, annotation %s", p.Kind, p.Name, p.Annotation), state: p.Message, gone: "read"})
	}
	return all
}

// Describe says in a few words what a policy does.
func (p Policy) Describe() string {
	if p.Limits != nil && p.Problem == "" {
		if limits := p.Limits.Describe(); limits != "" {
			return p.describe() + " (" + limits + ")"
		}
	}
	return p.describe()
}

func (p Policy) describe() string {
	switch {
	case p.Problem != "":
		return "blocked: " + p.Problem
	case p.Name == "":
		return "no UpdatePolicy: replace"
	case p.Fallback == "":
		return p.Name + ": replace"
	case p.Fallback == v1alpha1.FallbackRollingUpdate:
		return p.Name + ": in place, else replace"
	default:
		return p.Name + ": in place only"
	}
}

// describe is what must change for an update to be worth a line.
func (u Update) describe() string {
	parts := []string{string(u.State)}
	if u.Phase != "" && string(u.Phase) != string(u.State) {
		parts[0] += " (" + string(u.Phase) + ")"
	}
	if !u.To.IsZero() {
		parts = append(parts, "to "+u.To.String())
	}
	if u.Updater != "" {
		parts = append(parts, fmt.Sprintf("by %s (%d of %d)", u.Updater, u.Step, u.Steps))
	}
	if u.Attempt > 0 {
		parts = append(parts, fmt.Sprintf("attempt %d", u.Attempt))
	}
	return strings.Join(parts, ", ")
}

// Text is what a person should read about an update: why its last attempt failed where nothing has begun since, or else its
// message.
func (u Update) Text() string {
	if u.LastError != "" && (u.State == Failed || u.Phase == inplace.BackingOff) {
		return u.LastError
	}
	return withFix(u.Message, u.Fix)
}

package status

import (
	"fmt"
	"strings"

	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/inplace/request"
)

// UpgradeChange is something about an upgrade that has changed. Exactly one of Machine and Group is set, unless Text says all that there is.
type UpgradeChange struct {
	Text    string
	Machine *MachineUpgrade
	Group   *GroupUpgrade
}

// ComputeUpgradeChanges returns what differs between two reports on upgrades that annotations ask for, Machines first. Either may be nil. A message that
// changes by itself is no change.
func ComputeUpgradeChanges(before, after *InPlaceUpgrades) []UpgradeChange {
	var changes []UpgradeChange
	lineOf := func(l upgradeLine) line { return l.line }
	diff(upgradeLines(before), upgradeLines(after), lineOf, func(text string, l upgradeLine) {
		changes = append(changes, UpgradeChange{Text: text, Machine: l.machine, Group: l.group})
	})
	return changes
}

type upgradeLine struct {
	line    line
	machine *MachineUpgrade
	group   *GroupUpgrade
}

func upgradeLines(r *InPlaceUpgrades) []upgradeLine {
	if r == nil {
		return nil
	}
	var all []upgradeLine
	for _, m := range r.Machines {
		all = append(all, upgradeLine{machine: &m, line: line{
			subject: "Machine " + m.Machine, state: m.Describe(), message: m.Text(), gone: "nothing is asked for any more",
		}})
	}
	for _, g := range r.Groups {
		all = append(all, upgradeLine{group: &g, line: line{
			subject: g.Kind + " " + g.Object, state: g.Describe(), message: g.Text(), gone: "nothing is asked for any more",
		}})
	}
	if r.Lock != nil {
		all = append(all, upgradeLine{line: line{subject: "lock of the control plane", state: r.Lock.Describe(), gone: "released"}})
	}
	return all
}

// Describe says who holds a lock.
func (l Lock) Describe() string {
	if l.Problem != "" {
		return "held by somebody: " + l.Problem
	}
	return "held by Machine " + l.Machine
}

// describe names the state, what it is about, and why where that is no state of its own.
func (a Asking) describe() []string {
	text := string(a.State)
	if a.State == UpgradeHeld && a.Reason != "" {
		text += " (" + string(a.Reason) + ")"
	}
	parts := []string{text}
	if a.Option != "" {
		parts = append(parts, a.Option)
	}
	if a.To != "" && a.To != a.Option {
		parts = append(parts, "then "+a.To)
	}
	return parts
}

// Describe says in a few words how an upgrade stands: what must change for it to be worth a line.
func (m MachineUpgrade) Describe() string {
	parts := m.describe()
	w := m.Work
	if m.State != UpgradeRunning && m.State != UpgradeCancelling {
		return strings.Join(parts, ", ")
	}
	if w.Phase != "" && w.Phase != inplace.Updating {
		parts[0] += " (" + string(w.Phase) + ")"
	}
	if m.Reason == request.ReasonPaused || m.Reason == request.ReasonRemediating {
		parts[0] += ", " + string(m.Reason)
	}
	if w.Updater != "" {
		parts = append(parts, fmt.Sprintf("by %s (%d of %d)", w.Updater, w.Step, w.Steps))
	}
	if w.Attempt > 0 {
		parts = append(parts, fmt.Sprintf("attempt %d", w.Attempt))
	}
	if m.ChangeID != "" {
		parts = append(parts, "change "+m.ChangeID)
	}
	return strings.Join(parts, ", ")
}

// Text is what a person should read about an upgrade.
func (m MachineUpgrade) Text() string {
	if m.Work.Phase == inplace.BackingOff && m.Work.LastError != "" {
		return m.Work.LastError
	}
	return withFix(strings.TrimSpace(m.Message), m.Work.Fix)
}

// Describe says in a few words how the upgrade of a group stands.
func (g GroupUpgrade) Describe() string {
	parts := g.describe()
	if g.Option != "" {
		parts = append(parts, "machines "+g.Count())
	}
	return strings.Join(parts, ", ")
}

// Count says how many machines are how far.
func (g GroupUpgrade) Count() string {
	text := fmt.Sprintf("%d of %d", g.Done, g.Machines)
	if g.InFlight > 0 {
		text += fmt.Sprintf(", %d in flight", g.InFlight)
	}
	if g.Failed > 0 {
		text += fmt.Sprintf(", %d failed", g.Failed)
	}
	return text
}

// Text is what a person should read about the upgrade of a group: why it or its other machines wait,
// or why it has failed. What else the condition says is in the counts.
func (g GroupUpgrade) Text() string {
	if g.Reason == request.ReasonMachines {
		_, why, _ := strings.Cut(g.Message, " in flight; ")
		return why
	}
	return strings.TrimSpace(g.Message)
}

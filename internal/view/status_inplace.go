package view

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/windlass-dev/windlass/internal/status"
	"github.com/windlass-dev/windlass/internal/text"
)

// formatInPlace shows the upgrades that annotations ask for, where any goes on or waits for somebody.
func formatInPlace(buffer *strings.Builder, s Screen, r *status.InPlaceUpgrades, now time.Time) {
	if r == nil {
		return
	}
	groups, machines := openUpgrades(s, r)
	if len(groups) == 0 && len(machines) == 0 && r.Lock == nil {
		return
	}
	buffer.WriteString("\nUpgrades in place that annotations ask for:\n")
	formatGroupUpgrades(buffer, s, groups, now)
	if len(groups) > 0 && len(machines) > 0 {
		buffer.WriteString("\n")
	}
	formatMachineUpgrades(buffer, s, machines, now)
	if r.Lock != nil {
		buffer.WriteString("\n" + text.Printable(fmt.Sprintf("The lock of the control plane is %s, for %s.", r.Lock.Describe(), formatAge(now, r.Lock.Since))) + "\n")
	}
	formatWhy(buffer, s, groups, machines)
}

// openUpgrades returns the upgrades that go on or wait for somebody, or all where all are to be shown.
func openUpgrades(s Screen, r *status.InPlaceUpgrades) ([]status.GroupUpgrade, []status.MachineUpgrade) {
	if r == nil {
		return nil, nil
	}
	groups := slices.DeleteFunc(slices.Clone(r.Groups), func(g status.GroupUpgrade) bool {
		return !s.All && !g.State.IsOpen()
	})
	machines := slices.DeleteFunc(slices.Clone(r.Machines), func(m status.MachineUpgrade) bool {
		return !s.All && !m.State.IsOpen()
	})
	return groups, machines
}

// formatWhy lists the messages of upgrades.
func formatWhy(
	buffer *strings.Builder, s Screen, groups []status.GroupUpgrade, machines []status.MachineUpgrade,
) {
	said := saidOfUpgrades(groups, machines)
	formatList(buffer, s, "Why", len(said), func(i int) (string, string) { return said[i][0], said[i][1] })
}

// inPlaceVerdict says how the upgrades that annotations ask for are, and whether one has failed. It is
// empty if none is open.
func inPlaceVerdict(r *status.InPlaceUpgrades) (words string, anyFailed bool) {
	if r == nil {
		return "", false
	}
	open := 0
	var failed []string
	add := func(s status.UpgradeState, name string) {
		if s.IsOpen() {
			open++
		}
		if s == status.UpgradeFailed {
			failed = append(failed, name)
		}
	}
	for _, g := range r.Groups {
		add(g.State, g.Name)
	}
	for _, m := range r.Machines {
		if m.ByHand {
			add(m.State, "Machine "+m.Machine)
		}
	}
	switch {
	case open == 0:
		return "", false
	case len(failed) > 0:
		return fmt.Sprintf("%d of %s in place by annotation failed: %s.",
			len(failed), text.Count(open, "upgrade"), joinNames(failed)), true
	default:
		return "Annotations ask for " + text.Count(open, "upgrade") + " in place.", false
	}
}

// saidOfUpgrades pairs what there is to say about upgrades with what it is about.
func saidOfUpgrades(groups []status.GroupUpgrade, machines []status.MachineUpgrade) [][2]string {
	var said [][2]string
	add := func(subject string, a status.Asking, words string) {
		switch {
		case words == "":
		case a.Reason != "":
			said = append(said, [2]string{subject, fmt.Sprintf("%s: %s", a.Reason, words)})
		default:
			said = append(said, [2]string{subject, words})
		}
	}
	for _, g := range groups {
		add(g.Kind+" "+g.Object, g.Asking, g.Text())
	}
	for _, m := range machines {
		add("Machine "+m.Machine, m.Asking, m.Text())
	}
	return said
}

func formatGroupUpgrades(buffer *strings.Builder, s Screen, groups []status.GroupUpgrade, now time.Time) {
	if len(groups) == 0 {
		return
	}
	rows := make([][]string, 0, len(groups))
	for _, g := range groups {
		rows = append(rows, []string{text.Printable(g.Name), string(g.State), describeOption(g.Asking), g.Count(), formatAge(now, g.Began)})
	}
	s.table(buffer, []string{"Group", "State", "Option", "Machines", "Began"}, rows)
}

func formatMachineUpgrades(buffer *strings.Builder, s Screen, machines []status.MachineUpgrade, now time.Time) {
	if len(machines) == 0 {
		return
	}
	rows := make([][]string, 0, len(machines))
	for _, m := range machines {
		since := m.Work.Since
		if since.IsZero() {
			since = m.Told
		}
		row := []string{text.Printable(m.Machine), describeUpgradePhase(m), describeOption(m.Asking), describeUpdater(m.Work), formatAge(now, since)}
		if s.All {
			row = append(row, orDash(text.Printable(m.Group)), describeHand(m.ByHand), describeAttempt(m.Work), orDash(text.Printable(m.ChangeID)), orDash(text.Printable(m.Release)))
		}
		rows = append(rows, row)
	}
	head := []string{"Machine", "State", "Option", "Updater", "Since"}
	if s.All {
		head = append(head, "Group", "Asked by", "Attempt", "Change", "Release")
	} else {
		for i, m := range machines {
			if m.ByHand {
				rows[i][0] += " (by hand)"
			}
		}
	}
	s.table(buffer, head, rows)
}

func describeUpgradePhase(m status.MachineUpgrade) string {
	if m.Work.Phase != "" && m.State == status.UpgradeRunning {
		return text.Printable(string(m.Work.Phase))
	}
	return string(m.State)
}

func describeHand(byHand bool) string {
	if byHand {
		return "hand"
	}
	return "group"
}

func describeOption(a status.Asking) string {
	words := orDash(a.Option)
	if a.To != "" && a.To != a.Option {
		words += ", then " + a.To
	}
	return text.Printable(words)
}

package view

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/windlass-dev/windlass/internal/status"
	"github.com/windlass-dev/windlass/internal/text"
)

// shownMachines is how many machines of one group the tree shows.
const shownMachines = 8

// barWidth is the number of characters of a bar, narrowBarWidth that on a screen of fewer than wideScreen columns.
const barWidth, narrowBarWidth, wideScreen = 20, 10, 100

// WriteTree shows how a cluster stands as a tree for a person who follows it: the Cluster, its control plane, its pools,
// and the machines that something is done with. now is what ages and remaining times are counted from.
func WriteTree(w io.Writer, s Screen, r status.Report, now time.Time) error {
	var buffer strings.Builder
	s.verdict(&buffer, statusTone(r), statusVerdict(r, now))
	buffer.WriteString("\n")
	clusterBranch(r, now).write(&buffer, s, "", "")
	if r.Chain != nil {
		formatHolds(&buffer, s, r.Chain.Holds, now)
	}
	formatBlocked(&buffer, s, r.Blocked, now)
	formatMessages(&buffer, s, r.Updates, r.Blocked)
	groups, machines := openUpgrades(s, r.InPlace)
	formatWhy(&buffer, s, groups, machines)
	return writeText(w, buffer.String())
}

// branch is a line of a tree with what is below it. Text follows the bar, which is drawn where total is not 0.
type branch struct {
	name        string
	done, total int
	text        string
	tone        tone
	children    []branch
}

// write writes a branch. first goes before its line, and rest before the lines below it.
func (b branch) write(buffer *strings.Builder, s Screen, first, rest string) {
	line := first + text.Printable(b.name)
	bar := ""
	if b.total > 0 {
		bar = s.bar(b.done, b.total)
		line += "  " + bar
	}
	if b.text != "" {
		line += "  " + text.Printable(b.text)
	}
	line = cut(line, s.Width)
	if bar != "" {
		// What is cut has no whole bar, and no color.
		line = strings.Replace(line, bar, s.paint(b.tone, bar), 1)
	} else {
		line = first + s.paint(b.tone, strings.TrimPrefix(line, first))
	}
	buffer.WriteString(line + "\n")
	for i, child := range b.children {
		if i == len(b.children)-1 {
			child.write(buffer, s, rest+"└─ ", rest+"   ")
			continue
		}
		child.write(buffer, s, rest+"├─ ", rest+"│  ")
	}
}

// cut shortens a line to a width; 0 means no limit.
func cut(line string, width int) string {
	runes := []rune(line)
	if width <= 0 || len(runes) <= width {
		return line
	}
	return string(runes[:max(width-1, 0)]) + "…"
}

// clusterBranch says how many steps of the upgrade are done, and when it should end.
func clusterBranch(r status.Report, now time.Time) branch {
	root := branch{name: "Cluster " + r.Cluster, tone: fair, children: groupBranches(r, now)}
	if r.Chain == nil || len(r.Chain.Steps) == 0 {
		root.tone = neutral
		return root
	}
	if !r.Chain.HasPlan() {
		root.text = text.Count(countDone(r.Chain.Steps), "step") + " done"
		return root
	}
	root.done, root.total = countDone(r.Chain.Steps), len(r.Chain.Steps)
	root.text = fmt.Sprintf("%d of %s", root.done, text.Count(root.total, "step"))
	if r.Chain.ETA.Known() {
		root.text += ", ETA " + describeEstimate(r.Chain.ETA, now)
	}
	return root
}

// groupBranches returns the groups. Where there are very many, those that nothing is done with share a line.
func groupBranches(r status.Report, now time.Time) []branch {
	all := make([]branch, 0, len(r.Groups))
	versions, machines := versionsByGroup(r.Machines), machinesByGroup(r, now)
	var idle status.Group
	idleGroups := 0
	for _, g := range r.Groups {
		g.Count = lasting(g.Count)
		b := groupBranch(g, versions[g.Name], machines[g.Name])
		if len(r.Groups) <= shownGroupRows || g.Name == status.ControlPlaneGroup || len(b.children) > 0 {
			all = append(all, b)
			continue
		}
		idle.Count = addCounts(idle.Count, g.Count)
		idle.Machines += g.Machines
		idle.Missing += g.Missing
		idle.Policy.Problem = cmp.Or(idle.Policy.Problem, g.Policy.Problem)
		idleGroups++
	}
	if idleGroups > 0 {
		all = append(all, progressBranch(text.Count(idleGroups, "more group"), idle))
	}
	return all
}

func progressBranch(name string, g status.Group) branch {
	return branch{
		name: name, done: g.Count[status.UpToDate], total: g.Machines + g.Missing,
		text: describeCounts(g), tone: groupTone(g),
	}
}

func groupBranch(g status.Group, versions []string, machines []branch) branch {
	name := g.Name
	if len(versions) > 0 {
		name += "  " + strings.Join(versions, ", ")
	}
	b := progressBranch(name, g)
	// A failed machine must not be among those that are left out.
	b.children = slices.SortedStableFunc(slices.Values(machines), func(a, b branch) int {
		return cmp.Compare(b.tone, a.tone)
	})
	if more := len(machines) - shownMachines; more > 0 {
		b.children = append(b.children[:shownMachines], branch{name: fmt.Sprintf("%d more", more)})
	}
	return b
}

// versionsByGroup lists the versions in the specs of each group's machines.
func versionsByGroup(machines []status.Machine) map[string][]string {
	versions := make(map[string][]string)
	for _, m := range machines {
		if m.Version != "" && !slices.Contains(versions[m.Group], m.Version) {
			versions[m.Group] = append(versions[m.Group], m.Version)
		}
	}
	for _, list := range versions {
		slices.Sort(list)
	}
	return versions
}

// machinesByGroup returns a line for each machine that something is done with.
func machinesByGroup(r status.Report, now time.Time) map[string][]branch {
	machines := make(map[string][]branch)
	for _, u := range r.Updates {
		if isWorkedOn(u) {
			machines[u.Group] = append(machines[u.Group], updatedMachine(u, now))
		}
	}
	if r.InPlace == nil {
		return machines
	}
	for _, m := range r.InPlace.Machines {
		if m.State.IsOpen() {
			machines[m.Group] = append(machines[m.Group], upgradedMachine(m, now))
		}
	}
	return machines
}

func updatedMachine(u status.Update, now time.Time) branch {
	words := fmt.Sprintf("%s  %s", u.Machine, describePhase(u))
	if u.Updater != "" {
		words += "  " + describeUpdater(u)
	}
	if u.Attempt > 1 || u.State == status.Failed {
		words += "  attempt " + describeAttempt(u)
	}
	if !u.Since.IsZero() {
		words += "  for " + formatAge(now, u.Since)
	}
	if u.State == status.Updating && !u.At.IsZero() {
		words += "  ETA " + describeETA(u, now)
	}
	machine := branch{name: words}
	if u.State == status.Failed || u.State == status.Unreadable {
		machine.tone = bad
	}
	return machine
}

func upgradedMachine(m status.MachineUpgrade, now time.Time) branch {
	words := fmt.Sprintf("%s  %s  %s", m.Machine, describeUpgradePhase(m), describeOption(m.Asking))
	if m.Work.Updater != "" {
		words += "  " + describeUpdater(m.Work)
	}
	if !m.Work.Since.IsZero() {
		words += "  for " + formatAge(now, m.Work.Since)
	}
	machine := branch{name: words}
	if m.State == status.UpgradeFailed {
		machine.tone = bad
	}
	return machine
}

// bar draws how much of something is done. total is positive.
func (s Screen) bar(done, total int) string {
	width := barWidth
	if s.Width > 0 && s.Width < wideScreen {
		width = narrowBarWidth
	}
	filled := width * min(done, total) / total
	return strings.Repeat("█", filled) + strings.Repeat("░", width-filled)
}

package rollouts

import (
	"fmt"
	"strings"
)

// String draws a world: MachineSets with their Machines.
func (w *scene) String() string {
	var parts []string
	for i, set := range w.sets {
		if !set.exists && w.owned(uint8(i)) == 0 {
			continue
		}
		text := fmt.Sprintf("ms%d has %d replicas, status %s", i, set.replicas, set.status.text())
		if set.deleting {
			text += " deleting"
		}
		if set.moveTo != 0 {
			text += fmt.Sprintf(" to ms%d", set.moveTo-1)
		}
		if set.receive != 0 {
			text += " receives"
		}
		if set.acknowledged != 0 {
			text += " ack " + listMachines(set.acknowledged)
		}
		var owned []word
		for k, m := range w.machines {
			owned = append(owned, word{m.exists && int(m.owner) == i, " " + m.text(k)})
		}
		parts = append(parts, text+set.text()+" ["+words(owned)+" ]")
	}
	return fmt.Sprintf("%d of template %d; ", w.md.replicas, w.md.template) + strings.Join(parts, "; ")
}

func (m machine) text(i int) string {
	return machineName(i) + words([]word{
		{!m.available, "-unavailable"}, {m.broken, "-broken"}, {m.hangs, "-hangs"},
		{m.overdue, "-overdue"}, {m.deleting, "-deleting"}, {m.updating, "-updating"},
		{m.pending, "-pending"}, {m.hook, "-hook"},
	})
}

// word is a part of a text, if it counts.
type word struct {
	counts bool
	text   string
}

// words joins those that count.
func words(all []word) string {
	var text strings.Builder
	for _, w := range all {
		if w.counts {
			text.WriteString(w.text)
		}
	}
	return text.String()
}

// text names the counters in the order of their fields.
func (n numbers) text() string {
	return fmt.Sprintf("%d/%d/%d", n.machines, n.available, n.upToDate)
}

// written names what the MachineDeployment controller writes to a MachineSet.
func (s setSpec) written() string {
	text := fmt.Sprintf("%d replicas, revision %d, desired %d", s.replicas, s.revision, s.desired)
	return text + words([]word{
		{s.moveTo != 0, fmt.Sprintf(", moves to ms%d", int(s.moveTo)-1)},
		{s.receive != 0, ", receives from " + listSlots(s.receive)},
		{s.acknowledged != 0, ", counts " + listMachines(s.acknowledged)},
		{s.returning != 0, ", returns " + listMachines(s.returning)},
		{s.noCreate, ", creates none"}, {s.noUpdate, ", no update"},
	})
}

// listSlots names MachineSets as traces do.
func listSlots(bits uint8) string {
	var list []string
	for i := range maxTemplates {
		if has(bits, i) {
			list = append(list, fmt.Sprintf("ms%d", i))
		}
	}
	return strings.Join(list, ",")
}

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
		text += set.text() + " ["
		for k, m := range w.machines {
			if m.exists && int(m.owner) == i {
				text += " " + m.text(k)
			}
		}
		parts = append(parts, text+" ]")
	}
	return fmt.Sprintf("%d of template %d; ", w.md.replicas, w.md.template) + strings.Join(parts, "; ")
}

func (m machine) text(i int) string {
	flags := []struct {
		set  bool
		text string
	}{
		{!m.available, "-unavailable"}, {m.broken, "-broken"}, {m.hangs, "-hangs"}, {m.overdue,
			"-overdue"}, {m.deleting, "-deleting"},
		{m.updating, "-updating"}, {m.pending, "-pending"}, {m.hook, "-hook"},
	}
	text := machineName(i)
	for _, f := range flags {
		if f.set {
			text += f.text
		}
	}
	return text
}

// text names the counters in the order of their fields.
func (n numbers) text() string {
	return fmt.Sprintf("%d/%d/%d", n.machines, n.available, n.upToDate)
}

// written names what the MachineDeployment controller writes to a MachineSet.
func (s setSpec) written() string {
	text := fmt.Sprintf("%d replicas, revision %d, desired %d", s.replicas, s.revision, s.desired)
	for _, part := range []struct {
		set  bool
		text string
	}{
		{s.moveTo != 0, "moves to ms" + fmt.Sprint(int(s.moveTo)-1)},
		{s.receive != 0, "receives from " + listSlots(s.receive)},
		{s.acknowledged != 0, "counts " + listMachines(s.acknowledged)},
		{s.returning != 0, "returns " + listMachines(s.returning)},
		{s.noCreate, "creates none"}, {s.noUpdate, "no update"},
	} {
		if part.set {
			text += ", " + part.text
		}
	}
	return text
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

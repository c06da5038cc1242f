package pool_test

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
		text := fmt.Sprintf("ms%d %d%v", i, set.replicas, set.status)
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

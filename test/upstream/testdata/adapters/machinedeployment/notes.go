package machinedeployment

import (
	"fmt"
	"slices"
	"strings"

	"github.com/windlass-dev/windlass/internal/pool"
)

// upstreamNotes translates our reasons into upstream's notes, which its golden files contain.
var upstreamNotes = map[pool.NoteReason]func(pool.Note) string{
	pool.ReasonCurrent: func(pool.Note) string { return "this is now the current MachineSet" },
	pool.ReasonMovesAcknowledged: func(n pool.Note) string {
		return fmt.Sprintf(
			"acknowledge Machines %s moved from an old MachineSet",
			sortAndJoin(n.Machines),
		)
	},
	pool.ReasonReplicasLowered: func(pool.Note) string {
		return "scale down to align MachineSet spec.replicas to MachineDeployment spec.replicas"
	},
	pool.ReasonSurgeAvailable: func(n pool.Note) string {
		return fmt.Sprintf("%d current Machines < %d MachineDeployment spec.replicas + %d maxSurge",
			n.Count, n.Limit, n.Surge)
	},
	pool.ReasonMachinesMissing: func(n pool.Note) string {
		return fmt.Sprintf(
			"%d current Machines < %d MachineDeployment spec.replicas",
			n.Count,
			n.Limit,
		)
	},
	pool.ReasonMachinesGone: func(pool.Note) string {
		return "scale down to align to existing Machines"
	},
	pool.ReasonNoAvailabilityLost: func(pool.Note) string {
		return "scale down to align to existing Machines or scale down by removing unavailable " +
			"replicas (and no available replicas exist on the MachineSet)"
	},
	pool.ReasonAvailabilitySpare: func(n pool.Note) string {
		return fmt.Sprintf(
			"%d available replicas > %d minimum available replicas",
			n.Count,
			n.Limit,
		)
	},
	pool.ReasonMove: func(n pool.Note) string {
		return "should scale down by moving Machines to MachineSet " + n.MachineSet
	},
	pool.ReasonSurgeForInPlace: func(pool.Note) string {
		return "surge 1 allowed to create availability for in-place updates"
	},
	pool.ReasonSurgeDropped: func(n pool.Note) string {
		return fmt.Sprintf("surge %d dropped to prioritize in-place updates", n.Count)
	},
	pool.ReasonDeadlock: func(pool.Note) string {
		return "scaling down by 1 to unblock rollout stuck due to unavailable Machine on oldMS"
	},
}

func (p *rolloutPlanner) addNotes(name string, notes []pool.Note) {
	for _, n := range notes {
		text := upstreamNotes[n.Reason](n)
		if !slices.Contains(p.notes[name], text) {
			p.notes[name] = append(p.notes[name], text)
		}
	}
}

func sortAndJoin(names []string) string {
	return strings.Join(slices.Sorted(slices.Values(names)), ",")
}

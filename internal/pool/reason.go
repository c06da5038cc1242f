package pool

import (
	"fmt"
	"slices"

	"github.com/windlass-dev/windlass/internal/text"
)

// NoteReason says in one word why a plan changes a MachineSet. Reasons are stable: logs and tests
// use them.
type NoteReason string

// Reasons for the replicas and the marks of a MachineSet.
const (
	// ReasonCurrent: the MachineSet of an earlier template matches the MachineDeployment's template
	// again.
	ReasonCurrent NoteReason = "Current"
	// ReasonMovesAcknowledged: Machines that moved to the MachineSet count as its replicas from now
	// on.
	ReasonMovesAcknowledged NoteReason = "MovesAcknowledged"
	// ReasonReplicasLowered: the MachineSets ask for more replicas than the MachineDeployment.
	ReasonReplicasLowered NoteReason = "ReplicasLowered"
	// ReasonSurgeAvailable: fewer Machines exist than spec.replicas and maxSurge allow.
	ReasonSurgeAvailable NoteReason = "SurgeAvailable"
	// ReasonMachinesMissing: fewer Machines exist than spec.replicas asks for, and no surge is allowed
	// (strategy OnDelete, or a group whose Machines are kept).
	ReasonMachinesMissing NoteReason = "MachinesMissing"
	// ReasonMachinesGone: the MachineSet asks for Machines that do not exist any more.
	ReasonMachinesGone NoteReason = "MachinesGone"
	// ReasonNoAvailabilityLost: the replicas taken away have no Machine, or no Machine of the
	// MachineSet is available.
	ReasonNoAvailabilityLost NoteReason = "NoAvailabilityLost"
	// ReasonAvailabilitySpare: more Machines are available than maxUnavailable requires.
	ReasonAvailabilitySpare NoteReason = "AvailabilitySpare"
	// ReasonMove: Machines move to the new MachineSet to be updated in place.
	ReasonMove NoteReason = "Move"
	// ReasonSurgeForInPlace: one spare Machine is created, because no update in place can begin
	// without it.
	ReasonSurgeForInPlace NoteReason = "SurgeForInPlace"
	// ReasonSurgeDropped: no spare Machine is created, because updates in place go first.
	ReasonSurgeDropped NoteReason = "SurgeDropped"
	// ReasonDeadlock: neither scaling up nor down is possible; one Machine of an old MachineSet is
	// given up.
	ReasonDeadlock NoteReason = "Deadlock"
	// ReasonProportional: the rollout is paused and the MachineSets are scaled in proportion to
	// their sizes.
	ReasonProportional NoteReason = "Proportional"
)

// Note is one reason for a change of a MachineSet, with what its message needs.
type Note struct {
	Reason NoteReason
	// Machines are the Machines meant by ReasonMovesAcknowledged, sorted.
	Machines []string
	// MachineSet is the target of ReasonMove.
	MachineSet string
	// Count is how many there are: Machines (SurgeAvailable, MachinesMissing), available Machines
	// (AvailabilitySpare), or spare Machines (SurgeDropped).
	Count int32
	// Limit is what Count is compared with: spec.replicas, or the number that must be available.
	Limit int32
	// Surge is how many Machines may exist beyond Limit.
	Surge int32
}

// mostShown is how many Machines a note names.
const mostShown = 5

// Message explains the note to a person.
func (n Note) Message() string { return messages[n.Reason](n) }

// messages has one entry per NoteReason.
var messages = map[NoteReason]func(Note) string{
	ReasonCurrent: fixed("the MachineDeployment's template matches this MachineSet again"),
	ReasonMovesAcknowledged: func(n Note) string {
		return fmt.Sprintf("Machines %s moved to this MachineSet",
			text.JoinSome(n.Machines, mostShown, ", "))
	},
	ReasonReplicasLowered: fixed("the MachineDeployment asks for fewer replicas"),
	ReasonSurgeAvailable: func(n Note) string {
		return fmt.Sprintf("%d Machines exist, %d are desired, and maxSurge allows %d more",
			n.Count, n.Limit, n.Surge)
	},
	ReasonMachinesMissing: func(n Note) string {
		return fmt.Sprintf("%d Machines exist and %d are desired", n.Count, n.Limit)
	},
	ReasonMachinesGone: fixed("Machines of this MachineSet were deleted"),
	ReasonNoAvailabilityLost: fixed("the removed replicas have no Machine, or no Machine of the " +
		"MachineSet is available"),
	ReasonAvailabilitySpare: func(n Note) string {
		return fmt.Sprintf("%d Machines are available and %d must be", n.Count, n.Limit)
	},
	ReasonMove: func(n Note) string {
		return fmt.Sprintf("Machines move to MachineSet %s and are updated in place", n.MachineSet)
	},
	ReasonSurgeForInPlace: fixed("one spare Machine is created, so that updates in place can begin"),
	ReasonSurgeDropped: func(n Note) string {
		return fmt.Sprintf("%d spare Machines are not created, because updates in place go first",
			n.Count)
	},
	ReasonDeadlock: fixed("an unavailable Machine of an old MachineSet blocks the rollout and is " +
		"given up"),
	ReasonProportional: fixed("the rollout is paused, and the MachineSet is scaled in proportion " +
		"to its size"),
}

func fixed(s string) func(Note) string { return func(Note) string { return s } }

// addNote returns notes with n at the end, unless an equal one is there already.
func addNote(notes []Note, n Note) []Note {
	for _, old := range notes {
		if old.Reason == n.Reason && old.Message() == n.Message() {
			return notes
		}
	}
	return append(slices.Clip(notes), n)
}

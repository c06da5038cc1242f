package pool

import (
	"fmt"
	"strings"
)

// Reason says in one word why the rules decided something. Reasons are stable: conditions, logs and
// tests use them.
type Reason string

// Reasons for the replicas and the marks of a MachineSet.
const (
	// ReasonCurrent: the MachineSet of an earlier template matches the MachineDeployment's template
	// again.
	ReasonCurrent Reason = "Current"
	// ReasonMovesAcknowledged: Machines that moved to the MachineSet count as its replicas from now
	// on.
	ReasonMovesAcknowledged Reason = "MovesAcknowledged"
	// ReasonReplicasLowered: the MachineSets ask for more replicas than the MachineDeployment.
	ReasonReplicasLowered Reason = "ReplicasLowered"
	// ReasonSurgeAvailable: fewer Machines exist than spec.replicas and maxSurge allow.
	ReasonSurgeAvailable Reason = "SurgeAvailable"
	// ReasonMachinesMissing: fewer Machines exist than spec.replicas asks for (strategy OnDelete).
	ReasonMachinesMissing Reason = "MachinesMissing"
	// ReasonMachinesGone: the MachineSet asks for Machines that do not exist any more.
	ReasonMachinesGone Reason = "MachinesGone"
	// ReasonNoAvailabilityLost: the replicas taken away have no Machine, or no Machine of the
	// MachineSet is available.
	ReasonNoAvailabilityLost Reason = "NoAvailabilityLost"
	// ReasonAvailabilitySpare: more Machines are available than maxUnavailable requires.
	ReasonAvailabilitySpare Reason = "AvailabilitySpare"
	// ReasonMove: Machines move to the new MachineSet to be updated in place.
	ReasonMove Reason = "Move"
	// ReasonSurgeForInPlace: one spare Machine is created, because no update in place can begin
	// without it.
	ReasonSurgeForInPlace Reason = "SurgeForInPlace"
	// ReasonSurgeDropped: no spare Machine is created, because updates in place go first.
	ReasonSurgeDropped Reason = "SurgeDropped"
	// ReasonDeadlock: neither scaling up nor down is possible; one Machine of an old MachineSet is
	// given up.
	ReasonDeadlock Reason = "Deadlock"
	// ReasonProportional: the rollout is paused and the MachineSets are scaled in proportion to
	// their sizes.
	ReasonProportional Reason = "Proportional"
)

// Note is one reason for a change of a MachineSet, with what its message needs.
type Note struct {
	Reason Reason
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

// Message explains the note to a person.
func (n Note) Message() string {
	switch n.Reason {
	case ReasonCurrent:
		return "the MachineDeployment's template matches this MachineSet again"
	case ReasonMovesAcknowledged:
		return fmt.Sprintf("Machines %s moved to this MachineSet", strings.Join(n.Machines, ", "))
	case ReasonReplicasLowered:
		return "the MachineDeployment asks for fewer replicas"
	case ReasonSurgeAvailable:
		return fmt.Sprintf("%d Machines exist, %d are desired, and maxSurge allows %d more",
			n.Count, n.Limit, n.Surge)
	case ReasonMachinesMissing:
		return fmt.Sprintf("%d Machines exist and %d are desired", n.Count, n.Limit)
	case ReasonMachinesGone:
		return "Machines of this MachineSet were deleted"
	case ReasonNoAvailabilityLost:
		return "the removed replicas have no Machine, or no Machine of the MachineSet is available"
	case ReasonAvailabilitySpare:
		return fmt.Sprintf("%d Machines are available and %d must be", n.Count, n.Limit)
	case ReasonMove:
		return fmt.Sprintf("Machines move to MachineSet %s and are updated in place", n.MachineSet)
	case ReasonSurgeForInPlace:
		return "one spare Machine is created, so that updates in place can begin"
	case ReasonSurgeDropped:
		return fmt.Sprintf(
			"%d spare Machines are not created, because updates in place go first",
			n.Count,
		)
	case ReasonDeadlock:
		return "an unavailable Machine of an old MachineSet blocks the rollout and is given up"
	case ReasonProportional:
		return "the rollout is paused, and the MachineSet is scaled in proportion to its size"
	}
	return string(n.Reason)
}

// addNote returns notes with n at the end, unless an equal one is there already.
func addNote(notes []Note, n Note) []Note {
	for _, old := range notes {
		if old.Reason == n.Reason && old.Message() == n.Message() {
			return notes
		}
	}
	return append(notes[:len(notes):len(notes)], n)
}

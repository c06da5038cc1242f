package machineset

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/collections"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/pool"
)

// A scaling is what brings a MachineSet to its replicas. At most one number is positive.
type scaling struct {
	Create, Delete, Move int
	// Target is the MachineSet to which Machines move.
	Target string
}

// scaleOf compares the Machines of a MachineSet with its replicas. Machines that have moved to it and
// that its MachineDeployment has not counted so far are neither missing nor too many.
func scaleOf(set *clusterv1.MachineSet, machines []*clusterv1.Machine) scaling {
	surplus := len(machines) - int(*set.Spec.Replicas)
	if surplus < 0 {
		if set.Annotations[clusterv1.DisableMachineCreateAnnotation] == "true" {
			return scaling{}
		}
		return scaling{Create: -surplus}
	}
	if receives(set) {
		for _, m := range machines {
			if _, pending := m.Annotations[clusterv1.PendingAcknowledgeMoveAnnotation]; pending {
				surplus--
			}
		}
	}
	target := set.Annotations[clusterv1.MachineSetMoveMachinesToMachineSetAnnotation]
	switch {
	case surplus <= 0:
		return scaling{}
	case target != "":
		return scaling{Move: surplus, Target: target}
	}
	return scaling{Delete: surplus}
}

// receives reports whether a MachineSet accepts Machines of others.
func receives(set *clusterv1.MachineSet) bool {
	return set.Annotations[clusterv1.MachineSetReceiveMachinesFromMachineSetsAnnotation] != ""
}

// mayStartUpdate reports whether the update in place of a Machine can start: the Machine has the mark,
// the update has not started, and the MachineDeployment has counted the Machine. Where the MachineSet
// accepts no Machines any more, nobody will count it, and the update starts at once.
func mayStartUpdate(set *clusterv1.MachineSet, m *clusterv1.Machine) bool {
	if _, marked := m.Annotations[clusterv1.UpdateInProgressAnnotation]; !marked || started(m) {
		return false
	}
	if _, pending := m.Annotations[clusterv1.PendingAcknowledgeMoveAnnotation]; !pending || !receives(set) {
		return true
	}
	counted := strings.Split(set.Annotations[clusterv1.AcknowledgedMoveAnnotation], ",")
	return slices.Contains(counted, m.Name)
}

// A moveChoice is a Machine that leaves its MachineSet.
type moveChoice struct {
	Machine *clusterv1.Machine
	// Delete means that it is deleted and not moved, because it is unhealthy.
	Delete bool
}

// chooseMoves chooses up to count Machines to move. A Machine that is being deleted counts and stays. A
// Machine that is being updated, or that has no Node so far, does not count and stays.
func chooseMoves(
	set *clusterv1.MachineSet, machines []*clusterv1.Machine, count int, now time.Time,
) ([]moveChoice, error) {
	ordered, err := deletionOrder(set, machines, now)
	if err != nil {
		return nil, err
	}
	var out []moveChoice
	for _, m := range ordered {
		switch {
		case count <= 0:
			return out, nil
		case !m.DeletionTimestamp.IsZero():
			count--
		case collections.IsUnhealthyAndOwnerRemediated(m):
			count--
			out = append(out, moveChoice{Machine: m, Delete: true})
		case pool.IsUpdating(m) || !m.Status.NodeRef.IsDefined():
		default:
			count--
			out = append(out, moveChoice{Machine: m})
		}
	}
	return out, nil
}

// Priorities for deletion, highest first.
const (
	mustDelete   = 100.0
	askedDelete  = 80.0
	updating     = 75.0
	betterDelete = 50.0
	couldDelete  = 20.0
	mustKeep     = 0.0
	// ageScale is the age in seconds over which priority by age falls to 1/e.
	ageScale = 864000.0
)

// deletionOrder sorts Machines by who is deleted first.
func deletionOrder(
	set *clusterv1.MachineSet, machines []*clusterv1.Machine, now time.Time,
) ([]*clusterv1.Machine, error) {
	var byAge func(age float64) float64
	switch set.Spec.Deletion.Order {
	case clusterv1.RandomMachineSetDeletionOrder, "":
		byAge = func(float64) float64 { return couldDelete }
	case clusterv1.NewestMachineSetDeletionOrder:
		byAge = func(age float64) float64 { return betterDelete - age }
	case clusterv1.OldestMachineSetDeletionOrder:
		byAge = func(age float64) float64 { return age }
	default:
		return nil, fmt.Errorf("unsupported deletion order %s. Must be one of 'Random', 'Newest', or 'Oldest'",
			set.Spec.Deletion.Order)
	}
	ordered := slices.Clone(machines)
	slices.SortFunc(ordered, func(a, b *clusterv1.Machine) int {
		return cmp.Or(cmp.Compare(priority(b, now, byAge), priority(a, now, byAge)), strings.Compare(a.Name, b.Name))
	})
	return ordered, nil
}

func priority(m *clusterv1.Machine, now time.Time, byAge func(float64) float64) float64 {
	_, asked := m.Annotations[clusterv1.DeleteMachineAnnotation]
	age := now.Sub(m.CreationTimestamp.Time).Seconds()
	switch {
	case !m.DeletionTimestamp.IsZero():
		return mustDelete
	case asked:
		return askedDelete
	case pool.IsUpdating(m):
		return updating
	case !isHealthy(m):
		return betterDelete
	case m.CreationTimestamp.IsZero() || age < 0:
		return byAge(mustKeep)
	}
	return byAge(betterDelete * (1 - math.Exp(-age/ageScale)))
}

func isHealthy(m *clusterv1.Machine) bool {
	return m.Status.NodeRef.IsDefined() && !conditions.IsFalse(m, clusterv1.MachineNodeHealthyCondition) &&
		!conditions.IsFalse(m, clusterv1.MachineHealthCheckSucceededCondition)
}

// started reports whether the update in place of a Machine has started.
func started(m *clusterv1.Machine) bool { return capi.IsHookPending(m, capi.UpdateMachineHook) }

package pool

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/policy"
)

// Reasons for the place of a Machine in the deletion order, first to last.
const (
	// ReasonDeleteRequested: the Machine has the annotation cluster.x-k8s.io/delete-machine.
	ReasonDeleteRequested Reason = "DeleteRequested"
	// ReasonUnhealthy: the Machine has no Node, or the Node or a MachineHealthCheck reports a
	// failure, or, where updates are held, its update failed.
	ReasonUnhealthy Reason = "Unhealthy"
	// ReasonAge: its age, or its name, among healthy Machines.
	ReasonAge Reason = "Age"
)

// Candidate is a Machine in the deletion order.
type Candidate struct {
	Machine *clusterv1.Machine
	// Reason is ReasonDeleting, ReasonDeleteRequested, ReasonRemediation, ReasonUpdating,
	// ReasonKubeletAhead, ReasonUnhealthy or ReasonAge.
	Reason Reason
	// Priority is between 0 and 100. Higher goes first.
	Priority float64
}

// Priorities for deletion. A priority by age is between priorityKeep and priorityUnhealthy.
const (
	priorityDeleting  = 100.0
	priorityRequested = 80.0
	priorityUpdating  = 75.0
	priorityUnhealthy = 50.0
	priorityRandom    = 20.0
	priorityKeep      = 0.0
	// priorityRemediation is for Machines that need remediation where updates are held, so that no
	// healthy Machine is deleted beside one that is remediated.
	priorityRemediation = 78.0
	// priorityIdle is for Machines that have no Node, or whose update failed, where updates are held.
	priorityIdle = 77.0
	// ageScale is the age, in seconds, at which a Machine has come within 1/e of the highest priority
	// by age. It is ten days.
	ageScale = 864000.0
)

// PriorityByAge returns the priority of a healthy Machine with this age, in seconds. A negative age
// is that of a Machine whose creation time is unknown or in the future.
type PriorityByAge func(seconds float64) float64

// Priorities by age, one for each spec.deletion.order.
var (
	RandomFirst PriorityByAge = func(float64) float64 { return priorityRandom }
	OldestFirst PriorityByAge = func(seconds float64) float64 {
		if seconds < 0 {
			return priorityKeep
		}
		return priorityUnhealthy * (1 - math.Exp(-seconds/ageScale))
	}
	NewestFirst PriorityByAge = func(seconds float64) float64 {
		return priorityUnhealthy - OldestFirst(seconds)
	}
)

// OrderOf returns the rule for spec.deletion.order of a MachineSet. No order means Random. It
// returns an error for any other value.
func OrderOf(set *clusterv1.MachineSet) (PriorityByAge, error) {
	switch order := set.Spec.Deletion.Order; order {
	case clusterv1.RandomMachineSetDeletionOrder, "":
		return RandomFirst, nil
	case clusterv1.OldestMachineSetDeletionOrder:
		return OldestFirst, nil
	case clusterv1.NewestMachineSetDeletionOrder:
		return NewestFirst, nil
	default:
		return nil, fmt.Errorf("reading spec.deletion.order of MachineSet %s: %q is unknown. "+
			"Fix: set it to Random, Newest or Oldest", objectName(set.Namespace, set.Name), order)
	}
}

// DeletionOrder returns the Machines in the order in which they are deleted or moved: those in
// deletion, so that no others are deleted while they go; those that a person asks to delete; those
// that are being updated, so that no update is done in vain; unhealthy ones, and under an
// UpdatePolicy those whose kubelet is newer than the template: as long as there is one, its
// MachineSet updates none in place, and deletes them; the rest by age. Where
// they are updated, those that need remediation precede those that are being updated, and
// between both are those that have no Node, or whose update failed. Equal priorities are sorted by
// name. It returns the error of OrderOf.
func (f SetFacts) DeletionOrder() ([]Candidate, error) {
	byAge, err := OrderOf(f.MachineSet)
	if err != nil {
		return nil, err
	}
	return f.Order(byAge), nil
}

// Order is DeletionOrder with the given rule for healthy Machines.
func (f SetFacts) Order(byAge PriorityByAge) []Candidate {
	all := make([]Candidate, 0, len(f.Machines))
	for _, m := range f.Machines {
		all = append(all, f.candidate(m, byAge))
	}
	order := f.policyOrder()
	slices.SortFunc(all, func(a, b Candidate) int {
		// Between Machines that nobody asks to delete the places decide, and then their health.
		byPlace := 0
		if max(a.Priority, b.Priority) <= priorityUnhealthy {
			byPlace = comparePlaces(order, a.Machine, b.Machine)
		}
		return cmp.Or(byPlace, cmp.Compare(b.Priority, a.Priority),
			cmp.Compare(a.afterUnhealthy(), b.afterUnhealthy()),
			strings.Compare(a.Machine.Name, b.Machine.Name))
	})
	return all
}

// policyOrder is the order of the UpdatePolicy; nil for the MachineSet that has the present
// template and the present revision of its MachineDeployment.
func (f SetFacts) policyOrder() *policy.Order {
	if f.Deployment == nil || !f.Policy.Order.IsSet() || f.isTarget() && f.isCurrent() {
		return nil
	}
	return &f.Policy.Order
}

// deletionAsked reports whether a person or an autoscaler asks that a Machine goes first when its
// group shrinks.
func deletionAsked(m *clusterv1.Machine) bool {
	_, asked := m.Annotations[clusterv1.DeleteMachineAnnotation]
	return asked
}

// isIdle reports whether a Machine serves nobody: it has no Node, also not yet, or its update
// failed.
func isIdle(m *clusterv1.Machine) bool {
	return !m.Status.NodeRef.IsDefined() || HasFailedUpdate(m)
}

// afterUnhealthy is 1 for a Machine that goes after unhealthy ones of the same priority, or else 0.
func (c Candidate) afterUnhealthy() int {
	if c.Reason == ReasonKubeletAhead {
		return 1
	}
	return 0
}

func (f SetFacts) candidate(m *clusterv1.Machine, byAge PriorityByAge) Candidate {
	switch {
	case isDeleting(m):
		return Candidate{m, ReasonDeleting, priorityDeleting}
	case deletionAsked(m):
		return Candidate{m, ReasonDeleteRequested, priorityRequested}
	case f.updates() && NeedsRemediation(m):
		return Candidate{m, ReasonRemediation, priorityRemediation}
	case f.updates() && isIdle(m):
		return Candidate{m, ReasonUnhealthy, priorityIdle}
	case IsUpdating(m):
		return Candidate{m, ReasonUpdating, priorityUpdating}
	case !IsHealthy(m):
		return Candidate{m, ReasonUnhealthy, priorityUnhealthy}
	case !f.updates() && f.goesBack(m):
		return Candidate{m, ReasonKubeletAhead, priorityUnhealthy}
	case m.CreationTimestamp.IsZero():
		return Candidate{m, ReasonAge, byAge(-1)}
	}
	return Candidate{m, ReasonAge, byAge(f.Now.Sub(m.CreationTimestamp.Time).Seconds())}
}

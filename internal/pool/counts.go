package pool

import (
	"slices"
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/windlass-dev/windlass/internal/capi"
)

// Counts are the counters of a MachineSet that rollouts depend on. A counter that nobody has
// reported is 0.
type Counts struct {
	// Machines is how many Machines the MachineSet owns, those in deletion included.
	Machines int32
	// Available and UpToDate are how many of them have that condition and are not being updated in
	// place.
	Available int32
	UpToDate  int32
	// Unread says that the MachineSet asks for all its Machines, and that its controller has not read
	// that. It may still give up Machines by an earlier spec.
	Unread bool
}

// StatusCounts returns the counters in the status of set, which its controller wrote some time ago.
func StatusCounts(set *clusterv1.MachineSet) Counts {
	return Counts{
		Machines:  deref(set.Status.Replicas),
		Available: deref(set.Status.AvailableReplicas),
		UpToDate:  deref(set.Status.UpToDateReplicas),
	}
}

// MachineCounts counts the Machines that set owns, with the rules by which the MachineSet
// controller fills its status: a Machine that is being updated in place is neither available nor up
// to date. But a Machine in deletion is not available, although its condition may not show that
// yet.
func MachineCounts(set *clusterv1.MachineSet, machines []*clusterv1.Machine) Counts {
	var c Counts
	for _, m := range machines {
		if !Owns(set, m) {
			continue
		}
		c.Machines++
		if IsUpdating(m) {
			continue
		}
		if !isDeleting(m) && conditions.IsTrue(m, clusterv1.MachineAvailableCondition) {
			c.Available++
		}
		if conditions.IsTrue(m, clusterv1.MachineUpToDateCondition) {
			c.UpToDate++
		}
	}
	return c
}

// SafeCounts combines the counters of the status with those of the Machines that were read. Either
// may be older than the other. The result takes the larger number of Machines, so that maxSurge
// holds, and the smaller numbers of available and up-to-date ones, so that maxUnavailable holds.
// They agree as soon as both are current. It adds Unread.
func SafeCounts(set *clusterv1.MachineSet, machines []*clusterv1.Machine) Counts {
	status, counted := StatusCounts(set), MachineCounts(set, machines)
	c := Counts{
		Machines:  max(status.Machines, counted.Machines),
		Available: min(status.Available, counted.Available),
		UpToDate:  min(status.UpToDate, counted.UpToDate),
	}
	c.Unread = c.Machines > 0 && c.Machines <= deref(set.Spec.Replicas) && isUnread(set)
	return c
}

// ReadGeneration returns the newest generation of a MachineSet that its controller is known to have
// read: no later step of that controller follows an older spec. A reconcile that fails observes no
// generation, and neither does one of a paused MachineSet. The condition Paused has it all the
// same, also where Cluster API's controller wrote it.
func ReadGeneration(set *clusterv1.MachineSet) int64 {
	read := set.Status.ObservedGeneration
	if c := conditions.Get(set, clusterv1.PausedCondition); c != nil {
		read = max(read, c.ObservedGeneration)
	}
	return read
}

// isUnread reports whether the controller of a MachineSet has not read its spec.
func isUnread(set *clusterv1.MachineSet) bool { return ReadGeneration(set) < set.Generation }

// Owns reports whether set is the controller of m. It compares group, kind and name, as upstream
// does: names are unique among the MachineSets of a group.
func Owns(set *clusterv1.MachineSet, m *clusterv1.Machine) bool {
	owner := setOf(m)
	return owner != "" && owner == set.Name
}

// setOf returns the name of the MachineSet that controls a Machine; empty if none does.
func setOf(m *clusterv1.Machine) string {
	for _, ref := range m.OwnerReferences {
		if ref.Controller == nil || !*ref.Controller {
			continue
		}
		group, _, _ := strings.Cut(ref.APIVersion, "/")
		if group == clusterv1.GroupVersion.Group && ref.Kind == "MachineSet" {
			return ref.Name
		}
		return ""
	}
	return ""
}

// IsUpdating reports whether m is being updated in place: its owner marked it, or the call of the
// hook UpdateMachine is pending.
func IsUpdating(m *clusterv1.Machine) bool {
	if _, marked := m.Annotations[clusterv1.UpdateInProgressAnnotation]; marked {
		return true
	}
	return isHookPending(m)
}

// isHookPending reports whether the call of the hook UpdateMachine is pending.
func isHookPending(m *clusterv1.Machine) bool {
	pending := strings.Split(m.Annotations[runtimev1.PendingHooksAnnotation], ",")
	return slices.Contains(pending, capi.UpdateMachineHook)
}

// UpdatingMachines returns the names of the machines that are being updated in place, sorted.
func UpdatingMachines(machines []*clusterv1.Machine) []string {
	var names []string
	for _, m := range machines {
		if IsUpdating(m) {
			names = append(names, m.Name)
		}
	}
	slices.Sort(names)
	return names
}

func deref(n *int32) int32 {
	if n == nil {
		return 0
	}
	return *n
}

package pool

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/capi"
)

// A revert takes back the Machines of a kept group whose updates have not begun. A Machine carries
// the proof from its move on: the annotation MovedFromAnnotation names the MachineSet that it left.
// The engine of updates removes the annotation in the write that begins the update. Both that write
// and the return require the resourceVersion that was read, so only one of them succeeds.
//
// The return is another move, in stock's order: the plan lowers the old MachineSet and names the
// Machines; the MachineSet gives them back with the marks of a move; the receiving one writes its
// own template. That leaves the host as it is, so the update then ends without a call of an
// updater.

// MovedFrom returns the annotation of a Machine that moves from one MachineSet to another. It
// contains a digest of the last update, so that it is void after any later update, also by a
// release of Windlass that does not remove it.
func MovedFrom(m metav1.Object, from, to string) string {
	digest := fnv.New32a()
	_, _ = digest.Write([]byte(m.GetAnnotations()[v1alpha1.LastUpdateAnnotation]))
	return fmt.Sprintf("%s/%s/%08x", from, to, digest.Sum32())
}

// CameFrom returns the name of the MachineSet that a Machine left, and can go back to as far as its
// annotations tell; empty for none.
func CameFrom(m *clusterv1.Machine) string {
	from, rest, _ := strings.Cut(m.Annotations[v1alpha1.MovedFromAnnotation], "/")
	to, _, _ := strings.Cut(rest, "/")
	if from == to || !isAsMoved(m, from, to) {
		return ""
	}
	return from
}

// MayReturn reports whether a Machine of the MachineSet with the name set can go back to the one
// with the name to: it came from there, and its update has not begun.
func MayReturn(m *clusterv1.Machine, set, to string) bool {
	return set != to && m.DeletionTimestamp.IsZero() && isAsMoved(m, to, set)
}

// HasReturned reports whether a Machine of the MachineSet with the name set came back before its
// update had begun, and is still to get the template of the MachineSet. Its host has all of it.
func HasReturned(m *clusterv1.Machine, set string) bool { return isAsMoved(m, set, set) }

func isAsMoved(m *clusterv1.Machine, from, to string) bool {
	_, marked := m.Annotations[clusterv1.UpdateInProgressAnnotation]
	_, begun := m.Annotations[v1alpha1.UpdateProgressAnnotation]
	return marked && !begun && m.Annotations[v1alpha1.MovedFromAnnotation] == MovedFrom(m, from, to)
}

// MoveAnnotations returns the annotations of a Machine that moves to the MachineSet with the name
// to. One that returns has no pending hook any more: the receiving MachineSet starts the update
// anew. The proof is only for updates about which the engine of updates in Windlass has decided,
// because others do not remove it.
func (f SetFacts) MoveAnnotations(d Departure, to string) map[string]string {
	annotations := maps.Clone(d.Machine.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	delete(annotations, v1alpha1.MovedFromAnnotation)
	decided := f.MachineSet.Annotations[v1alpha1.UpdateDecisionsAnnotation] != ""
	switch {
	case d.Reason == ReasonReturn:
		removeHook(annotations)
		annotations[v1alpha1.MovedFromAnnotation] = MovedFrom(d.Machine, to, to)
	case f.repairs() && decided:
		annotations[v1alpha1.MovedFromAnnotation] = MovedFrom(d.Machine, f.MachineSet.Name, to)
	}
	annotations[clusterv1.UpdateInProgressAnnotation] = ""
	annotations[clusterv1.PendingAcknowledgeMoveAnnotation] = ""
	return annotations
}

// removeHook removes UpdateMachine from the pending hooks. Others stay.
func removeHook(annotations map[string]string) {
	pending := strings.Split(annotations[runtimev1.PendingHooksAnnotation], ",")
	pending = slices.DeleteFunc(pending, func(hook string) bool {
		return hook == capi.UpdateMachineHook || hook == ""
	})
	delete(annotations, runtimev1.PendingHooksAnnotation)
	if len(pending) > 0 {
		annotations[runtimev1.PendingHooksAnnotation] = strings.Join(pending, ",")
	}
}

// IsReturning reports whether the plan takes a Machine to another MachineSet without an update, and
// it can go: back to the one that it left, or to the one whose template an updater has brought it
// to.
func (f SetFacts) IsReturning(m *clusterv1.Machine) bool {
	return slices.Contains(f.planned(), m.Name) &&
		(MayReturn(m, f.MachineSet.Name, moveTarget(f.MachineSet)) || f.hasArrived(m))
}

// planned are the names of the Machines that the plan moves without an update.
func (f SetFacts) planned() []string {
	names := f.MachineSet.Annotations[v1alpha1.ReturnMachinesAnnotation]
	if names == "" || !f.repairs() {
		return nil
	}
	return strings.Split(names, ",")
}

// mostNamed bounds how many Machines a plan names in an annotation: record.Limits has room for
// them, because names have at most 63 bytes. The next plans name the others.
const mostNamed = 500

// returning returns the names of the Machines of an old MachineSet that may go back to the new one,
// sorted, at most mostNamed.
func (d *draft) returning(set string) []string {
	if !d.mayReturn() {
		return nil
	}
	var names []string
	for _, m := range d.owned(&clusterv1.MachineSet{ObjectMeta: named(set)}) {
		if len(names) < mostNamed && !d.kubeletAhead(m) && MayReturn(m, set, d.newest.Desired.Name) {
			names = append(names, m.Name)
		}
	}
	return names
}

// isNewer reports whether a version is known to be newer than the wanted one.
func isNewer(version, wanted string) bool {
	age, known := compareKubelet(version, wanted)
	return known && age > 0
}

// hasNewerKubelet reports whether the kubelet of a Machine is known to be newer than the wanted
// version.
func hasNewerKubelet(m *clusterv1.Machine, wanted string) bool {
	last, _ := lastVersion(m)
	return isNewer(kubeletOf(m), wanted) || isNewer(last, wanted)
}

// withoutDowngrades returns the answers with AnswerNo for MachineSets that have a Machine whose
// kubelet is newer than the template: under an UpdatePolicy no kubelet goes back a version in
// place. A version that cannot be read is not newer: nothing is replaced because of it.
func (d *draft) withoutDowngrades(coverage map[string]Coverage) map[string]Coverage {
	if d.group.Limits == nil {
		return coverage // As stock.
	}
	coverage = maps.Clone(coverage)
	wanted := d.group.MachineDeployment.Spec.Template.Spec.Version
	for _, m := range d.group.Machines {
		set := d.owner(m)
		if coverage[set].Answer == AnswerYes && hasNewerKubelet(m, wanted) {
			coverage[set] = Coverage{Answer: AnswerNo, Reason: fmt.Sprintf(
				"the kubelet of Machine %s is newer than spec.template asks, and does not go back in place",
				m.Name)}
		}
	}
	return coverage
}

package pool

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/record"
	"github.com/windlass-dev/windlass/pkg/version"
)

// The rules for groups that are handed over as a whole (UpdatePolicy with handOver: Group).
//
//   - The updater takes over all Machines of an old MachineSet in one request, and writes their
//     objects itself. Until a Machine has arrived, it is a Machine of the old MachineSet, and
//     nothing happens to it: the group is kept, whatever the fallback is.
//   - A Machine has arrived when its spec, its kubelet and its objects are as the template asks,
//     and its Node is ready. It then goes to the new MachineSet with the marks of a move that needs
//     no update, as a Machine that returns does (turnaround.go). So Cluster API can continue at
//     each crash point.
//   - A Machine whose objects are half written has not arrived.
//   - Arrivals cost no availability. The marks of a move make a Machine count as unavailable for a
//     moment, so at most maxUnavailable of them arrive at once.

// The record of a hand-over, on the MachineSet whose Machines were handed over; see package record.
type (
	// HandOverState is how far a hand-over is.
	HandOverState = record.HandOverState
	// HandedOver is the record itself.
	HandedOver = record.HandedOver
	// HandOverBudget are the limits that an updater is given, in Machines of the group.
	HandOverBudget = record.HandOverBudget
)

// The states of a hand-over; see package record.
const (
	HandOverAsked    = record.HandOverAsked
	HandOverAccepted = record.HandOverAccepted
	HandOverEnded    = record.HandOverEnded
)

// HandedOverOf returns the record of a hand-over; nil if there is none. It returns an error if the
// record cannot be read: nobody knows then what an updater does.
func HandedOverOf(set metav1.Object) (*HandedOver, error) {
	h, err := record.HandedOverOf(set.GetAnnotations())
	if err != nil {
		return nil, fmt.Errorf("reading the annotation %s of MachineSet %s: %w. Fix: see to it that no "+
			"updater changes the Machines, and remove the annotation", v1alpha1.HandedOverAnnotation,
			objectName(set.GetNamespace(), set.GetName()), err)
	}
	return h, nil
}

// WasHandedOver reports whether the Machines of a MachineSet were handed over at some time. set may
// be nil.
func WasHandedOver(set *clusterv1.MachineSet) bool {
	return set != nil && set.Annotations[v1alpha1.HandedOverAnnotation] != ""
}

// HandOver returns the limits for a hand-over of the group. held says why nothing may be handed
// over now, and why an updater must stop; empty if it may work. It returns the same errors as
// Needs.
func (g Group) HandOver() (budget HandOverBudget, held string, err error) {
	g.Keep = true
	d, err := begin(g)
	if err != nil {
		return HandOverBudget{}, "", err
	}
	budget.AtOnce = max(d.rollout.Unavailable, 1)
	if d.paused() {
		return budget, "the MachineDeployment is paused", nil
	}
	if g.Limits == nil {
		return budget, "", nil
	}
	budget.Stay = Share(g.Limits.Partition, d.rollout.Replicas)
	if most := g.Limits.MaxInFlight; most > 0 {
		budget.AtOnce = min(budget.AtOnce, most)
	}
	p, _ := d.keptProgress()
	budget.First = max(Share(g.Limits.Canary, d.rollout.Replicas)-p.proved(), 0)
	for _, s := range d.rollout.Old {
		for _, m := range d.owned(d.old[s.Name].Desired) {
			if failed, _ := handOverFailed(d.old[s.Name].Current, m); failed {
				p.Failed = append(p.Failed, m.Name)
			}
		}
	}
	_, held = g.Limits.hold(p)
	return budget, held, nil
}

// handOverFailed reports whether the updater has marked a Machine of set as failed, and why.
func handOverFailed(set *clusterv1.MachineSet, m *clusterv1.Machine) (failed bool, why string) {
	h, err := HandedOverOf(set)
	if err != nil || h == nil {
		return false, ""
	}
	report := m.Annotations[v1alpha1.UpdateFailedAnnotation] + ":"
	why, failed = strings.CutPrefix(report, h.Operation+":")
	why = strings.Join(strings.Fields(strings.TrimSuffix(why, ":")), " ")
	return failed, why
}

// HandOverGap says what a Machine lacks to arrive at the template of its group, as far as the
// Machine itself tells; empty if it lacks nothing. Its infrastructure machine and bootstrap config
// may still lack something.
func HandOverGap(md *clusterv1.MachineDeployment, m *clusterv1.Machine) string {
	wanted, kubelet := md.Spec.Template.Spec.Version, capi.Kubelet(m)
	switch {
	case m.Spec.Version != wanted:
		return fmt.Sprintf("its spec.version is %s", m.Spec.Version)
	case !runs(kubelet, wanted):
		return fmt.Sprintf("its kubelet has the version %q", kubelet)
	case !conditions.IsTrue(m, clusterv1.MachineNodeReadyCondition):
		return "its Node is not ready"
	}
	return ""
}

// runs reports whether a kubelet has the wanted version: any, if none is wanted.
func runs(kubelet, wanted string) bool {
	if wanted == "" {
		return true
	}
	has, errHas := version.Parse(kubelet)
	wants, errWants := version.Parse(wanted)
	return errHas == nil && errWants == nil && wants.RunBy(has)
}

// hasArrived reports whether the plan takes a Machine that was handed over to the new MachineSet,
// and the Machine still shows the template's version.
func (f SetFacts) hasArrived(m *clusterv1.Machine) bool {
	return WasHandedOver(f.MachineSet) && f.Deployment != nil && !isDeleting(m) && !IsUpdating(m) &&
		HandOverGap(f.Deployment, m) == ""
}

// arriving returns the Machines of an old MachineSet that go to the new one because an updater has
// updated them, at most most, sorted, and the room that is left.
func (d *draft) arriving(set string, c Coverage, r room, most int32) ([]string, room) {
	if c.Answer != AnswerHandedOver {
		return nil, r
	}
	var names []string
	for _, m := range d.owned(&clusterv1.MachineSet{ObjectMeta: named(set)}) {
		free := !isDeleting(m) && !IsUpdating(m) && !d.kubeletAhead(m)
		if free && r.unavailable > 0 && len(names) < int(most) && slices.Contains(c.Arrived, m.Name) {
			names = append(names, m.Name)
			r.unavailable--
		}
	}
	return names, r
}

// whyHandedOver says why a Machine that was handed over stays in its old MachineSet.
func (d *draft) whyHandedOver(
	s Sizes, c Coverage, m *clusterv1.Machine,
) (reason Reason, message string) {
	if failed, why := handOverFailed(d.old[s.Name].Current, m); failed {
		return ReasonHandOverFailed, fmt.Sprintf("updater %s reports that the update failed: %s. Fix: "+
			"repair the machine, remove the annotation %s from the Machine, and pause and resume the "+
			"MachineDeployment: the updater then gets the Machines again", c.Updater, why,
			v1alpha1.UpdateFailedAnnotation)
	}
	switch {
	case slices.Contains(c.Arrived, m.Name):
		return ReasonBudget, fmt.Sprintf("updater %s has updated the Machine; it goes to the new "+
			"MachineSet after others", c.Updater)
	case c.Reason != "":
		return ReasonHandedOver, "the Machine is not handed over now: " + c.Reason
	case d.allowance.Reason == ReasonPartition:
		return d.allowance.Reason, d.allowance.Message
	}
	return ReasonHandedOver, fmt.Sprintf("updater %s has taken the Machine over; it is not updated "+
		"so far: %s", c.Updater, c.Gaps[m.Name])
}

package pool

import (
	"cmp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/windlass-dev/windlass/api/v1alpha1"
)

// An unhealthy Machine of an old MachineSet waits for the update that may repair it. Where no
// update reaches it, it is remediated. The MachineSets of a group decide at the same time, so they
// share spec.remediation.maxInFlight of the MachineDeployment by a rule that has no need of a lock:
// those that come first by name have their unhealthy Machines remediated first.

// noUpdate returns why no update brings any Machine of an old MachineSet to the template until a
// person acts; empty if one may. It is not known while nobody answers, and while nobody may be
// asked.
func (d *draft) noUpdate(s Sizes, h headcount, c Coverage) Reason {
	if h.alive == 0 || !d.mayMove() {
		return ""
	}
	reason, _ := d.whyKept(s, c)
	if reason != ReasonNotCovered && reason != ReasonRecreateRequested {
		return ""
	}
	return reason
}

// mayUpdate reports whether an update in place may reach a Machine of an old MachineSet.
func (f SetFacts) mayUpdate(m *clusterv1.Machine) bool {
	template := &draft{group: Group{MachineDeployment: f.Deployment}}
	return f.MachineSet.Annotations[v1alpha1.NoUpdateAnnotation] == "" &&
		m.Status.NodeRef.IsDefined() && !IsUpdating(m) && !template.kubeletAhead(m)
}

// SharesRemediation reports whether Remediate depends on the Machines of the whole group.
func (f SetFacts) SharesRemediation() bool {
	if !f.updates() || f.Deployment == nil ||
		f.Deployment.Spec.Remediation.MaxInFlight == nil {
		return false
	}
	for _, m := range f.Machines {
		if NeedsRemediation(m) && !isDeleting(m) {
			return true
		}
	}
	return false
}

// decidedFirst sorts Machines whose MachineSet has decided to delete them before others.
func decidedFirst(a, b *clusterv1.Machine) int {
	switch x, y := wasRemediated(a), wasRemediated(b); {
	case x == y:
		return 0
	case x:
		return -1
	}
	return 1
}

// remediatedBeforeOthers returns how many of the unhealthy Machines of the MachineSet are among the
// first most of the whole group. Machines that are being deleted for a remediation precede all
// others, then those whose deletion has been decided, then those of MachineSets that come first by
// name.
func (f SetFacts) remediatedBeforeOthers(unhealthy []*clusterv1.Machine, most int) (n int) {
	ahead := map[bool]int{} // All that precedes reads of m is whether its deletion has been decided.
	for _, m := range unhealthy {
		decided := wasRemediated(m)
		if _, known := ahead[decided]; !known {
			ahead[decided] = f.countAhead(m)
		}
		if ahead[decided]+n >= most {
			break
		}
		n++
	}
	return n
}

func (f SetFacts) countAhead(m *clusterv1.Machine) (n int) {
	for _, other := range f.Group {
		if !Owns(f.MachineSet, other) && f.precedes(other, m) {
			n++
		}
	}
	return n
}

// precedes reports whether a Machine of another MachineSet is being remediated, or is remediated
// before m, which is unhealthy.
func (f SetFacts) precedes(other, m *clusterv1.Machine) bool {
	refused := conditions.GetReason(other, clusterv1.MachineOwnerRemediatedCondition) ==
		clusterv1.MachineSetMachineCannotBeRemediatedReason
	switch {
	case isDeleting(other):
		return wasRemediated(other)
	case !NeedsRemediation(other) || refused || f.isHeld(other) || f.verdictLeft(other) > 0:
		return false
	}
	owner := metav1.GetControllerOfNoCopy(other)
	return cmp.Or(decidedFirst(other, m), strings.Compare(owner.Name, f.MachineSet.Name)) < 0
}

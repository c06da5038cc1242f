package engine

import (
	"cmp"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/pool"
)

// remediationKeys are the annotations that ChangeRemediation depends on.
var remediationKeys = []string{
	clusterv1.MachineSkipRemediationAnnotation, v1alpha1.RemediationPausedAnnotation,
	clusterv1.RemediateMachineAnnotation,
}

// ChangeRemediation returns the changes of a Machine's annotations, of which nil removes one, that belong in the write that takes the
// record of an update from before to after. Both may be nil: no update. after must not be changed
// by anyone in the meantime, so the write needs the resourceVersion that annotations were read
// with. underWay says that a remediation of the Machine is under way; see RemediationHeld.
//
//   - While an update runs, remediation is paused. Where the Machine's owner has been told to
//     replace it all the same, remediation is not paused, so that the MachineHealthCheck can still
//     take that back.
//   - An update that has just failed finally hands the Machine to remediation once if its policy
//     says so, unless the updater could not be asked: the Machine may be well. Otherwise
//     remediation stays paused until a person acts.
//   - An update that a person retries or gives up takes back what the failure handed over.
//   - Without an update remediation is as it was before.
func ChangeRemediation(
	annotations map[string]string, before, after *inplace.Progress, policy policy.Policy, underWay bool,
) map[string]*string {
	p := patch{annotations: annotations, changes: map[string]*string{}}
	if hasFailed(after) {
		p.fail(hasFailed(before), policy.Remediate && !after.Unanswered)
		return p.changes
	}
	if after == nil || underWay {
		p.resume()
	} else {
		p.pause()
	}
	if hasFailed(before) {
		p.remove(clusterv1.RemediateMachineAnnotation)
	}
	return p.changes
}

func hasFailed(p *inplace.Progress) bool { return p != nil && p.Phase == inplace.Failed }

// patch collects changes of some annotations.
type patch struct {
	annotations map[string]string
	changes     map[string]*string
}

func (p patch) has(key string) bool {
	_, ok := p.annotations[key]
	return ok
}

func (p patch) set(key string) {
	if !p.has(key) {
		p.changes[key] = new(string)
	}
}

func (p patch) remove(key string) {
	if p.has(key) {
		p.changes[key] = nil
	}
}

// fail is for an update that has failed finally. One that failed earlier stays unchanged, except that a
// person who asks for remediation gets it.
func (p patch) fail(earlier, handOver bool) {
	switch {
	case earlier && p.has(clusterv1.RemediateMachineAnnotation):
		p.resume()
	case earlier:
	case handOver:
		p.resume()
		p.set(clusterv1.RemediateMachineAnnotation)
	default:
		p.pause()
	}
}

// pause leaves the annotation of a person alone, and sets no marker beside it.
func (p patch) pause() {
	if !p.has(clusterv1.MachineSkipRemediationAnnotation) {
		p.set(clusterv1.MachineSkipRemediationAnnotation)
		p.set(v1alpha1.RemediationPausedAnnotation)
	}
}

// resume leaves the annotation of a person alone, also one that took the place of ours: ours is
// empty.
func (p patch) resume() {
	if !p.has(v1alpha1.RemediationPausedAnnotation) {
		return
	}
	p.remove(v1alpha1.RemediationPausedAnnotation)
	if p.annotations[clusterv1.MachineSkipRemediationAnnotation] == "" {
		p.remove(clusterv1.MachineSkipRemediationAnnotation)
	}
}

// RemediationHeld says which remediation of a Machine has been ordered already; empty for none. It holds
// whatever annotations the Machine has: its owner, or an external controller, acts on these
// conditions.
func RemediationHeld(m *clusterv1.Machine) string {
	if c := falseCondition(m, clusterv1.MachineOwnerRemediatedCondition); c != nil {
		return describeCondition(c, "its owner replaces it")
	}
	return remediatedExternally(m)
}

func remediatedExternally(m *clusterv1.Machine) string {
	// Cluster API leaves this condition on a Machine that is healthy again.
	unhealthy := falseCondition(m, clusterv1.MachineHealthCheckSucceededCondition) != nil
	if c := falseCondition(m, clusterv1.MachineExternallyRemediatedCondition); c != nil && unhealthy {
		return describeCondition(c, "an external controller remediates it")
	}
	return ""
}

// falseCondition returns a condition if its status is False, and else nil.
func falseCondition(m *clusterv1.Machine, kind string) *metav1.Condition {
	c := meta.FindStatusCondition(m.Status.Conditions, kind)
	if c == nil || c.Status != metav1.ConditionFalse {
		return nil
	}
	return c
}

func describeCondition(c *metav1.Condition, what string) string {
	return fmt.Sprintf("a MachineHealthCheck found it unhealthy, and %s (condition %s is False: %s)",
		what, c.Type, c.Reason)
}

// RemediationAsked says which remediation of a Machine is under way, or asked for by the annotation that a
// MachineHealthCheck obeys; empty for none. A MachineHealthCheck ignores it on a Machine with
// skip-remediation. before is the recorded update: what its failure handed over can be taken back,
// so it does not count.
func RemediationAsked(m *clusterv1.Machine, before *inplace.Progress) string {
	if why := RemediationHeld(m); why != "" || before != nil {
		return why
	}
	return askedByAnnotation(m)
}

func askedByAnnotation(m *clusterv1.Machine) string {
	_, asked := m.Annotations[clusterv1.RemediateMachineAnnotation]
	_, skipped := m.Annotations[clusterv1.MachineSkipRemediationAnnotation]
	if asked && !skipped {
		return "it has the annotation " + clusterv1.RemediateMachineAnnotation
	}
	return ""
}

// RemediationPrecedes says which remediation keeps the update of a marked Machine from beginning;
// empty for none. It is that of RemediationAsked. But a MachineSet that waits for the update,
// because the update may repair the Machine, does not count.
func RemediationPrecedes(m *clusterv1.Machine) string {
	if pool.IsRemediationHeld(m) {
		return cmp.Or(remediatedExternally(m), askedByAnnotation(m))
	}
	return RemediationAsked(m, nil)
}

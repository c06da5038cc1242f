package updatepolicy

import (
	"cmp"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/condition"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/text"
)

// The bounds of the lists in the status; the CRD has the same.
const (
	maxGroups   = 256
	maxWarnings = 16
)

// minSurgelessReplicas is how many replicas a KubeadmControlPlane must have before its webhook accepts maxSurge 0.
const minSurgelessReplicas = 3

// maxConflicts bounds how many groups in conflict a message describes. With the bounds of names a
// message is below 6 KiB; the API server takes 32 KiB.
const maxConflicts = 3

// maxInvalid bounds how many invalid policies a message names.
const maxInvalid = 4

// State is a group as it is.
type State struct {
	Group policy.Group
	// Kubeadm says that the control plane is a KubeadmControlPlane.
	Kubeadm bool
	// Replicas are the control plane's desired ones; nil where they are not known, and for MachineDeployments.
	Replicas *int64
}

// findings are what is known about one policy. Its lists are bounded, however many groups there are.
type findings struct {
	invalid *policy.InvalidError
	// groups are the first maxGroups of groupCount.
	groups     []string
	groupCount int
	// guarded are the groups that the policy keeps.
	guarded []policy.Group
	// tooMany says why it is not known which groups the policy has; empty if it is known.
	tooMany string
	// undecidedReason and undecided say why it is not known which policy counts for the first of
	// undecidedCount groups that the policy selects and that the guard keeps therefore.
	undecidedReason, undecided string
	undecidedCount             int
	// uncovered is the first of uncoveredCount guarded groups that the guard is not asked about.
	uncovered      string
	uncoveredCount int
	// warnings are at most maxWarnings.
	warnings []string
	// conflicts are the first maxConflicts of conflictCount.
	conflicts     []string
	conflictCount int
}

// Statuses returns the status that each policy of the namespace should have, in their order. policies are
// those that the Selection was made of. now becomes the time of a condition that changes; one that does
// not keeps its own.
func (s *Selection) Statuses(policies []v1alpha1.UpdatePolicy, guard Guard, now metav1.Time) []v1alpha1.UpdatePolicyStatus {
	var undecided findings // Those of the namespace: a scope includes all of them or is not complete.
	undecided.cover(guard, s.undecided)
	statuses := make([]v1alpha1.UpdatePolicyStatus, 0, len(policies))
	for i := range policies {
		f := *s.found[policies[i].Name]
		f.cover(guard, f.guarded)
		if f.undecidedCount > 0 {
			f.uncoveredCount += undecided.uncoveredCount
			f.uncovered = cmp.Or(f.uncovered, undecided.uncovered)
		}
		statuses = append(statuses, computeStatus(&policies[i], &f, guard, now))
	}
	return statuses
}

// cover finds the groups, all of which must be guarded, that the guard is not asked about.
func (f *findings) cover(guard Guard, groups []policy.Group) {
	for _, g := range groups {
		if !guard.Covers(g) {
			if f.uncoveredCount++; f.uncoveredCount == 1 {
				f.uncovered = g.String()
			}
		}
	}
}

// addConflict adds a group that the policy of this name and others select. guarded says that the guard
// keeps its machines therefore.
func (f *findings) addConflict(e *policy.ConflictError, name string, guarded bool) {
	if f.conflictCount++; f.conflictCount <= maxConflicts {
		f.conflicts = append(f.conflicts, e.Others(name))
	}
	if !guarded {
		return
	}
	if f.undecidedCount++; f.undecidedCount == 1 {
		f.undecidedReason = v1alpha1.GuardConflictReason
		f.undecided = e.Others(name) + ". Fix: let one policy name each group more precisely than the others"
	}
}

// addInvalid adds a group that the policy selects, for which invalid policies of these names may count.
func (f *findings) addInvalid(g policy.Group, names string) {
	if f.undecidedCount++; f.undecidedCount == 1 {
		f.undecidedReason = v1alpha1.GuardInvalidPolicyReason
		f.undecided = fmt.Sprintf("invalid UpdatePolicies may count for the %s: %s. Fix: correct them", g, names)
	}
}

// add adds a group for which the policy counts.
func (f *findings) add(g State, selected *policy.Policy) {
	if f.groupCount++; f.groupCount <= maxGroups {
		f.groups = append(f.groups, g.Group.String())
	}
	if selected.Guarded {
		f.guarded = append(f.guarded, g.Group)
	}
	if len(f.warnings) < maxWarnings {
		if warning := computeWarning(g, selected); warning != "" {
			f.warnings = append(f.warnings, warning)
		}
	}
}

// computeWarning says why a group cannot be updated as its policy asks; empty where nothing is known to prevent it. Before it
// asks whether a machine can be updated in place, KubeadmControlPlane creates another one, unless its maxSurge is 0.
func computeWarning(s State, selected *policy.Policy) string {
	if !selected.InPlace || !s.Group.ControlPlane || !s.Kubeadm || s.Replicas == nil || *s.Replicas < 1 || *s.Replicas >= minSurgelessReplicas {
		return ""
	}
	outcome := "no change reaches its machines, because the guard refuses the additional one"
	if selected.FallbackReplace {
		outcome = "its machines are replaced"
	}
	return fmt.Sprintf("%s: Cluster API cannot update a KubeadmControlPlane of %d in place: it adds a machine first, because it refuses maxSurge 0 below %d replicas; %s",
		s.Group, *s.Replicas, minSurgelessReplicas, outcome)
}

func computeStatus(p *v1alpha1.UpdatePolicy, f *findings, guard Guard, now metav1.Time) v1alpha1.UpdatePolicyStatus {
	status := *p.Status.DeepCopy()
	status.ObservedGeneration = p.Generation
	status.GroupCount, status.Groups, status.Warnings = nil, nil, nil
	if f.invalid == nil && f.tooMany == "" {
		count := int32(min(f.groupCount, 1<<31-1)) //nolint:gosec // min bounds it.
		status.GroupCount, status.Groups, status.Warnings = &count, f.groups, f.warnings
	}
	ready, guarding := computeReady(f), computeGuarding(f, guard)
	for _, c := range []*metav1.Condition{&ready, &guarding} {
		c.ObservedGeneration, c.LastTransitionTime = p.Generation, now
	}
	// A conflict can end by an edit of the other policy.
	condition.SetReady(&status.Conditions, ready, f.invalid != nil)
	condition.Set(&status.Conditions, guarding)
	return status
}

// noGroups is what a policy says that changes nothing: most often a name in it is misspelt.
const noGroups = "the policy counts for no group of machines: nothing in its namespace matches spec.targets, or more " +
	"precise policies count for all that does. Fix: compare the names and labels there with those of the Clusters and MachineDeployments"

func computeReady(f *findings) metav1.Condition {
	ready := metav1.Condition{Type: v1alpha1.ReadyCondition, Status: metav1.ConditionFalse}
	switch {
	case f.invalid != nil:
		ready.Reason, ready.Message = v1alpha1.UpdatePolicyInvalidReason, f.invalid.Detail()
	case f.tooMany != "":
		ready.Reason, ready.Message = v1alpha1.UpdatePolicyTooManyReason, f.tooMany
	case f.conflictCount > 0:
		ready.Reason = v1alpha1.UpdatePolicyConflictReason
		if more := f.conflictCount - len(f.conflicts); more > 0 {
			f.conflicts = append(f.conflicts, fmt.Sprintf("and %d more", more))
		}
		ready.Message = strings.Join(f.conflicts, "; ") +
			"; these groups are not updated until one policy names each more precisely than the others"
	case f.groupCount == 0 && f.undecidedCount == 0:
		ready.Status, ready.Reason = metav1.ConditionTrue, v1alpha1.UpdatePolicyNoGroupsReason
		ready.Message = noGroups
	default:
		ready.Status, ready.Reason = metav1.ConditionTrue, v1alpha1.UpdatePolicyValidReason
	}
	return ready
}

func computeGuarding(f *findings, guard Guard) metav1.Condition {
	guarding := metav1.Condition{Type: v1alpha1.GuardingCondition, Status: metav1.ConditionFalse}
	switch {
	case f.invalid != nil:
		guarding.Status, guarding.Reason = metav1.ConditionUnknown, v1alpha1.UpdatePolicyInvalidReason
		guarding.Message = "the spec cannot be used, so it is not known which groups to guard"
		if f.undecidedCount > 0 && guard.Active && f.uncoveredCount == 0 {
			guarding.Message += fmt.Sprintf("; until it is correct, the guard refuses to create and to delete the Machines of %s",
				text.Count(f.undecidedCount, "group"))
		}
	case f.tooMany != "":
		guarding.Status, guarding.Reason = metav1.ConditionUnknown, v1alpha1.UpdatePolicyTooManyReason
		guarding.Message = f.tooMany
	case len(f.guarded) == 0 && f.undecidedCount == 0:
		guarding.Reason = v1alpha1.NotNeededReason
		guarding.Message = "the policy has no group whose machines must not be replaced"
	case !guard.Active:
		guarding.Reason, guarding.Message = guard.Reason, guard.Message
	case f.uncoveredCount > 0:
		guarding.Reason, guarding.Message = v1alpha1.GuardNotCoveringReason, DescribeUncovered(f.uncovered, f.uncoveredCount)
	case f.undecidedCount > 0:
		guarding.Status, guarding.Reason = metav1.ConditionTrue, f.undecidedReason
		guarding.Message = fmt.Sprintf("the guard refuses to create and to delete the Machines of %s, "+
			"because it is not known which UpdatePolicy counts: %s", text.Count(f.undecidedCount, "group"), f.undecided)
	default:
		guarding.Status, guarding.Reason = metav1.ConditionTrue, guard.Reason
	}
	return guarding
}

// DescribeUncovered says that the API server does not ask the guard about the Machines of count groups, at least one. first names one of them.
func DescribeUncovered(first string, count int) string {
	more := ""
	if count > 1 {
		more = fmt.Sprintf(" and %d more groups", count-1)
	}
	return fmt.Sprintf("the match condition %q of ValidatingWebhookConfiguration %q does not include the %s%s yet, so nothing keeps Cluster API from "+
		"replacing their machines. Fix: see that `windlass extension` runs, and in its log why it cannot patch the configuration",
		v1alpha1.GuardScopeCondition, v1alpha1.GuardConfigurationName, first, more)
}

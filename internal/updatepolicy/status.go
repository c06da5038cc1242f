package updatepolicy

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/readiness"
	"github.com/windlass-dev/windlass/internal/text"
)

// The bounds of the lists in the status; the CRD has the same.
const (
	maxGroups   = 256
	maxWarnings = 16
)

// minSurgelessReplicas is how many replicas a KubeadmControlPlane must have before its webhook accepts maxSurge 0.
const minSurgelessReplicas = 3

// State is a group as it is.
type State struct {
	Group Group
	// Kubeadm says that the control plane is a KubeadmControlPlane.
	Kubeadm bool
	// Replicas are the control plane's desired ones; nil where they are not known, and for MachineDeployments.
	Replicas *int64
}

// findings are what is known about one policy.
type findings struct {
	invalid *InvalidError
	groups  []string
	guarded bool
	// uncovered are the guarded groups that the guard is not asked about.
	uncovered []string
	warnings  []string
	conflicts []string
}

// ComputeStatuses returns the status that each policy of one namespace should have, in their order. groups are all groups of
// that namespace. now becomes the time of a condition that changes; one that does not keeps its own.
func ComputeStatuses(policies []v1alpha1.UpdatePolicy, groups []State, guard Guard, now metav1.Time) []v1alpha1.UpdatePolicyStatus {
	found := collect(policies, groups, guard)
	statuses := make([]v1alpha1.UpdatePolicyStatus, 0, len(policies))
	for i := range policies {
		statuses = append(statuses, computeStatus(&policies[i], found[policies[i].Name], guard, now))
	}
	return statuses
}

// collect finds out which policy counts for which group.
func collect(policies []v1alpha1.UpdatePolicy, groups []State, guard Guard) map[string]*findings {
	found := make(map[string]*findings, len(policies))
	for i := range policies {
		f := &findings{}
		if invalid, ok := errors.AsType[*InvalidError](Check(&policies[i])); ok {
			f.invalid = invalid
		}
		found[policies[i].Name] = f
	}
	sorted := slices.Clone(groups)
	slices.SortFunc(sorted, func(a, b State) int { return Compare(a.Group, b.Group) })
	for _, g := range sorted {
		selected, err := Select(policies, g.Group)
		if conflict, ok := errors.AsType[*ConflictError](err); ok {
			for _, name := range conflict.Policies {
				found[name].conflicts = append(found[name].conflicts, describeConflict(conflict, name))
			}
		}
		if err != nil || selected.Name == "" {
			continue
		}
		f := found[selected.Name]
		f.groups = append(f.groups, g.Group.String())
		f.guarded = f.guarded || selected.Guarded
		if selected.Guarded && !guard.Covers(g.Group) {
			f.uncovered = append(f.uncovered, g.Group.String())
		}
		if warning := computeWarning(g, selected); warning != "" {
			f.warnings = append(f.warnings, warning)
		}
	}
	return found
}

func describeConflict(e *ConflictError, name string) string {
	others := slices.DeleteFunc(slices.Clone(e.Policies), func(other string) bool { return other == name })
	return fmt.Sprintf("the %s is also selected by %s with the same precision (%s)", e.Group, quoteAll(others), e.by)
}

// computeWarning says why a group cannot be updated as its policy asks; empty where nothing is known to prevent it. Before it
// asks whether a machine can be updated in place, KubeadmControlPlane creates another one, unless its maxSurge is 0.
func computeWarning(s State, selected Selected) string {
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
	if f.invalid == nil {
		count := int32(min(len(f.groups), 1<<31-1))
		status.GroupCount = &count
		status.Groups = f.groups[:min(len(f.groups), maxGroups)]
		status.Warnings = f.warnings[:min(len(f.warnings), maxWarnings)]
	}
	ready, guarding := computeReady(f), computeGuarding(f, guard)
	for _, c := range []*metav1.Condition{&ready, &guarding} {
		c.ObservedGeneration, c.LastTransitionTime = p.Generation, now
	}
	// A conflict can end by an edit of the other policy.
	readiness.Set(&status.Conditions, ready, f.invalid != nil)
	meta.SetStatusCondition(&status.Conditions, guarding)
	return status
}

func computeReady(f *findings) metav1.Condition {
	ready := metav1.Condition{Type: v1alpha1.ReadyCondition, Status: metav1.ConditionFalse}
	switch {
	case f.invalid != nil:
		ready.Reason, ready.Message = v1alpha1.UpdatePolicyInvalidReason, f.invalid.Detail()
	case len(f.conflicts) > 0:
		ready.Reason = v1alpha1.UpdatePolicyConflictReason
		ready.Message = text.JoinSome(f.conflicts, maxProblems, "; ") +
			"; these groups are not updated until one policy names each more precisely than the others"
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
	case !f.guarded:
		guarding.Reason = v1alpha1.NotNeededReason
		guarding.Message = "the policy has no group whose machines must not be replaced"
	case !guard.Active:
		guarding.Reason, guarding.Message = guard.Reason, guard.Message
	case len(f.uncovered) > 0:
		guarding.Reason, guarding.Message = v1alpha1.GuardNotCoveringReason, DescribeUncovered(f.uncovered)
	default:
		guarding.Status, guarding.Reason = metav1.ConditionTrue, guard.Reason
	}
	return guarding
}

// DescribeUncovered says that the API server does not ask the guard about the Machines of these groups, of which there is at least one.
func DescribeUncovered(groups []string) string {
	more := ""
	if len(groups) > 1 {
		more = fmt.Sprintf(" and %d more groups", len(groups)-1)
	}
	return fmt.Sprintf("the match condition %q of ValidatingWebhookConfiguration %q does not include the %s%s yet, so nothing keeps Cluster API from "+
		"replacing their machines. Fix: see that `windlass extension` runs, and in its log why it cannot patch the configuration",
		v1alpha1.GuardScopeCondition, v1alpha1.GuardConfigurationName, groups[0], more)
}

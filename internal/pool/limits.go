package pool

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/text"
)

// Reasons for which a limit of the UpdatePolicy keeps Machines from being updated or replaced.
const (
	// ReasonMaxInFlight: as many Machines as maxInFlight allows are being changed.
	ReasonMaxInFlight Reason = "MaxInFlight"
	// ReasonCanary: the first Machines are being changed, and the others wait for them.
	ReasonCanary Reason = "Canary"
	// ReasonCanaryFailed: one of the first Machines failed.
	ReasonCanaryFailed Reason = "CanaryFailed"
	// ReasonBatch: a batch is being changed, and the next one waits for it.
	ReasonBatch Reason = "Batch"
	// ReasonBatchFailed: one of the Machines that are to be done before the next batch begins failed.
	ReasonBatchFailed Reason = "BatchFailed"
	// ReasonPartition: the policy keeps the remaining Machines at the old template.
	ReasonPartition Reason = "Partition"
	// ReasonMaxFailures: as many Machines as maxFailures allows have failed.
	ReasonMaxFailures Reason = "MaxFailures"
	// ReasonMachineDeadline: the change of a Machine takes longer than the policy allows.
	ReasonMachineDeadline Reason = "MachineDeadline"
	// ReasonGroupDeadline: the rollout takes longer than the policy allows.
	ReasonGroupDeadline Reason = "GroupDeadline"
	// ReasonOrder: Machines of another place in the order are changed first.
	ReasonOrder Reason = "Order"
	// ReasonOrderFailed: a Machine failed that is to be done before those of the next place begin.
	ReasonOrderFailed Reason = "OrderFailed"
	// ReasonPolicyUnknown: nobody can tell which UpdatePolicy counts for the group.
	ReasonPolicyUnknown Reason = "PolicyUnknown"
)

// Limits are a policy, as what bounds how a rollout reaches the Machines of a group, in place and by
// replacement. They narrow the rules of the strategy and never widen them. They do not count while
// people delete the Machines (OnDelete), and never keep spec.replicas from being followed. MaxInFlight
// bounds moves, and so updates in place, only if a limit other than the canary may hold the rollout.
// Soak is for new Machines: an update in place soaks before it ends.
type Limits policy.Policy

// LimitsOf returns the limits of a policy for a group; nil if none count: people delete its Machines, or
// no UpdatePolicy selects it.
func LimitsOf(p policy.Policy, md *clusterv1.MachineDeployment) *Limits {
	limited := p.Name != "" && (!IsOnDelete(md) || p.UpdateOnDelete)
	if !limited && p.Unknown == "" {
		return nil
	}
	return (*Limits)(&p)
}

// Keeps reports whether no rollout of windlass manager may create or delete a Machine of a group: as the
// policy says, and if it has a group with the strategy OnDelete updated in place.
func Keeps(p policy.Policy, md *clusterv1.MachineDeployment) bool {
	return p.Guarded || p.UpdateOnDelete && IsOnDelete(md)
}

// Progress is how far the rollout of a group is, in Machines.
type Progress struct {
	// Replicas is spec.replicas of the MachineDeployment.
	Replicas int32
	// Touched are those that are at the new template, or on the way to it, or whose place a new
	// Machine will take. Done are those of them that are available and have soaked.
	Touched, Done int32
	// InFlight are those that are being updated, created or deleted. Updating are those that are being
	// updated, also those whose update failed finally, and without those that were refused.
	InFlight, Updating int32
	// Updated is how many of Done were moved to the new MachineSet, and not created there.
	Updated int32
	// Alone says that the next Machine is updated in place, and that none was updated before: the
	// engine of updates lets one begin alone.
	Alone bool
	// Kept says that no rollout creates Machines: those that are created prove nothing about it.
	Kept bool
	// Replaced is how many of Touched are no canaries: in a kept group those that were created or are
	// missing, elsewhere those that took the place of canaries that failed and were remediated.
	Replaced int32
	// Held says that such a canary holds the rollout, and what to do; empty if none does.
	Held string
	// Failed are updates that failed finally, Overdue are changes beyond MachineDeadline.
	Failed, Overdue []string
	// Late says that the rollout is beyond GroupDeadline.
	Late bool
	// Turn is what a strict order lets begin; nil without one, and if nothing is left.
	Turn *Turn
	// Wake is when time alone changes one of these; zero if it does not.
	Wake time.Time
}

// Allowance is how many more Machines a rollout may touch now.
type Allowance struct {
	// More is between 0 and the number of Machines that are not touched.
	More int32
	// Reason and Message say what keeps More from being larger; empty if nothing does.
	Reason  Reason
	Message string
}

// Allow returns how many more Machines a rollout may touch.
func (l Limits) Allow(p Progress) Allowance {
	left := max(p.Replicas-p.Touched, 0)
	if left == 0 {
		return Allowance{}
	}
	stay := Share(l.Partition, p.Replicas)
	if left <= stay {
		p.Late = false // The partition holds the rollout, and not the time that it takes.
	}
	if reason, message := l.hold(p); reason != "" {
		return Allowance{Reason: reason, Message: message}
	}
	if first := Share(l.Canary, p.Replicas); len(p.Failed) > 0 && p.proved() < first {
		reason, message := l.canaryFailed(p.Failed[0], first)
		return Allowance{Reason: reason, Message: message}
	}
	a := Allowance{More: left}
	a = a.bound(left-stay, ReasonPartition,
		fmt.Sprintf("the UpdatePolicy keeps %d Machines at the old template (partition %s). "+
			"Fix: lower partition when they are to change", stay, l.Partition.String()))
	a = l.stage(a, p).inOrder(p)
	if l.MaxInFlight > 0 {
		a = a.bound(l.MaxInFlight-p.InFlight, ReasonMaxInFlight,
			fmt.Sprintf("at most %d Machines are changed at once (maxInFlight)", l.MaxInFlight))
	}
	return a
}

func (a Allowance) bound(most int32, reason Reason, message string) Allowance {
	if most = max(most, 0); most < a.More {
		return Allowance{More: most, Reason: reason, Message: message}
	}
	return a
}

// hold returns why no Machine may be touched until a person acts.
func (l Limits) hold(p Progress) (reason Reason, message string) {
	failed := p.Overdue
	if l.MaxFailures > 0 {
		failed = p.bad()
	}
	switch {
	case l.Unknown != "":
		return ReasonPolicyUnknown, "it is unknown which UpdatePolicy counts: " + l.Unknown
	case p.Held != "" && Share(l.Canary, p.Replicas) > 0:
		return ReasonCanaryFailed, p.Held
	case l.MaxFailures > 0 && len(failed) >= int(l.MaxFailures):
		return ReasonMaxFailures, failedMessage(failed, l.MaxFailures)
	case len(failed) > 0 && l.MaxFailures == 0:
		return ReasonMachineDeadline, fmt.Sprintf("the change of Machine %s takes longer than %s "+
			"(machineDeadlineSeconds). Fix: repair it, or %s, or raise the deadline",
			failed[0], l.MachineDeadline, replaceByHand)
	case p.Late:
		return ReasonGroupDeadline, fmt.Sprintf("the rollout takes longer than %s "+
			"(groupDeadlineSeconds). Fix: find out why, and raise the deadline, or set the annotation "+
			"%s on the MachineDeployment to count from zero",
			l.GroupDeadline, v1alpha1.UpdateRetryAnnotation)
	}
	return "", ""
}

// canaryFailed is why a rollout is held of whose first Machines one failed.
func (l Limits) canaryFailed(name string, first int32) (reason Reason, message string) {
	return ReasonCanaryFailed, fmt.Sprintf("Machine %s, one of the first %d, failed (canary %s). "+
		"Fix: repair it, or change the template", name, first, l.Canary.String())
}

// bad are the Machines that failed or are overdue, sorted.
func (p *Progress) bad() []string {
	bad := slices.Concat(p.Failed, p.Overdue)
	slices.Sort(bad)
	return slices.Compact(bad)
}

// failedMessage names the first Machine that failed, and how many have.
func failedMessage(failed []string, most int32) string {
	return fmt.Sprintf(
		"Machine %s failed (maxFailures %d). Fix: repair it, or %s, or raise maxFailures",
		text.JoinSome(failed, 1, ", "), most, replaceByHand)
}

// stage bounds an allowance by the canary and the batches.
func (l Limits) stage(a Allowance, p Progress) Allowance {
	s, bad := l.Stage(p), p.bad()
	switch {
	case s.Canary:
		first := Share(l.Canary, p.Replicas)
		reason, message := ReasonCanary, fmt.Sprintf(
			"the first %d Machines are changed before the others (canary %s)", first, l.Canary.String())
		if p.Alone && first > 1 {
			message = fmt.Sprintf("the first Machine is updated alone (canary %s)", l.Canary.String())
		}
		if len(bad) > 0 {
			reason, message = l.canaryFailed(bad[0], first)
		}
		return a.bound(s.End-p.Touched, reason, message)
	case s.Batch == 0:
		return a
	case len(bad) > 0 && s.End <= p.Touched:
		return a.bound(0, ReasonBatchFailed,
			fmt.Sprintf("Machine %s failed, and is to be done before batch %d begins. "+
				"Fix: repair it, or %s", bad[0], s.Batch+1, replaceByHand))
	}
	return a.bound(s.End-p.Touched, ReasonBatch,
		fmt.Sprintf("batch %d is changed first; it ends with Machine %d of %d",
			s.Batch, s.End, p.Replicas))
}

// Share returns a number, or a percentage of replicas, rounded up, between 0 and replicas, as
// Canary, Batches and Partition count. What is neither counts as all: the rollout then waits
// longer, and never less.
func Share(of intstr.IntOrString, replicas int32) int32 {
	n, err := intstr.GetScaledValueFromIntOrPercent(&of, int(replicas), true)
	if err != nil {
		return replicas
	}
	return int32(min(max(n, 0), int(replicas))) // #nosec G115 -- at most replicas
}

// heldBy are the reasons of Limits that need a person, in the order of their names.
var heldBy = []Reason{
	ReasonBatchFailed, ReasonCanaryFailed, ReasonGroupDeadline, ReasonMachineDeadline,
	ReasonMaxFailures, ReasonOrderFailed, ReasonPolicyUnknown,
}

// NeedsPerson reports whether a rollout waits for this reason until a person or an extension acts.
func (r Reason) NeedsPerson() bool {
	return slices.Contains(heldBy, r) || r.BlocksKept()
}

// Blocks reports whether the condition UpdateBlocked shows the reason if no Machine may begin.
func (r Reason) Blocks() bool { return r == ReasonPartition || r.NeedsPerson() }

package machinedeployment

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	v1beta1conditions "sigs.k8s.io/cluster-api/util/conditions/deprecated/v1beta1"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/condition"
	"github.com/windlass-dev/windlass/internal/pool"
	"github.com/windlass-dev/windlass/internal/pool/objects"
	"github.com/windlass-dev/windlass/internal/text"
)

// maxConditionBytes bounds the message of the condition UpdateBlocked, which may repeat an
// extension's.
const maxConditionBytes = 1024

// written returns the MachineSets as they were written.
func (e *executed) written() []*clusterv1.MachineSet {
	if e.newest == nil {
		return e.old
	}
	return append(slices.Clone(e.old), e.newest)
}

// completion is the status that tells whether the rollout is complete: counters of what was
// written, and the generation that an earlier run has observed.
func (r *run) completion() clusterv1.MachineDeploymentStatus {
	status := clusterv1.MachineDeploymentStatus{ObservedGeneration: r.read.Status.ObservedGeneration}
	pool.CountSets(r.executed.written()).Into(&status)
	return status
}

// finish sets the status, and writes what the run changed of the MachineDeployment. runErr is the
// error that ended the run; nil if it did what the spec asks for. A status that may wait is left as
// it was read; wait is how long it can be, and 0 if nothing waits.
func (r *run) finish(ctx context.Context, runErr error) (wait time.Duration, err error) {
	if err := r.setStatus(); err != nil {
		return 0, err
	}
	r.setLegacyStatus()
	r.setBlocked()
	if runErr == nil {
		r.md.Status.ObservedGeneration = r.md.Generation
	}
	changed := !equality.Semantic.DeepEqual(r.read.Status, r.md.Status)
	if changed && runErr == nil && r.md.DeletionTimestamp.IsZero() {
		wait = r.pace.Wait(r.md.UID, pool.DeploymentStatusMayWait(r.read, r.md), r.Now())
	}
	if wait > 0 {
		r.read.Status.DeepCopyInto(&r.md.Status)
	}
	if err := objects.Save(ctx, r.Client, r.read, r.md); err != nil {
		return 0, fmt.Errorf("writing MachineDeployment %s: %w", r.name(), err)
	}
	if changed && wait == 0 {
		r.pace.Wrote(r.md.UID, r.Now())
	}
	if r.md.ResourceVersion != r.read.ResourceVersion && r.md.DeletionTimestamp.IsZero() {
		r.await(deploymentType, r.md.ResourceVersion)
	}
	return wait, nil
}

func (r *run) setStatus() error {
	facts := pool.DeploymentFacts{
		MachineDeployment: r.md, MachineSets: r.sets, SetsRead: r.setsRead, Machines: r.machines,
		BootstrapTemplateMissing:      r.templates.bootstrapMissing,
		InfrastructureTemplateMissing: r.templates.infrastructureMissing,
		Now:                           r.Now(),
	}
	status, err := facts.Status()
	if err != nil {
		return err
	}
	status.Counters.Into(&r.md.Status)
	r.md.Status.Selector, r.md.Status.Phase = status.Selector, string(status.Phase)
	for _, c := range status.Conditions {
		condition.SetOn(r.md, c)
	}
	if !conditions.IsTrue(r.md, clusterv1.MachineDeploymentRollingOutCondition) {
		r.forgetRollout()
	}
	return nil
}

// setLegacyStatus sets the status in its form of API v1beta1. A run that ended before it wrote the
// MachineSets leaves it unchanged but for the summary.
func (r *run) setLegacyStatus() {
	if r.executed != nil {
		pool.CountLegacy(r.executed.written(), r.executed.newest).Into(&r.md.Status)
		for _, c := range pool.LegacyConditions(r.md, r.executed.newest) {
			v1beta1conditions.Set(condition.Legacy(r.md), &c)
		}
	}
	v1beta1conditions.SetSummary(condition.Legacy(r.md),
		v1beta1conditions.WithConditions(clusterv1.MachineDeploymentAvailableV1Beta1Condition))
}

// setBlocked says on the MachineDeployment why its Machines are neither updated nor replaced. The
// engine of updates in place sets the same condition when it refuses to answer; its words stay.
func (r *run) setBlocked() {
	if r.held == nil && r.executed == nil {
		return
	}
	why := r.held
	if why == nil {
		why = r.blockedBy(r.executed.Plan)
	}
	present := conditions.Get(r.md, v1alpha1.UpdateBlockedCondition)
	switch {
	case why == nil && present != nil && pool.Reason(present.Reason).Blocks():
		conditions.Delete(r.md, v1alpha1.UpdateBlockedCondition)
	case why != nil && (present == nil || r.isOwn(present)):
		r.writeBlocked(present, why)
	}
}

// blockedBy returns why a plan neither updates nor replaces Machines; nil if it may.
func (r *run) blockedBy(plan pool.Plan) *pool.Decision {
	why := heldBack(plan)
	if why == nil && r.keep {
		why = plan.Blocked()
	}
	return why
}

// writeBlocked sets the condition UpdateBlocked, and an Event if its reason is another one.
func (r *run) writeBlocked(present *metav1.Condition, why *pool.Decision) {
	message := text.Bound(r.messageOf(why), maxConditionBytes)
	if present != nil && !pool.Reason(present.Reason).StopsDeadline() && why.Reason.StopsDeadline() {
		// The deadline of the group stops now: the condition needs the time of that.
		conditions.Delete(r.md, v1alpha1.UpdateBlockedCondition)
	}
	if present == nil || present.Reason != string(why.Reason) {
		r.event(corev1.EventTypeWarning, string(why.Reason), "%s", message)
	}
	condition.SetOn(r.md, metav1.Condition{
		Type: v1alpha1.UpdateBlockedCondition, Status: metav1.ConditionTrue, Reason: string(why.Reason),
		Message: message, LastTransitionTime: metav1.NewTime(r.Now().Truncate(time.Second)),
	})
}

// messageOf returns the message for the condition. That of a refusal is about all Machines of a
// MachineSet, and stays as the extension writes it.
func (r *run) messageOf(why *pool.Decision) string {
	if message, ok := r.refusals[why.MachineSet]; ok && why.Reason == pool.ReasonNotCovered {
		return message
	}
	if why.Machine != "" {
		return fmt.Sprintf("Machine %s: %s", why.Machine, why.Message)
	}
	return why.Message
}

// heldBack returns why the limits of the UpdatePolicy let no other Machine begin until a person
// acts; nil if they do.
func heldBack(plan pool.Plan) *pool.Decision {
	a := plan.Allowance
	if a.More > 0 || !a.Reason.Blocks() {
		return nil
	}
	return &pool.Decision{Action: pool.Wait, Reason: a.Reason, Message: a.Message}
}

// isOwn reports whether the condition UpdateBlocked is this controller's. The engine has the reason
// NotCovered, too: it writes the condition, and then refuses to answer with the same message, or an
// error hides what it says now, which is the reason CoverageUnknown here.
func (r *run) isOwn(c *metav1.Condition) bool {
	if reason := pool.Reason(c.Reason); reason != pool.ReasonNotCovered {
		return reason.Blocks()
	}
	isUnknown := func(d pool.Decision) bool { return d.Reason == pool.ReasonCoverageUnknown }
	unknown := r.executed == nil || slices.ContainsFunc(r.executed.Decisions, isUnknown)
	return !unknown && !slices.Contains(slices.Collect(maps.Values(r.refusals)), c.Message)
}

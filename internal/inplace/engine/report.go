package engine

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/text"
)

// Reasons of Events that are not also reasons of a condition.
const (
	// DecidedReason: a machine, or the machines of a MachineSet, will be updated in place.
	DecidedReason = "UpdateInPlaceDecided"
	// ReplacedReason: machines will be replaced, because no updaters cover the change.
	ReplacedReason = "UpdateByReplacement"
	// StepDoneReason: one of several updaters finished. FinishedReason: a machine's update ended well. That it starts is an
	// Event of Cluster API.
	StepDoneReason = "UpdaterFinished"
	FinishedReason = "UpdateFinished"
	// UncheckedReason: an updater covers a change without knowing whether it succeeds.
	UncheckedReason = "UpdateUnchecked"
	// AbandonedReason: a person gave a machine's update up.
	AbandonedReason = "UpdateAbandoned"
	// AttemptFailedReason: an attempt failed, and another one follows.
	AttemptFailedReason = "UpdateAttemptFailed"
	// PrefetchedReason: the machines of a Cluster are prepared for their next version, as far as they can be.
	PrefetchedReason = "UpdatePrefetched"
	// PrefetchFailedReason: a machine cannot be prepared for its next version.
	PrefetchFailedReason = "UpdatePrefetchFailed"
)

const (
	action = "UpdateInPlace"
	// reportTimeout is for showing that a call failed after its own time was over.
	reportTimeout = 4 * time.Second
	// maxMessage bounds messages of Events and conditions, in bytes.
	maxMessage = 1024
)

// sayAgainAfter is how long what was said last about an object is remembered after it was last said. Cluster API asks again sooner about an object that is
// there, so what is forgotten is about objects that are gone or done.
const sayAgainAfter = time.Hour

// drainMessageFor is how long the message of a drain stays.
const drainMessageFor = 30 * time.Second

// statusEvery is how often the status of an Updater is written at most.
const statusEvery = time.Minute

// saidOf names what something was said about: a Machine, or an owner and the source that blocks it.
// Two MachineSets that are refused for different reasons would otherwise take turns.
type saidOf struct{ object, source types.UID }

// showAgainAfter is when a condition is applied again that did not change. Others may have removed it, or
// the API server may have been restored to a state without it.
const showAgainAfter = 10 * time.Minute

// forgetSaid forgets what was said about an object, for each source.
func (e *Engine) forgetSaid(object types.UID) {
	e.said.ForgetFunc(func(about saidOf) bool { return about.object == object })
}

func logFor(ctx context.Context) logr.Logger { return ctrl.LoggerFrom(ctx) }

// reportBlocked shows why machines are neither updated nor replaced, on what shownOn returns.
func (e *Engine) reportBlocked(ctx context.Context, o owner, subject client.Object, r *RefusedError) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reportTimeout)
	defer cancel()
	message := cut(r.Message)
	about := saidOf{object: o.object.UID, source: subject.GetUID()}
	switch {
	case e.said.Changed(about, r.Reason+message, e.Now()):
		logFor(ctx).Info("Neither updating nor replacing machines", "group", o.group.String(), "reason", r.Reason, "message", message)
		e.Events.Eventf(o.object, subject, corev1.EventTypeWarning, r.Reason, action, "%s", message)
	case e.said.Lasts(about, r.Reason+message, e.Now()) < showAgainAfter:
		return
	default:
		e.said.Renew(about, e.Now())
	}
	shown, known := o.shownOn(subject)
	if known.isMachine() && r.Reason == v1alpha1.UpdateFailedReason {
		return // The Machine shows its own failure.
	}
	e.blocked.add(known, subject.GetName())
	if err := e.ApplyConditions(ctx, shown, FieldOwner, e.blockedCondition(r.Reason, message)); err != nil {
		logFor(ctx).Error(err, "Writing the condition of a blocked group", "group", o.group.String())
		e.said.Forget(about)
	}
}

// hasKeyedConditions reports whether the conditions of a kind are a list with keys, as in Cluster API's
// own kinds. In a list without keys, such as that of an RKE2ControlPlane, to apply one condition would
// remove those of the provider.
func hasKeyedConditions(kind schema.GroupVersionKind) bool {
	return kind.Group == clusterv1.GroupVersion.Group || kind.GroupKind() == kubeadmControlPlaneKind.GroupKind()
}

// reportUnblocked removes the condition, where one is known of, unless the machines of another MachineSet still block.
func (e *Engine) reportUnblocked(ctx context.Context, o owner, subject client.Object) {
	shown, object := o.shownOn(subject)
	known, lifted := e.blocked.lift(object, subject.GetName())
	if known || lifted {
		// The next question about another source puts its words into the condition.
		e.forgetSaid(o.object.UID)
	}
	if !lifted {
		return
	}
	if err := e.RemoveCondition(ctx, shown, FieldOwner, v1alpha1.UpdateBlockedCondition); err != nil {
		e.blocked.add(object, subject.GetName())
		logFor(ctx).Error(err, "Removing the condition of a group that is no longer blocked", "group", o.group.String())
	}
}

func (e *Engine) reportReplaced(o owner, subject client.Object, message string) {
	e.Events.Eventf(o.object, subject, corev1.EventTypeWarning, ReplacedReason, action, "%s", cut("Machines are replaced: "+message))
}

func (e *Engine) reportDecided(ctx context.Context, o owner, subject client.Object, d inplace.Decision) {
	logFor(ctx).Info("Decided to update in place", "group", o.group.String(), "object", client.ObjectKeyFromObject(subject).String(), "target", d.Target, "steps", stepNames(d.Steps), "decision", d.ID)
	e.Events.Eventf(o.object, subject, corev1.EventTypeNormal, DecidedReason, action, "%s", cut("Updates in place by "+stepNames(d.Steps)))
}

// reportUnchecked tells once what updaters cover without knowing whether it succeeds. subject is what
// they were asked about; nil if that is the object itself.
func (e *Engine) reportUnchecked(
	ctx context.Context, object, subject client.Object, warnings []string,
) {
	message := cut(strings.Join(warnings, "; "))
	about := saidOf{object: object.GetUID(), source: UncheckedReason}
	if message == "" || !e.said.Changed(about, message, e.Now()) {
		return
	}
	logFor(ctx).Info("The update was not checked completely",
		"object", client.ObjectKeyFromObject(object).String(), "message", message)
	e.Events.Eventf(object, subject, corev1.EventTypeWarning, UncheckedReason, action, "%s", message)
}

// reportProgress says what changed between two records of a machine's update.
func (e *Engine) reportProgress(ctx context.Context, m *clusterv1.Machine, before, after *inplace.Progress) {
	logger := logFor(ctx).WithValues("machine", client.ObjectKeyFromObject(m).String(), "update", after.ID, "to", after.To.String())
	if before == nil {
		logger.Info("Started to update a machine in place", "phase", after.Phase, "steps", stepNames(after.Steps))
	}
	done := 0
	if before != nil {
		done = len(before.Done)
	}
	for _, f := range after.Done[done:] {
		logger.Info("An updater finished", "updater", f.Updater, "attempts", f.Attempts, "seconds", f.Seconds)
		if len(after.Done)+len(after.Steps) > 1 {
			e.Events.Eventf(m, nil, corev1.EventTypeNormal, StepDoneReason, action, "Updater %q finished after %d s, attempt %d", f.Updater, f.Seconds, f.Attempts)
		}
	}
	if before == nil || before.Phase == after.Phase {
		return
	}
	switch after.Phase {
	case inplace.BackingOff:
		logger.Info("An attempt failed", "attempt", after.Attempt, "message", cut(after.LastError))
		e.Events.Eventf(m, nil, corev1.EventTypeWarning, AttemptFailedReason, action, "%s", cut(fmt.Sprintf("Attempt %d of updater %q failed: %s", after.Attempt, after.Steps[0].Updater, after.LastError)))
	case inplace.Failed:
		logger.Info("The update failed finally", "message", cut(after.LastError))
		e.Events.Eventf(m, nil, corev1.EventTypeWarning, v1alpha1.UpdateFailedReason, action, "%s", cut(after.LastError))
	case inplace.Draining, inplace.Updating, inplace.Verifying, inplace.Soaking:
		logger.Info("The update continues", "phase", after.Phase)
	}
}

func (e *Engine) reportFinished(ctx context.Context, m *clusterv1.Machine, before *inplace.Progress, s inplace.Summary) {
	if before != nil && len(s.Done) > len(before.Done) {
		after := *before
		after.Done = s.Done
		e.reportProgress(ctx, m, before, &after)
	}
	took := s.Ended.Sub(s.Began).Round(time.Second)
	logFor(ctx).Info("Updated a machine in place", "machine", client.ObjectKeyFromObject(m).String(), "update", s.ID, "from", s.From.String(), "to", s.To.String(), "seconds", int64(took.Seconds()))
	if s.From == s.To {
		e.Events.Eventf(m, nil, corev1.EventTypeNormal, FinishedReason, action, "Updated in place at %s in %s", s.To, took)
		return
	}
	e.Events.Eventf(m, nil, corev1.EventTypeNormal, FinishedReason, action, "Updated in place from %s to %s in %s", s.From, s.To, took)
}

func (e *Engine) blockedCondition(reason, message string) metav1.Condition {
	return metav1.Condition{
		Type: v1alpha1.UpdateBlockedCondition, Status: metav1.ConditionTrue, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(e.Now()),
	}
}

// RemoveCondition removes the one condition that a field owner has on an object that is still what was decided
// on, also if another one has written it: windlass manager shows what blocks a group by the same condition.
func (e *Engine) RemoveCondition(
	ctx context.Context, object client.Object, owner client.FieldOwner, condition string,
) error {
	err := e.ApplyConditions(ctx, object, owner)
	if !apierrors.IsInvalid(err) {
		return err
	}
	// Without this owner's fields the condition would lack its reason and message, which the API server refuses.
	return e.fence.Retry(ctx, object, func() error { return e.fence.RemoveCondition(ctx, object, owner, condition) })
}

// ApplyConditions sets a field owner's conditions of an object that is still what was decided on; none removes
// those that nobody else has written.
func (e *Engine) ApplyConditions(
	ctx context.Context, object client.Object, owner client.FieldOwner, conditions ...metav1.Condition,
) error {
	gvk, err := e.Client.GroupVersionKindFor(object)
	if err != nil {
		return fmt.Errorf("finding the kind of %s/%s: %w", object.GetNamespace(), object.GetName(), err)
	}
	return e.fence.Retry(ctx, object, func() error {
		return e.fence.ApplyConditions(ctx, gvk, object, conditions, owner)
	})
}

func cut(s string) string { return text.Bound(s, maxMessage) }

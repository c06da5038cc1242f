package engine

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace/request"
)

const upgradeAction = "UpgradeInPlace"

// emit tells of a change of state, once it was recorded.
func (e *Engine) emit(ctx context.Context, kind string, object client.Object, event request.Event) {
	eventType, reason := corev1.EventTypeNormal, ""
	switch event.Kind {
	case request.NoEvent:
		return
	case request.Started:
		reason = v1alpha1.InPlaceUpgradeInProgressEvent
	case request.Ended:
		reason = v1alpha1.InPlaceUpgradeDoneEvent
	case request.FailedFinally:
		eventType, reason = corev1.EventTypeWarning, v1alpha1.InPlaceUpgradeFailedEvent
	case request.Cancelled:
		reason = v1alpha1.InPlaceUpgradeCancelledEvent
	case request.AttemptFailed:
		eventType, reason = corev1.EventTypeWarning, v1alpha1.InPlaceUpgradeAttemptFailedEvent
	}
	message := cut(event.Message)
	logFor(ctx).Info("Upgrade in place: "+reason, "kind", kind, "object", client.ObjectKeyFromObject(object).String(), "message", message)
	e.Events.Eventf(object, nil, eventType, reason, upgradeAction, "%s", message)
}

// report tells of what was recorded on a Machine.
func (r *machineRun) report(ctx context.Context, v request.MachineVerdict) {
	r.emit(ctx, machineKind.Kind, r.Object, v.Event)
	before, after := phaseOf(r.facts.Upgrade), phaseOf(v.After.Record)
	if v.Event.Kind == request.NoEvent && before != after && after != "" {
		logFor(ctx).Info("The upgrade in place continues", "machine", r.name(), "phase", after)
	}
}

func phaseOf(u *request.Upgrade) string {
	if u == nil || u.Progress == nil {
		return ""
	}
	return string(u.Progress.Phase)
}

// show shows how the upgrade stands. The error is a *staleError if that must be decided again.
func (r *machineRun) show(ctx context.Context, s request.State) error {
	return r.applyCondition(ctx, machineKind, r.Object, &r.Object.Status.Conditions, s)
}

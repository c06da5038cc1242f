package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/record"
	"github.com/windlass-dev/windlass/internal/updatepolicy"
)

// pollRemediation is when an update is tried again whose Machine is up for remediation.
const pollRemediation = 10 * time.Second

// run is one call of UpdateMachine.
type run struct {
	Machine
	live     *liveObjects
	owner    owner
	policy   policy.Policy
	decision *inplace.Decision
	facts    inplace.Facts
	// saved is what is recorded on the Machine.
	saved *inplace.Progress
}

// UpdateMachine carries a machine's update on as far as it goes without waiting, and says when to ask again. It is
// idempotent, and may be cut short at any point. The error is a *RefusedError where the update stands still until a person
// acts, and an *UnaskedError where Cluster API's marks do not ask for the update.
func (e *Engine) UpdateMachine(ctx context.Context, request *runtimehooksv1.UpdateMachineRequest) (inplace.Reply, error) {
	ctx, cancel := withBudget(ctx)
	defer cancel()
	if reply, ok := e.stillQueued(ctx, request); ok {
		return reply, nil
	}
	return e.update(ctx, request, false)
}

// update carries a machine's update on. If paused, it begins nothing: it only asks the updater that is
// at work.
func (e *Engine) update(
	ctx context.Context, request *runtimehooksv1.UpdateMachineRequest, paused bool,
) (inplace.Reply, error) {
	reply, err := e.tryUpdate(ctx, request, paused)
	if isStale(err) {
		// What was done so far was decided on what was then true. The next call reads everything again.
		return inplace.Reply{RetryAfter: inplace.NextStep, Message: "the Machine was changed meanwhile; reading it again"}, nil
	}
	return reply, err
}

func (e *Engine) tryUpdate(
	ctx context.Context, request *runtimehooksv1.UpdateMachineRequest, paused bool,
) (inplace.Reply, error) {
	live, unlock, err := e.lockMarked(ctx, request)
	switch {
	case errors.Is(err, errNoShare):
		return turnedAway(), nil
	case errors.Is(err, errBusy):
		return busy(), nil
	case err != nil:
		return inplace.Reply{}, err
	}
	defer unlock()
	r, err := e.readRun(ctx, live)
	if err != nil {
		return inplace.Reply{}, e.showMissingRights(ctx, live.machine, err)
	}
	r.facts.Paused = paused
	if r.facts.Progress == nil {
		if reply, waits := waitsForAnnotated(r.Object); waits {
			return reply, nil
		}
		if reply, isTurn, err := r.choose(ctx); !isTurn {
			return reply, err
		}
	}
	reply, err := inplace.Execute(ctx, r.facts, r)
	if err == nil && reply.Done {
		err = r.endReturns(ctx)
	}
	return r.report(ctx, reply, err)
}

// report shows the result of a step on the Machine, and returns the answer to the call.
func (r *run) report(ctx context.Context, reply inplace.Reply, err error) (inplace.Reply, error) {
	if unstored, is := errors.AsType[*record.UnstoredError](err); is {
		err = refused(v1alpha1.UnknownRecordReason, "%v", unstored)
	}
	refusal, isRefused := errors.AsType[*RefusedError](err)
	switch {
	case isRefused:
		r.showBlocked(ctx, refusal.Reason, cut(refusal.Message))
		return inplace.Reply{}, err
	case err != nil:
		return inplace.Reply{}, fmt.Errorf("updating Machine %s: %w", r.name(), err)
	case reply.Refused != nil:
		r.reportRefused(ctx, *reply.Refused)
		return inplace.Reply{}, refused(blockedReason(reply.Refused.Reason), "%s", reply.Message)
	}
	// The update continues, whatever it stood still for.
	r.clearCondition(ctx)
	if reply.Wait.Reason == inplace.ReasonQueued {
		if err := r.keepWhileQueued(ctx); err != nil {
			return inplace.Reply{}, err
		}
		return r.queue(reply.Wait), nil
	}
	return inplace.Reply{Done: reply.Done, RetryAfter: reply.RetryAfter, Message: reply.Message}, nil
}

// endReturns must be called before the answer that an update is done: Cluster API's controller then
// ends the update without a look at who owns the Machine. It returns a *staleError if a revert has
// taken the Machine back meanwhile.
func (r *run) endReturns(ctx context.Context) error {
	if !has(r.Object, v1alpha1.MovedFromAnnotation) {
		return nil
	}
	return r.Record(ctx, Patch{v1alpha1.MovedFromAnnotation: nil})
}

// lockMarked reads the objects of a Machine that Cluster API has marked, and keeps other calls about
// the Machine away until unlock. It never waits. The lock comes before the share of the namespace, so
// a Machine has one share at most, however many calls are about it. A call that nobody asks for takes
// neither. The error is errBusy while another call about the Machine runs, and errNoShare if the
// namespace has no share left.
func (e *Engine) lockMarked(
	ctx context.Context, request *runtimehooksv1.UpdateMachineRequest,
) (live *liveObjects, unlock func(), err error) {
	if live, err = e.readMarked(ctx, request); err != nil {
		return nil, nil, err
	}
	key := client.ObjectKeyFromObject(live.machine)
	free, ok := e.machines.TryLock(key)
	if !ok {
		return nil, nil, errBusy
	}
	release, ok := e.tenants.calls.TryAcquire(key.Namespace)
	if !ok {
		free()
		return nil, nil, errNoShare
	}
	return live, func() { release(); free() }, nil
}

var (
	// errNoShare says that a namespace has no share left of the calls that are served at once.
	errNoShare = errors.New("the namespace has no share left")
	// errBusy says that another call about the Machine runs.
	errBusy = errors.New("another call about the Machine runs")
)

// Begin lets an update begin while no other machine of the same policy can.
func (r *run) Begin(ctx context.Context, decide func(inplace.Others) (bool, error)) (*inplace.Reply, error) {
	if why := RemediationPrecedes(r.Object); why != "" {
		return &inplace.Reply{RetryAfter: pollRemediation, Message: "not started: the machine is marked for remediation:  " + why}, nil
	}
	if !r.owner.group.ControlPlane {
		return nil, r.withOthers(ctx, decide)
	}
	// Control plane controllers update one Machine at a time by themselves, but look at nothing that annotations ask for.
	why, err := r.peerUpgraded(ctx)
	if err != nil {
		return nil, err
	}
	if why != "" {
		return &inplace.Reply{RetryAfter: pollAnnotated, Message: "not started: " + why}, nil
	}
	_, err = decide(inplace.Others{})
	return nil, err
}

// Complete lets go of the machine's slot: the call that recorded the end may not have lived to do it.
func (r *run) Complete(context.Context) {
	r.endSlot(r.facts.Last.ID)
}

// Look notes the time and the node as facts.
func (r *run) Look(ctx context.Context) (time.Time, inplace.Node) {
	r.facts.Now, r.facts.Node = r.Machine.Look(ctx)
	return r.facts.Now, r.facts.Node
}

// CanBegin asks the updater of a step whether it can begin. It is shown what Call shows it.
func (r *run) CanBegin(ctx context.Context, a inplace.CanBegin) (inplace.Readiness, error) {
	u, err := servingUpdater(ctx, r.Client, a.Step.Updater, r.policy, r.Object)
	if err != nil {
		answer, err := r.notServed(err)
		return inplace.Readiness{Unknown: answer.Message}, err
	}
	return r.AskCanBegin(ctx, u, r.live.shown, Command{Operation: a.Operation})
}

// Call asks the updater of a step. It is shown the live objects, never the request's.
func (r *run) Call(ctx context.Context, a inplace.Call) (inplace.Answer, error) {
	u, err := servingUpdater(ctx, r.Client, a.Step.Updater, r.policy, r.Object)
	if err != nil {
		return r.notServed(err)
	}
	return r.Ask(ctx, u, r.live.shown, Command{
		Operation: a.Operation, Deadline: r.saved.Deadline(r.facts.Policy.AttemptTimeout), Cancel: a.Cancel,
	})
}

// notServed takes the error of servingUpdater. The error is a *RefusedError if the Updater may not be
// asked: only a person can change that. If the person gives the update up instead, the attempt ends
// with its time.
func (r *run) notServed(err error) (inplace.Answer, error) {
	_, excluded := errors.AsType[*updatepolicy.NotServedError](err)
	_, invalid := errors.AsType[*policy.InvalidError](err)
	switch {
	case !excluded && !invalid:
		return inplace.Answer{}, err
	case r.facts.Abandon:
		return inplace.Answer{Message: err.Error()}, nil
	}
	return inplace.Answer{}, refused(v1alpha1.UpdaterErrorReason, "cannot continue the update of Machine %s: %v", r.name(), err)
}

// Save records progress on the Machine, and shows it to people.
func (r *run) Save(ctx context.Context, before, after *inplace.Progress) error {
	if err := r.recordProgress(ctx, before, after, r.policy); err != nil {
		return err
	}
	r.saved, r.facts.Progress = after, after
	r.reportProgress(ctx, r.Object, before, after)
	r.measureProgress(ctx, r.Object, before, after)
	if before != nil && before.Phase == inplace.Failed {
		r.clearCondition(ctx)
		r.reportUnblocked(ctx, r.owner, r.Object)
	}
	if after.Phase == inplace.Failed {
		r.reportFailed(ctx, after)
	}
	return nil
}

// reportFailed shows on the owner that the update failed finally.
func (r *run) reportFailed(ctx context.Context, p *inplace.Progress) {
	r.reportBlocked(ctx, r.owner, r.Object, refused(v1alpha1.UpdateFailedReason,
		"the update of Machine %s to %s failed: %s. Fix: correct the cause, then set the annotation %s on the Machine",
		r.name(), p.To, p.LastError, v1alpha1.UpdateRetryAnnotation))
}

// Finish records the end of an update.
func (r *run) Finish(ctx context.Context, before *inplace.Progress, a inplace.Finish) error {
	if r.decision == nil {
		// Which fields are no longer dirty; that nobody knows any longer keeps nothing from ending.
		if err := r.readDecision(ctx); err != nil {
			return err
		}
	}
	if err := r.recordEnd(ctx, a, r.decision); err != nil {
		return err
	}
	r.endSlot(a.Summary.ID)
	r.reportFinished(ctx, r.Object, before, a.Summary)
	r.measureFinished(ctx, r.Object, before, a.Summary)
	return nil
}

// Abandon gives an update up.
func (r *run) Abandon(ctx context.Context, a inplace.AbandonUpdate) error {
	if err := r.confirm(ctx); err != nil {
		return err
	}
	if a.Uncordon {
		// A cluster that cannot be reached must not keep a person from giving its machine up.
		if err := r.Uncordon(ctx); err != nil {
			a.Message += fmt.Sprintf("; its node stays cordoned: %v", err)
		}
	}
	node := r.facts.Node
	marked := r.facts.Progress != nil || has(r.Object, v1alpha1.ScaleDownDisabledAnnotation)
	if marked && (node.Unknown != "" || node.ScaleDown == inplace.ScaleDownByUs) {
		if err := r.EnableScaleDown(ctx); err != nil {
			a.Message += fmt.Sprintf("; its node may keep %s: %v", v1alpha1.ScaleDownDisabledAnnotation, err)
		}
	}
	if err := r.recordAbandon(ctx, a.Owed); err != nil {
		return err
	}
	if p := r.facts.Progress; p != nil {
		r.endSlot(p.ID)
	}
	r.measureAbandoned(ctx, r.Object, r.facts.Progress)
	r.reportUnblocked(ctx, r.owner, r.Object)
	logFor(ctx).Info("Abandoned the update of a machine", "machine", r.name(), "message", a.Message)
	r.Events.Eventf(r.Object, nil, corev1.EventTypeWarning, AbandonedReason, action, "%s", a.Message)
	return nil
}

// reportRefused shows on the Machine why its update stands still: Cluster API hides the messages of failed hooks.
// It shows a failure on the owner too, if this process has not: the one that recorded it may have been killed before.
func (r *run) reportRefused(ctx context.Context, a inplace.Refuse) {
	if p := r.facts.Progress; hasFailed(p) && !r.blocked.has(r.owner.blockedObject(), r.Object.Name) {
		r.reportFailed(ctx, p)
	}
	r.showBlocked(ctx, blockedReason(a.Reason), cut(a.Message))
}

func (r *run) showBlocked(ctx context.Context, reason, message string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reportTimeout)
	defer cancel()
	isNew := r.said.Changed(saidOf{object: r.Object.UID}, reason+message, r.Now())
	if r.conditionIs(reason, message) {
		return // The Machine was read from the API server.
	}
	if isNew && r.facts.Progress == nil {
		r.Events.Eventf(r.Object, nil, corev1.EventTypeWarning, reason, action, "%s", message)
	}
	if isNew {
		logFor(ctx).Info("The update of a machine is blocked", "machine", r.name(), "reason", reason, "message", message)
	}
	if err := r.ApplyConditions(ctx, r.Object, FieldOwner, r.blockedCondition(reason, message)); err != nil {
		logFor(ctx).Error(err, "Writing the condition of a Machine", "machine", r.name())
		r.said.Forget(saidOf{object: r.Object.UID})
	}
}

func (r *run) isBlocked() bool {
	return meta.FindStatusCondition(r.Object.Status.Conditions, v1alpha1.UpdateBlockedCondition) != nil
}

func (r *run) conditionIs(reason, message string) bool {
	c := meta.FindStatusCondition(r.Object.Status.Conditions, v1alpha1.UpdateBlockedCondition)
	return c != nil && c.Reason == reason && c.Message == message
}

// clearCondition removes the condition where the Machine has it.
func (r *run) clearCondition(ctx context.Context) {
	r.said.Forget(saidOf{object: r.Object.UID})
	if !r.isBlocked() {
		return
	}
	if err := r.RemoveCondition(ctx, r.Object, FieldOwner, v1alpha1.UpdateBlockedCondition); err != nil {
		logFor(ctx).Error(err, "Removing the condition of a Machine", "machine", r.name())
	}
}

package update

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/core/inplace"
	"github.com/windlass-dev/windlass/internal/updatepolicy"
)

const (
	// nextStep is when Cluster API asks again where nothing has to be waited for: one call makes at most one request to an
	// updater, so that it ends within Cluster API's timeout.
	nextStep = time.Second
	// longestWait bounds when Cluster API asks again: what people write on the Machine is not seen before.
	longestWait = 15 * time.Second
	// maxActions bounds the actions of one call. More than a handful in a row is a fault.
	maxActions = 16
)

// run is one call of UpdateMachine.
type run struct {
	*Engine
	request  *runtimehooksv1.UpdateMachineRequest
	machine  *clusterv1.Machine
	owner    owner
	policy   updatepolicy.Selected
	decision *inplace.Decision
	facts    inplace.Facts
	// saved is what is recorded on the Machine.
	saved  *inplace.Progress
	called bool
}

// UpdateMachine carries a machine's update on as far as it goes without waiting, and says when to ask again. It is
// idempotent, and may be cut short at any point. The error is a *RefusedError where the update stands still until a person
// acts.
func (e *Engine) UpdateMachine(ctx context.Context, request *runtimehooksv1.UpdateMachineRequest) (Reply, error) {
	ctx, cancel := withBudget(ctx)
	defer cancel()
	defer e.machines.lock(client.ObjectKeyFromObject(&request.Desired.Machine))()
	r, err := e.readRun(ctx, request)
	if err != nil {
		return Reply{}, err
	}
	if r.facts.Progress == nil {
		if reply, waits := waitsForAnnotated(r.machine); waits {
			return reply, nil
		}
		return r.begin(ctx)
	}
	return r.carryOn(ctx, inplace.Decide(r.facts))
}

// begin decides about an update that has not begun while no other machine of the same policy can begin.
func (r *run) begin(ctx context.Context) (Reply, error) {
	var verdict inplace.Verdict
	decide := func(inFlight int) (bool, error) {
		r.facts.InFlight = inFlight
		verdict = inplace.Decide(r.facts)
		if verdict.Progress == nil {
			return false, nil
		}
		verdict.Progress.Policy = r.policy.Name
		return true, r.save(ctx, verdict.Progress)
	}
	// What does not depend on the other machines is answered without keeping them from beginning.
	if v := inplace.Decide(r.facts); v.Progress == nil {
		return r.carryOn(ctx, v)
	}
	if r.owner.group.ControlPlane {
		// Control plane controllers update one Machine at a time by themselves, but look at nothing that annotations ask for.
		why, err := r.peerUpgraded(ctx)
		if err != nil {
			return Reply{}, err
		}
		if why != "" {
			r.clearCondition(ctx)
			return Reply{RetryAfter: pollAnnotated, Message: "not started: " + why}, nil
		}
		if _, err := decide(0); err != nil {
			return Reply{}, err
		}
		return r.carryOn(ctx, verdict)
	}
	if err := r.slots.begin(r.scope(), r.machine.UID, r.facts.Now, r.inFlight(ctx), decide); err != nil {
		return Reply{}, err
	}
	return r.carryOn(ctx, verdict)
}

// scope names what shares maxInFlight.
func (r *run) scope() string {
	return r.owner.group.Namespace + "/" + r.owner.group.Cluster + "/" + r.policy.Name
}

// carryOn carries out what was decided, and decides again, until there is something to answer.
func (r *run) carryOn(ctx context.Context, v inplace.Verdict) (Reply, error) {
	for range maxActions {
		if finish, ok := v.Action.(inplace.Finish); ok {
			return r.finish(ctx, finish)
		}
		if v.Progress != nil {
			if err := r.save(ctx, v.Progress); err != nil {
				return Reply{}, err
			}
		}
		next, reply, err := r.carryOut(ctx, v.Action)
		if reply != nil && err == nil {
			// The update goes on, whatever it stood still for.
			r.clearCondition(ctx)
		}
		if err != nil || reply != nil {
			return deref(reply), err
		}
		v = next
	}
	return Reply{}, fmt.Errorf("the update of Machine %s does not settle after %d actions", client.ObjectKeyFromObject(r.machine), maxActions)
}

func deref(r *Reply) Reply {
	if r == nil {
		return Reply{}
	}
	return *r
}

// carryOut carries out one action. It returns the next verdict, or a reply.
func (r *run) carryOut(ctx context.Context, a inplace.Action) (inplace.Verdict, *Reply, error) {
	switch a := a.(type) {
	case inplace.Drain:
		return r.drain(ctx)
	case inplace.Call:
		if r.called {
			return inplace.Verdict{}, &Reply{RetryAfter: nextStep, Message: "starting updater " + a.Step.Updater}, nil
		}
		r.called = true
		answer := r.call(ctx, a)
		r.readNode(ctx)
		return inplace.Answered(r.facts, answer), nil, nil
	case inplace.Uncordon:
		if err := r.Nodes.Uncordon(ctx, r.cluster(), r.machine.Status.NodeRef.Name); err != nil {
			return inplace.Verdict{}, nil, fmt.Errorf("uncordoning the node of Machine %s: %w", client.ObjectKeyFromObject(r.machine), err)
		}
		r.readNode(ctx)
		return inplace.Decide(r.facts), nil, nil
	case inplace.AbandonUpdate:
		return inplace.Verdict{}, &Reply{RetryAfter: nextStep, Message: a.Message}, r.abandon(ctx, a)
	case inplace.Wait:
		return inplace.Verdict{}, &Reply{RetryAfter: min(max(a.After, time.Second), longestWait), Message: a.Message}, nil
	case inplace.Complete:
		// The call that recorded the end may not have lived to see it.
		r.slots.end(r.scope(), r.machine.UID, r.facts.Now)
		return inplace.Verdict{}, &Reply{Done: true, Message: a.Message}, nil
	case inplace.Refuse:
		r.reportRefused(ctx, a)
		return inplace.Verdict{}, nil, refused(blockedReason(a.Reason), "%s", a.Message)
	case inplace.Finish:
	}
	return inplace.Verdict{}, nil, fmt.Errorf("no way to carry out %T", a)
}

// drain drains the node as Cluster API does when it deletes a Machine: not where the Machine excludes its node, and no longer than
// the Machine says.
func (r *run) drain(ctx context.Context) (inplace.Verdict, *Reply, error) {
	starting := &Reply{RetryAfter: nextStep, Message: "node drained, starting the updater"}
	var limit time.Duration
	if seconds := r.machine.Spec.Deletion.NodeDrainTimeoutSeconds; seconds != nil {
		limit = time.Duration(*seconds) * time.Second
	}
	if has(r.machine, clusterv1.ExcludeNodeDrainingAnnotation) || limit > 0 && r.facts.Now.Sub(r.facts.Progress.Started) > limit {
		return inplace.Drained(r.facts), nil, nil
	}
	done, message := r.callDrain(ctx)
	if !done {
		return inplace.StillDraining(r.facts, r.draining.Settle(r.machine.UID, message, r.facts.Now)), nil, nil
	}
	// A drain may have taken most of this call's time.
	r.readNode(ctx)
	return inplace.Verdict{}, starting, r.save(ctx, inplace.Drained(r.facts).Progress)
}

// callDrain reports whether the node is drained, and what is waited for otherwise. What fails is tried again.
func (r *run) callDrain(ctx context.Context) (done bool, message string) {
	status, err := r.Nodes.Drain(ctx, r.cluster(), client.ObjectKeyFromObject(r.machine), r.machine.Status.NodeRef.Name)
	if err != nil {
		return false, err.Error()
	}
	return status.Done, status.Message
}

// call asks the updater of a step.
func (r *run) call(ctx context.Context, a inplace.Call) inplace.Answer {
	u := &v1alpha1.Updater{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: a.Step.Updater}, u); err != nil {
		return inplace.Answer{Message: fmt.Sprintf("reading Updater %q: %v", a.Step.Updater, err)}
	}
	opened, err := r.Open(ctx, u)
	if err != nil {
		return inplace.Answer{Message: fmt.Sprintf("opening updater %q: %v", u.Name, err)}
	}
	shown := r.request.DeepCopy()
	annotations := make(map[string]string, len(shown.Desired.Machine.Annotations)+1)
	maps.Copy(annotations, shown.Desired.Machine.Annotations)
	annotations[v1alpha1.OperationIDAnnotation] = a.Operation
	shown.Desired.Machine.Annotations = annotations
	answer := opened.UpdateMachine(ctx, shown)
	var problem error
	if answer.Outcome == inplace.Unknown {
		problem = fmt.Errorf("%s", answer.Message)
	}
	r.noteRequest(ctx, u, "UpdateMachine", client.ObjectKeyFromObject(r.machine), answer.Message, problem)
	return answer
}

// save records progress, if it is not what is recorded already.
func (r *run) save(ctx context.Context, p *inplace.Progress) error {
	if reflect.DeepEqual(r.saved, p) {
		return nil
	}
	if err := r.recordProgress(ctx, r.machine, r.saved, p, r.policy.Policy); err != nil {
		return err
	}
	r.reportProgress(ctx, r.machine, r.saved, p)
	if r.saved != nil && r.saved.Phase == inplace.Failed {
		r.clearCondition(ctx)
		r.reportUnblocked(ctx, r.owner, r.machine)
	}
	if p.Phase == inplace.Failed {
		r.reportBlocked(ctx, r.owner, r.machine, refused(v1alpha1.UpdateFailedReason, "the update of Machine %s to %s failed: %s", client.ObjectKeyFromObject(r.machine), p.To, p.LastError))
	}
	r.saved, r.facts.Progress, r.facts.Retry = p, p, false
	return nil
}

func (r *run) finish(ctx context.Context, a inplace.Finish) (Reply, error) {
	if r.decision == nil {
		// Which fields are no longer dirty; that nobody knows any longer keeps nothing from ending.
		if err := r.readDecision(ctx); err != nil {
			return Reply{}, err
		}
	}
	if err := r.recordEnd(ctx, r.machine, a, r.decision); err != nil {
		return Reply{}, err
	}
	r.slots.end(r.scope(), r.machine.UID, r.facts.Now)
	r.reportFinished(ctx, r.machine, r.saved, a.Summary)
	r.clearCondition(ctx)
	return Reply{Done: true, Message: fmt.Sprintf("updated in place to %s", a.Summary.To)}, nil
}

func (r *run) abandon(ctx context.Context, a inplace.AbandonUpdate) error {
	if a.Uncordon {
		// A cluster that cannot be reached must not keep a person from giving its machine up.
		if err := r.Nodes.Uncordon(ctx, r.cluster(), r.machine.Status.NodeRef.Name); err != nil {
			a.Message += fmt.Sprintf("; its node stays cordoned: %v", err)
		}
	}
	if err := r.recordAbandon(ctx, r.machine, a.Owed); err != nil {
		return err
	}
	r.slots.end(r.scope(), r.machine.UID, r.facts.Now)
	r.reportUnblocked(ctx, r.owner, r.machine)
	logFor(ctx).Info("Abandoned the update of a machine", "machine", client.ObjectKeyFromObject(r.machine).String(), "message", a.Message)
	r.Events.Eventf(r.machine, nil, corev1.EventTypeWarning, AbandonedReason, action, "%s", a.Message)
	r.clearCondition(ctx)
	return nil
}

// reportRefused shows on the Machine why its update stands still: Cluster API hides the messages of failed hooks.
func (r *run) reportRefused(ctx context.Context, a inplace.Refuse) {
	r.showBlocked(ctx, blockedReason(a.Reason), cut(a.Message))
}

func (r *run) showBlocked(ctx context.Context, reason, message string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reportTimeout)
	defer cancel()
	if !r.said.changed(r.machine.UID, reason+message) || r.conditionIs(reason, message) {
		return
	}
	if r.facts.Progress == nil {
		r.Events.Eventf(r.machine, nil, corev1.EventTypeWarning, reason, action, "%s", message)
	}
	logFor(ctx).Info("The update of a machine stands still", "machine", client.ObjectKeyFromObject(r.machine).String(), "reason", reason, "message", message)
	if err := r.applyConditions(ctx, r.machine, []metav1.Condition{r.blockedCondition(reason, message)}); err != nil {
		logFor(ctx).Error(err, "Writing the condition of a Machine", "machine", client.ObjectKeyFromObject(r.machine).String())
		r.said.forget(r.machine.UID)
	}
}

func (r *run) isBlocked() bool {
	return meta.FindStatusCondition(r.machine.Status.Conditions, v1alpha1.UpdateBlockedCondition) != nil
}

func (r *run) conditionIs(reason, message string) bool {
	c := meta.FindStatusCondition(r.machine.Status.Conditions, v1alpha1.UpdateBlockedCondition)
	return c != nil && c.Reason == reason && c.Message == message
}

// clearCondition removes the condition where the Machine has it.
func (r *run) clearCondition(ctx context.Context) {
	r.said.forget(r.machine.UID)
	if !r.isBlocked() {
		return
	}
	if err := r.applyConditions(ctx, r.machine, nil); err != nil {
		logFor(ctx).Error(err, "Removing the condition of a Machine", "machine", client.ObjectKeyFromObject(r.machine).String())
	}
}

func (r *run) cluster() types.NamespacedName {
	return types.NamespacedName{Namespace: r.machine.Namespace, Name: r.machine.Spec.ClusterName}
}

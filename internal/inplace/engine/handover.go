package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/pool"
	"github.com/windlass-dev/windlass/internal/port"
)

// noTaker says why nobody covers a change of a group that is to be handed over.
const noTaker = "no Updater with protocol HandOver selects the Machines, and the UpdatePolicy has handOver: Group. " +
	"Fix: register one"

// takers returns the updaters that can take a whole group over.
func takers(updaters []v1alpha1.Updater) []v1alpha1.Updater {
	return slices.DeleteFunc(slices.Clone(updaters), func(u v1alpha1.Updater) bool {
		return u.Spec.Remote == nil || u.Spec.Remote.Protocol != v1alpha1.HandOverProtocol
	})
}

// HandOver offers the Machines of a MachineSet to the updaters that can take a whole group over, as
// CanUpdateMachineSet does, and hands them over to the one that accepts. The decision and the operation
// are recorded on the MachineSet before the updater gets the machines, so that a process which is
// killed repeats the same operation.
//
// The answer is AnswerUnknown while the updater takes nothing now, and AnswerYes if it was decided
// before that updaters change the machines one by one. Errors are those of CanUpdateMachineSet.
func (e *Engine) HandOver(
	ctx context.Context, request *runtimehooksv1.CanUpdateMachineSetRequest, b pool.HandOverBudget,
) (pool.Coverage, error) {
	ctx, cancel := withBudget(ctx)
	defer cancel()
	q, unread := e.machineSetQuestion(ctx, request)
	q.handOver = true
	if unread == nil {
		// No answer to this change may leave the updater at work on another one.
		if err := e.endSuperseded(ctx, q); err != nil {
			return pool.Coverage{}, err
		}
	}
	answer, err := e.answer(ctx, q, unread)
	if err != nil {
		return pool.Coverage{}, err
	}
	d, err := decisionOf(q)
	switch {
	case err != nil:
		return pool.Coverage{}, err
	case d == nil:
		return pool.Coverage{Answer: pool.AnswerNo, Reason: answer.Message}, nil
	}
	return e.handOver(ctx, q, d, b)
}

// decisionOf returns the decision that was made on the objects of a question; nil if there is none.
func decisionOf(q question) (*inplace.Decision, error) {
	same, err := cover.New(q.scope, q.current, q.desired, nil)
	if err != nil {
		return nil, fmt.Errorf("comparing the objects of %s: %w", client.ObjectKeyFromObject(q.subject), err)
	}
	return recorded(q, same.Result()), nil
}

// handedOver returns the MachineSet of a question, and the record of its hand-over; nil if there is none.
func handedOver(q question) (*clusterv1.MachineSet, *pool.HandedOver, error) {
	set, ok := q.subject.(*clusterv1.MachineSet)
	if !ok {
		return nil, nil, fmt.Errorf("handing over the machines of a %T", q.subject)
	}
	h, err := pool.HandedOverOf(set)
	return set, h, err
}

// endSuperseded ends the hand-over of a question's MachineSet, unless it is the one for the question.
func (e *Engine) endSuperseded(ctx context.Context, q question) error {
	set, h, err := handedOver(q)
	if err != nil || !h.IsActive() {
		return err
	}
	d, err := decisionOf(q)
	if err != nil || d != nil && d.ID == h.Decision {
		return err
	}
	return e.endHandOver(ctx, set, h, "the template was changed again")
}

// handOver hands the Machines of a question's MachineSet over to the updater of a decision.
func (e *Engine) handOver(
	ctx context.Context, q question, d *inplace.Decision, b pool.HandOverBudget,
) (pool.Coverage, error) {
	set, h, err := handedOver(q)
	if err != nil {
		return pool.Coverage{}, err
	}
	var u *v1alpha1.Updater
	var taker port.Taker
	if len(d.Steps) == 1 {
		if u, taker, err = e.taker(ctx, set, d.Steps[0].Updater); err != nil {
			return pool.Coverage{}, err
		}
	}
	if taker == nil {
		if h.IsActive() {
			err = e.endHandOver(ctx, set, h, "updaters change the machines one by one")
		}
		return pool.Coverage{Answer: pool.AnswerYes}, err
	}
	taken := pool.Coverage{Answer: pool.AnswerHandedOver, Updater: u.Name}
	next := h.Next(e.NewID(), d.ID, u.Name, b)
	if next.State == pool.HandOverAccepted {
		return taken, nil
	}
	if err := e.recordHandOver(ctx, set, next); err != nil {
		return pool.Coverage{}, err
	}
	declined, err := e.take(ctx, q, u, taker, next)
	if err != nil {
		return pool.Coverage{}, fmt.Errorf("handing the Machines of MachineSet %s over to updater %q: %w", client.ObjectKeyFromObject(set), u.Name, err)
	}
	if declined != "" {
		return pool.Coverage{Reason: fmt.Sprintf("updater %s does not take the Machines over now: %s", u.Name, declined)}, nil
	}
	next.State = pool.HandOverAccepted
	return taken, e.recordHandOver(ctx, set, next)
}

// taker opens an updater that can take the Machines of a MachineSet over. taker is nil if the updater
// changes machines one by one.
func (e *Engine) taker(
	ctx context.Context, set *clusterv1.MachineSet, name string,
) (u *v1alpha1.Updater, taker port.Taker, err error) {
	// The record on the MachineSet names the updater, and the MachineSet's owner can write it.
	machine := &metav1.ObjectMeta{Namespace: set.Namespace, Labels: set.Spec.Template.Labels}
	if u, err = servingUpdater(ctx, e.Client, name, policy.Policy{}, machine); err != nil {
		return nil, nil, err
	}
	opened, err := e.Open(ctx, u)
	if err != nil {
		return nil, nil, fmt.Errorf("opening updater %q: %w", name, err)
	}
	taker, _ = opened.(port.Taker)
	return u, taker, nil
}

// take sends the hand-over. The updater is shown no reserved annotations and labels.
func (e *Engine) take(
	ctx context.Context, q question, u *v1alpha1.Updater, taker port.Taker, h pool.HandedOver,
) (declined string, err error) {
	shown := &runtimehooksv1.CanUpdateMachineSetRequest{}
	if err := errors.Join(
		showMachineSet(q.current, &shown.Current, e.reserved()), showMachineSet(q.desired, &shown.Desired, e.reserved()),
	); err != nil {
		return "", err
	}
	declined, err = taker.Take(ctx, shown, port.Taking{
		Operation: h.Operation, AtOnce: h.Budget.AtOnce, First: h.Budget.First, Stay: h.Budget.Stay,
	})
	e.noteRequest(ctx, u, "HandOver", client.ObjectKeyFromObject(q.subject), declined, err)
	return declined, err
}

// EndHandOver tells the updater that has the Machines of a MachineSet to stop, for a reason, and records
// that it has. It does nothing if no updater has them. It returns an error as long as the updater may be
// at work.
func (e *Engine) EndHandOver(ctx context.Context, set *clusterv1.MachineSet, why string) error {
	ctx, cancel := withBudget(ctx)
	defer cancel()
	live := &clusterv1.MachineSet{}
	if err := e.Live.Get(ctx, client.ObjectKeyFromObject(set), live); err != nil {
		return ignoreNotFound(err, "reading MachineSet %s", client.ObjectKeyFromObject(set))
	}
	h, err := pool.HandedOverOf(live)
	if err != nil || !h.IsActive() {
		return err
	}
	return e.endHandOver(ctx, live, h, why)
}

func (e *Engine) endHandOver(ctx context.Context, set *clusterv1.MachineSet, h *pool.HandedOver, why string) error {
	declined, err := e.stop(ctx, set, h, why)
	if err == nil && declined != "" {
		err = fmt.Errorf("it does not stop: %s", declined)
	}
	if err != nil {
		return fmt.Errorf("ending operation %s of updater %q, which has the Machines of MachineSet %s (%s): %w. "+
			"Fix: have the updater answer, or stop it and remove the annotation %s from the MachineSet",
			h.Operation, h.Updater, client.ObjectKeyFromObject(set), why, err, v1alpha1.HandedOverAnnotation)
	}
	ended := *h
	ended.State = pool.HandOverEnded
	return e.recordHandOver(ctx, set, ended)
}

func (e *Engine) stop(
	ctx context.Context, set *clusterv1.MachineSet, h *pool.HandedOver, why string,
) (declined string, err error) {
	u, taker, err := e.taker(ctx, set, h.Updater)
	switch {
	case err != nil:
		return "", err
	case taker == nil:
		return "its protocol is not HandOver any more", nil
	}
	declined, err = taker.Stop(ctx, set, h.Operation, why)
	e.noteRequest(ctx, u, "Cancel", client.ObjectKeyFromObject(set), declined, err)
	return declined, err
}

// recordHandOver writes a record on the MachineSet under the version that was decided on. While an updater
// may be at work, the MachineSet must not be moved: the updater knows this management cluster only.
func (e *Engine) recordHandOver(ctx context.Context, set *clusterv1.MachineSet, h pool.HandedOver) error {
	p := blockMove(set.Annotations, h.IsActive())
	if err := p.set(set.Annotations, v1alpha1.HandedOverAnnotation, h); err != nil {
		return err
	}
	text := p[v1alpha1.HandedOverAnnotation]
	if len(p) == 1 && *text == set.Annotations[v1alpha1.HandedOverAnnotation] {
		return nil
	}
	return e.fence.Retry(ctx, set, func() error { return e.fence.Annotate(ctx, set, p) })
}

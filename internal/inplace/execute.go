package inplace

import (
	"context"
	"fmt"
	"reflect"
	"time"
)

const (
	// NextStep is when to ask again where nothing has to be waited for: one call makes at most one request to an updater, so that it ends within
	// Cluster API's timeout.
	NextStep = time.Second
	// LongestWait bounds when to ask again: what people write on the Machine is not seen before.
	LongestWait = 15 * time.Second
	// maxActions bounds the actions of one call. More than a handful in a row is a fault.
	maxActions = 16
)

// Effects is what is acted on: a Machine and its node. Whatever returns an error ends the call.
type Effects interface {
	// Begin calls decide with the machines that may keep this one from beginning. While it does, no
	// other one that shares the policy's maxInFlight begins. decide reports whether this one has
	// begun. A reply that is not nil ends the call: something else keeps it from beginning.
	Begin(ctx context.Context, decide func(Others) (bool, error)) (*Reply, error)
	// Save records progress on the Machine. before is what is recorded.
	Save(ctx context.Context, before, after *Progress) error
	// Look returns the time, and the node as it is.
	Look(ctx context.Context) (time.Time, Node)
	// Drain cordons the node, if it is not, and drains it. It returns at once. began is when the drain did.
	Drain(ctx context.Context, began time.Time) (DrainState, error)
	// CanBegin asks the updater of a step whether it can begin. An error says that it was not asked.
	CanBegin(ctx context.Context, question CanBegin) (Readiness, error)
	// Call asks the updater of a step. An error says that the updater was not asked.
	Call(ctx context.Context, call Call) (Answer, error)
	// Uncordon makes the node schedulable.
	Uncordon(ctx context.Context) error
	// DisableScaleDown keeps the cluster autoscaler from removing the node, unless somebody has decided about
	// that. It is tried again at the next call. EnableScaleDown takes that back, and leaves alone what others did.
	DisableScaleDown(ctx context.Context)
	EnableScaleDown(ctx context.Context) error
	// Finish and Abandon record the end of an update, and Complete that it had been recorded before.
	Finish(ctx context.Context, before *Progress, end Finish) error
	Abandon(ctx context.Context, end AbandonUpdate) error
	Complete(ctx context.Context)
}

// DrainState is how far a drain has come.
type DrainState struct {
	// Skip says that the machine is not to be drained, or not any longer. Done says that it is drained.
	Skip, Done bool
	// Message says what is waited for.
	Message string
}

// Reply is what a call came to.
type Reply struct {
	// Done says that the update is over.
	Done bool
	// RetryAfter is when to ask again, where it is not; at least a second, at most LongestWait.
	RetryAfter time.Duration
	// Message says how it goes, for people.
	Message string
	// Wait is what is waited for, where RetryAfter may be sooner than that can be; Reason is empty where nothing is.
	Wait Wait
	// Refused says that the update stands still until a person acts; nil where it does not.
	Refused *Refuse
}

// Execute carries a machine's update on as far as it goes without waiting. It is idempotent. facts.Others is not used: Begin counts.
func Execute(ctx context.Context, facts Facts, effects Effects) (Reply, error) {
	r := &run{facts: facts, saved: facts.Progress, effects: effects}
	verdict := Decide(r.facts)
	if r.saved != nil || verdict.Progress == nil {
		// What does not depend on the other machines is answered without keeping them from beginning.
		return r.carryOn(ctx, verdict)
	}
	waits, err := effects.Begin(ctx, func(others Others) (bool, error) {
		r.facts.Others = others
		verdict = Decide(r.facts)
		if verdict.Progress == nil {
			return false, nil
		}
		return true, r.save(ctx, verdict.Progress)
	})
	switch {
	case err != nil:
		return Reply{}, err
	case waits != nil:
		return *waits, nil
	default:
		return r.carryOn(ctx, verdict)
	}
}

// run is one call.
type run struct {
	facts   Facts
	effects Effects
	// saved is what is recorded on the Machine.
	saved *Progress
	// called says that a request to an updater has taken its time in this call.
	called bool
	// protected says that this call has tried to disable the scale-down of the node.
	protected bool
}

// carryOn carries out what was decided, and decides again, until there is something to answer.
func (r *run) carryOn(ctx context.Context, v Verdict) (Reply, error) {
	for range maxActions {
		if finish, ok := v.Action.(Finish); ok {
			if r.protected || r.facts.Node.ScaleDown == ScaleDownByUs {
				if err := r.effects.EnableScaleDown(ctx); err != nil {
					return Reply{}, err
				}
			}
			// It records the end, and with it all that led there.
			message := fmt.Sprintf("updated in place to %s", finish.Summary.To)
			return Reply{Done: true, Message: message}, r.effects.Finish(ctx, r.saved, finish)
		}
		if v.Progress != nil {
			if err := r.save(ctx, v.Progress); err != nil {
				return Reply{}, err
			}
		}
		r.disableScaleDown(ctx, v.Action)
		next, reply, err := r.carryOut(ctx, v.Action)
		switch {
		case err != nil:
			return Reply{}, err
		case reply != nil:
			return *reply, nil
		}
		v = next
	}
	return Reply{}, fmt.Errorf("the update does not settle after %d actions", maxActions)
}

// carryOut carries out one action. It returns the next verdict, or a reply.
func (r *run) carryOut(ctx context.Context, a Action) (Verdict, *Reply, error) {
	switch a := a.(type) {
	case CanBegin:
		return r.canBegin(ctx, a)
	case Drain:
		return r.drain(ctx)
	case Call:
		return r.call(ctx, a)
	case Uncordon:
		if err := r.effects.Uncordon(ctx); err != nil {
			return Verdict{}, nil, err
		}
		r.look(ctx)
		return Decide(r.facts), nil, nil
	case AbandonUpdate:
		return Verdict{}, &Reply{RetryAfter: NextStep, Message: a.Message}, r.effects.Abandon(ctx, a)
	case Wait:
		return Verdict{}, &Reply{RetryAfter: min(max(a.After, time.Second), LongestWait), Message: a.Message, Wait: a}, nil
	case Complete:
		r.effects.Complete(ctx)
		return Verdict{}, &Reply{Done: true, Message: a.Message}, nil
	case Refuse:
		return Verdict{}, &Reply{Refused: &a, Message: a.Message}, nil
	case Finish:
	}
	return Verdict{}, nil, fmt.Errorf("no way to carry out %T", a)
}

func (r *run) call(ctx context.Context, a Call) (Verdict, *Reply, error) {
	if r.called {
		return Verdict{}, &Reply{RetryAfter: NextStep, Message: "starting updater " + a.Step.Updater}, nil
	}
	r.called = true
	answer, err := r.effects.Call(ctx, a)
	if err != nil {
		return Verdict{}, nil, err
	}
	r.look(ctx)
	return Answered(r.facts, answer), nil, nil
}

// canBegin asks an updater whether it can begin. Many updaters answer without a request, so only an
// answer that took its time counts as this call's request.
func (r *run) canBegin(ctx context.Context, a CanBegin) (Verdict, *Reply, error) {
	if r.called {
		return Verdict{}, &Reply{RetryAfter: NextStep, Message: "asking updater " + a.Step.Updater}, nil
	}
	asked := r.facts.Now
	readiness, err := r.effects.CanBegin(ctx, a)
	if err != nil {
		return Verdict{}, nil, err
	}
	r.look(ctx)
	r.called = r.facts.Now.After(asked)
	return AnsweredCanBegin(r.facts, readiness), nil, nil
}

func (r *run) drain(ctx context.Context) (Verdict, *Reply, error) {
	if r.called {
		return Verdict{}, &Reply{RetryAfter: NextStep, Message: "draining the node"}, nil
	}
	drained, err := r.effects.Drain(ctx, r.facts.Progress.Started)
	switch {
	case err != nil:
		return Verdict{}, nil, err
	case drained.Skip:
		return Drained(r.facts), nil, nil
	case !drained.Done:
		return StillDraining(r.facts, drained.Message), nil, nil
	}
	// A drain may have taken most of this call's time.
	r.look(ctx)
	return Verdict{}, &Reply{RetryAfter: NextStep, Message: "node drained, starting the updater"}, r.save(ctx, Drained(r.facts).Progress)
}

func (r *run) look(ctx context.Context) { r.facts.Now, r.facts.Node = r.effects.Look(ctx) }

// save records progress, if it is not what is recorded already.
func (r *run) save(ctx context.Context, p *Progress) error {
	if r.saved == p || reflect.DeepEqual(r.saved, p) {
		return nil
	}
	if err := r.effects.Save(ctx, r.saved, p); err != nil {
		return err
	}
	r.saved, r.facts.Progress, r.facts.Retry = p, p, false
	return nil
}

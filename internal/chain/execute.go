package chain

import (
	"context"
	"fmt"
	"time"

	"github.com/windlass-dev/windlass/pkg/version"
)

// Effects is what the engine acts on: a Cluster, its objects, and the extensions that are registered for hooks.
type Effects interface {
	// Apply makes the objects of the topology what objects says, without a request where nothing differs. stamp is the version that stands on
	// the control plane object as the last step of this engine; it is written together with the object's version.
	Apply(ctx context.Context, objects Objects, stamp version.Version) error
	// Record replaces what the Cluster has recorded. It fails if somebody has changed the Cluster since it was read.
	Record(ctx context.Context, recorded Recorded) error
	// Call calls the extensions that are registered for the hook. None is a Reply that lets the Cluster pass.
	Call(ctx context.Context, call CallHook, d Decision) (Reply, error)
}

// Reply is what the extensions of a hook said together.
type Reply struct {
	// RetryAfter above zero asks to be called again then, and not to go on before.
	RetryAfter time.Duration
	Message    string
}

// Outcome is what is left to do when an action has been carried out.
type Outcome struct {
	// RequeueAfter is when to decide again at the latest; zero means when something changes.
	RequeueAfter time.Duration
	// Answer is a hook's that did not let the Cluster pass, to be given to Decide from now on; nil when there was none.
	Answer *Answer
	// Recorded is what the Cluster has recorded now; nil when nothing was written.
	Recorded *Recorded
}

// Execute carries out d, which was decided on s. recorded is what s was read from. An error means that an effect failed; whether it
// took place is then unknown.
func Execute(ctx context.Context, s State, recorded Recorded, d Decision, now time.Time, effects Effects) (Outcome, error) {
	e := execution{state: s, recorded: recorded, decision: d, now: now, effects: effects}
	switch action := d.Action.(type) {
	case Wait:
		return e.wait(ctx, action)
	case Create:
		return e.create(ctx)
	case Note:
		return e.note(ctx, action)
	case CallHook:
		return e.callHook(ctx, action)
	case RaiseControlPlane:
		return e.raiseControlPlane(ctx, action)
	case RaiseWorkers:
		return e.raiseWorkers(ctx)
	default:
		return Outcome{}, fmt.Errorf("carrying out a decision: no action of the type %T is known", action)
	}
}

type execution struct {
	state    State
	recorded Recorded
	decision Decision
	now      time.Time
	effects  Effects
}

// apply keeps objects as the decision wants them.
func (e execution) apply(ctx context.Context, stamp version.Version) error {
	if e.decision.Objects.Leave {
		return nil
	}
	if err := e.effects.Apply(ctx, e.decision.Objects, stamp); err != nil {
		return fmt.Errorf("applying the topology's objects: %w", err)
	}
	return nil
}

// record writes r, and with it the upgrade step that belongs to the control plane's version. Nothing is written where nothing changes.
func (e execution) record(ctx context.Context, r Record) (Outcome, error) {
	at := e.decision.Objects.ControlPlane.Version
	next := r.plan(r.Apply(e.recorded, at, e.now), e.decision.Plan, at, e.now)
	if e.decision.Objects.Leave {
		next.UpgradeStep = e.recorded.UpgradeStep // Nothing is known of the control plane.
	}
	if next.Equal(e.recorded) {
		return Outcome{}, nil
	}
	if err := e.effects.Record(ctx, next); err != nil {
		return Outcome{}, fmt.Errorf("recording on the Cluster: %w", err)
	}
	return Outcome{Recorded: &next}, nil
}

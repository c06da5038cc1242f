package chain

import (
	"context"
)

// wait keeps up what is there. The upgrade step may be out of date: after a change of engines, or a crash.
func (e execution) wait(ctx context.Context, action Wait) (Outcome, error) {
	if err := e.apply(ctx, e.state.ControlPlane.Stamp); err != nil {
		return Outcome{}, err
	}
	var outcome Outcome
	if !e.decision.Objects.Leave {
		var err error
		if outcome, err = e.record(ctx, Record{}); err != nil {
			return Outcome{}, err
		}
	}
	if !action.Until.IsZero() {
		outcome.RequeueAfter = action.Until.Sub(e.now)
	}
	return outcome, nil
}

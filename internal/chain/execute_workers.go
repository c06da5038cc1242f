package chain

import "context"

// raiseWorkers sets the version of groups. Nothing has to be recorded: that a group moves shows on its machines, and the hooks around the step
// are pending already.
func (e execution) raiseWorkers(ctx context.Context) (Outcome, error) {
	return Outcome{}, e.apply(ctx, e.state.ControlPlane.Stamp)
}

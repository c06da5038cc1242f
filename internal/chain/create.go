package chain

import "context"

// create makes the topology's objects. That BeforeClusterCreate has been passed is recorded already.
func (e execution) create(ctx context.Context) (Outcome, error) {
	return Outcome{}, e.apply(ctx, e.state.ControlPlane.Stamp)
}

package chain

import (
	"cmp"
	"context"
)

// raiseControlPlane takes the announced step. After a crash before Apply the intent leads here again; after one between Apply and the
// record, the stamp on the control plane tells that the step was taken, and Decide makes up for the record.
func (e execution) raiseControlPlane(ctx context.Context, action RaiseControlPlane) (Outcome, error) {
	if err := e.apply(ctx, cmp.Or(action.Stamp, action.To)); err != nil {
		return Outcome{}, err
	}
	return e.record(ctx, action.Then)
}

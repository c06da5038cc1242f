package chain

import (
	"context"
)

// note writes and does nothing else; the change of the Cluster brings the next decision.
func (e execution) note(ctx context.Context, action Note) (Outcome, error) {
	return e.record(ctx, action.Record)
}

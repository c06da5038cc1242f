package upgrade

import (
	"context"

	"github.com/windlass-dev/windlass/internal/core/chain"
)

// note writes and does nothing else; the change of the Cluster brings the next decision.
func (e execution) note(ctx context.Context, action chain.Note) (Outcome, error) {
	return e.record(ctx, action.Record)
}

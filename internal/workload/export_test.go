package workload

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
)

// Exhaust takes all that the limiter of a cluster's requests has. It gets some back within 50 ms.
func (n *Nodes) Exhaust(ctx context.Context, cluster types.NamespacedName) error {
	remote, err := n.clients.Client(ctx, cluster)
	if err != nil {
		return err
	}
	for remote.config.RateLimiter.TryAccept() {
		continue
	}
	return nil
}

package workload

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// Config returns how a workload cluster is reached, for who needs more than a client: streams to pods. Requests have no limit of time but their context's.
// The kubeconfig was checked as everywhere in this package.
func (n *Nodes) Config(ctx context.Context, cluster types.NamespacedName) (*rest.Config, error) {
	remote, err := n.clients.Client(ctx, cluster)
	if err != nil {
		return nil, newUnreachable(cluster, err)
	}
	return upgradeConfig(remote.config), nil
}

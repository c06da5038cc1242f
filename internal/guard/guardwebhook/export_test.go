package guardwebhook

import (
	"context"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/windlass-dev/windlass/internal/guard"
	"github.com/windlass-dev/windlass/internal/policy"
)

// GroupOf returns the group in which the Guard places the Machine of a request; false where it has
// none.
func (g *Guard) GroupOf(
	ctx context.Context, operation guard.Operation, cluster *clusterv1.Cluster, request admission.Request,
) (policy.Group, bool, error) {
	m, err := parseMachine(operation, request)
	if err != nil {
		return policy.Group{}, false, err
	}
	found, err := g.readGroup(ctx, cluster, m)
	if err != nil || found == nil {
		return policy.Group{}, false, err
	}
	return found.selection, true, nil
}

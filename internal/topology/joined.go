package topology

import (
	"context"
	"fmt"
	"slices"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/text"
)

// joinProblem says why a machine may have joined the control plane although no Machine says so; empty if
// none has. Cluster API gives a Machine its Node once that has the machine's providerID, which a cloud
// controller manager may set much later than kubeadm joins. The text is bounded, whatever the workload
// cluster answers.
func (r *run) joinProblem(ctx context.Context, machines []*clusterv1.Machine) string {
	nodes, err := r.ControlPlaneNodes(ctx, client.ObjectKeyFromObject(r.cluster))
	return text.Bound(joinProblemOf(nodes, err, machines), conditionBytes)
}

func joinProblemOf(nodes []string, err error, machines []*clusterv1.Machine) string {
	if err != nil {
		return fmt.Sprintf("the workload cluster cannot be asked which machines have joined: %v", err)
	}
	slices.Sort(nodes)
	for _, node := range nodes {
		isOf := func(m *clusterv1.Machine) bool {
			return capi.IsControlPlane(m) && m.Status.NodeRef.Name == node
		}
		if !slices.ContainsFunc(machines, isOf) {
			return fmt.Sprintf("Node %s of the control plane is the Node of no Machine, so a new machine may have "+
				"joined. Fix: look why the Machine has no Node, or delete the Node if its machine is gone", node)
		}
	}
	return ""
}

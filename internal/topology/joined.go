package topology

import (
	"context"
	"fmt"
	"slices"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/snapshot"
	"github.com/windlass-dev/windlass/internal/text"
	"github.com/windlass-dev/windlass/pkg/version"
)

// joinProblem says why a machine may have joined the control plane although no Machine says so; empty if
// none has. Cluster API gives a Machine its Node once that has the machine's providerID, which a cloud
// controller manager may set much later than kubeadm joins. The text is bounded, whatever the workload
// cluster answers.
func (r *run) joinProblem(ctx context.Context, machines []*clusterv1.Machine) string {
	nodes, err := r.ControlPlaneNodes(ctx, client.ObjectKeyFromObject(r.cluster))
	problem := joinProblemOf(nodes, err, machines, r.state.ControlPlane.Running)
	return text.Bound(problem, conditionBytes)
}

func joinProblemOf(
	nodes []string, err error, machines []*clusterv1.Machine, running version.Version,
) string {
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
	if m := snapshot.Started(machines, running); m != nil {
		return fmt.Sprintf("Machine %s has a host and no Node, so its member of etcd may have joined. Fix: look at "+
			"the members (`etcdctl member list`), remove the host's if there is one, then delete the Machine", m.Name)
	}
	return ""
}

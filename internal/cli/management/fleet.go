package management

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/status"
)

// The kinds, beside Clusters, that FleetFacts reads if it may.
const gatesOf, machinesOf = "UpgradeGates", "Machines"

// FleetFacts reads what an overview of the Clusters of a namespace, or of all if it is empty, is made
// from. Only Clusters must be readable.
func (m Cluster) FleetFacts(
	ctx context.Context, namespace string, selector labels.Selector,
) (status.FleetFacts, error) {
	in := Scope{Where: " of all namespaces"}
	if namespace != "" {
		in = InNamespace(namespace)
	}
	selected := in
	selected.Options = append([]client.ListOption{
		client.MatchingLabelsSelector{Selector: selector},
	}, in.Options...)
	var f status.FleetFacts
	var err error
	f.Clusters, err = List[*clusterv1.Cluster, clusterv1.ClusterList](ctx, m, "Clusters", selected)
	if err != nil {
		return f, err
	}
	hide := func(kinds string, err error) {
		if err != nil {
			f.Hidden = append(f.Hidden, kinds+in.Where)
		}
	}
	f.Gates, err = ListKnown[v1alpha1.UpgradeGate, v1alpha1.UpgradeGateList](
		ctx, m, gatesOf, in)
	hide(gatesOf, err)
	f.Machines, err = m.machineMetadata(ctx, in)
	hide(machinesOf, err)
	return f, ctx.Err()
}

// machineMetadata reads the metadata of Machines.
func (m Cluster) machineMetadata(
	ctx context.Context, in Scope,
) ([]*metav1.PartialObjectMetadata, error) {
	return listPages[*metav1.PartialObjectMetadata](ctx, m, machinesOf, in, func() client.ObjectList {
		page := &metav1.PartialObjectMetadataList{}
		page.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("MachineList"))
		return page
	})
}

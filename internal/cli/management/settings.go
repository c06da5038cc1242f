package management

import (
	"context"
	"fmt"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/settings"
	"github.com/windlass-dev/windlass/internal/snapshot"
)

// Settings returns the settings that a Cluster's objects give to the components of its machines: the
// control plane's, and those of the bootstrap configs of its groups. unread says which objects could
// not be read, and why.
func (m Cluster) Settings(
	ctx context.Context, o snapshot.Objects,
) (uses []settings.Use, unread []string) {
	if o.ControlPlane != nil {
		uses = settings.FromObject(settings.Object{
			Kind: o.ControlPlane.GetKind(), Name: o.ControlPlane.GetName(),
			Content: o.ControlPlane.Object,
		})
	}
	var refs []clusterv1.ContractVersionedObjectReference
	for _, md := range o.MachineDeployments {
		refs = append(refs, md.Spec.Template.Spec.Bootstrap.ConfigRef)
	}
	for _, mp := range o.MachinePools {
		refs = append(refs, mp.Spec.Template.Spec.Bootstrap.ConfigRef)
	}
	read := map[clusterv1.ContractVersionedObjectReference]bool{}
	for _, ref := range refs {
		if !ref.IsDefined() || read[ref] {
			continue
		}
		read[ref] = true
		object, err := m.Referenced(ctx, o.Cluster.Namespace, ref)
		if err != nil {
			unread = append(unread, fmt.Sprint(err))
			continue
		}
		uses = append(uses, settings.FromObject(settings.Object{
			Kind: ref.Kind, Name: ref.Name, Content: object.Object,
		})...)
	}
	return uses, unread
}

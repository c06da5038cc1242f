package management

import (
	"context"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/settings"
	"github.com/windlass-dev/windlass/internal/snapshot"
)

// Settings are those of a Cluster's objects.
type Settings struct {
	Uses []settings.Use
	// Bootstrap are the bootstrap configs of MachineDeployments, by their names; without those that could
	// not be read.
	Bootstrap map[string]settings.Object
	// Unverified is that of [snapshot.Objects].
	Unverified []string
	// Unread says which objects could not be read, and why.
	Unread []error
}

// Settings returns the settings that a Cluster's objects give to the components of its machines: the
// control plane's, and those of the bootstrap configs of its groups. class is the Cluster's, nil if it
// has none or it is not known. Its patches may depend on the version, so that the topology controller
// writes other objects for the target: the settings in such an object are passing.
func (m Cluster) Settings(
	ctx context.Context, o snapshot.Objects, class *clusterv1.ClusterClass,
) (s Settings) {
	read := map[clusterv1.ContractVersionedObjectReference]bool{}
	configs := map[clusterv1.ContractVersionedObjectReference]settings.Object{}
	s.Bootstrap = map[string]settings.Object{}
	add := func(ref clusterv1.ContractVersionedObjectReference, passing bool) {
		if !ref.IsDefined() || read[ref] {
			return
		}
		read[ref] = true
		object, err := m.Referenced(ctx, o.Cluster.Namespace, ref)
		if err != nil {
			s.Unread = append(s.Unread, err)
			return
		}
		s.Uses = append(s.Uses, settingsOf(ref.Kind, ref.Name, object.Object, passing)...)
		configs[ref] = settings.Object{Kind: ref.Kind, Name: ref.Name, Content: object.Object}
	}
	for _, g := range snapshot.UpdateGroups(o, class) {
		passing := snapshot.VersionPatch(class, g) != ""
		switch {
		case g.ControlPlane && o.ControlPlane != nil:
			c := o.ControlPlane
			s.Uses = append(s.Uses, settingsOf(c.GetKind(), c.GetName(), c.Object, passing)...)
		case g.MachineDeployment != nil:
			ref := g.MachineDeployment.Spec.Template.Spec.Bootstrap.ConfigRef
			add(ref, passing)
			config, known := configs[ref]
			if known {
				s.Bootstrap[g.MachineDeployment.Name] = config
			}
			if settings.IgnoresVerification(config) {
				s.Unverified = append(s.Unverified, g.MachineDeployment.Name)
			}
		}
	}
	for _, mp := range o.MachinePools {
		add(mp.Spec.Template.Spec.Bootstrap.ConfigRef, false)
	}
	return s
}

func settingsOf(kind, name string, content map[string]any, passing bool) []settings.Use {
	uses := settings.FromObject(settings.Object{Kind: kind, Name: name, Content: content})
	for i := range uses {
		uses[i].Passing = passing
	}
	return uses
}

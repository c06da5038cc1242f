package management

import (
	"context"
	"encoding/json"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/settings"
	"github.com/windlass-dev/windlass/internal/snapshot"
)

// Settings are those of a Cluster's objects.
type Settings struct {
	Uses []settings.Use
	// NodeNames are the names that all machines of a MachineDeployment register, by its name.
	NodeNames map[string]NodeName
	// Configs are the bootstrap configs of MachineDeployments as JSON, by their names.
	Configs map[string]string
	// Unverified is that of [snapshot.Objects].
	Unverified []string
	// Unread says which objects could not be read, and why.
	Unread []error
}

// NodeName is one name for the Nodes of all machines of a group, and the bootstrap config that has it.
type NodeName struct{ Name, Config string }

// Settings returns the settings that a Cluster's objects give to the components of its machines: the
// control plane's, and those of the bootstrap configs of its groups. class is the Cluster's, nil if it
// has none or it is not known. Its patches may depend on the version, so that the topology controller
// writes other objects for the target: the settings in such an object are passing.
func (m Cluster) Settings(
	ctx context.Context, o snapshot.Objects, class *clusterv1.ClusterClass,
) (s Settings) {
	read := map[clusterv1.ContractVersionedObjectReference]bool{}
	unverified := map[clusterv1.ContractVersionedObjectReference]bool{}
	names := map[clusterv1.ContractVersionedObjectReference]string{}
	configs := map[clusterv1.ContractVersionedObjectReference]string{}
	s.NodeNames, s.Configs = map[string]NodeName{}, map[string]string{}
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
		if encoded, err := json.Marshal(object.Object["spec"]); err == nil {
			configs[ref] = string(encoded)
		}
		given := settings.Object{Kind: ref.Kind, Content: object.Object}
		unverified[ref], names[ref] = settings.IgnoresVerification(given), settings.NodeName(given)
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
			if unverified[ref] {
				s.Unverified = append(s.Unverified, g.MachineDeployment.Name)
			}
			s.Configs[g.MachineDeployment.Name] = configs[ref]
			if names[ref] != "" {
				s.NodeNames[g.MachineDeployment.Name] = NodeName{names[ref], ref.Kind + " " + ref.Name}
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

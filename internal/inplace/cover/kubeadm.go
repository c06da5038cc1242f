package cover

import "github.com/windlass-dev/windlass/pkg/version"

// LocalModeGate is the feature gate of kubeadm that KubeadmControlPlane sets in the KubeadmConfig of its
// machines by itself, and drops again.
const LocalModeGate = "ControlPlaneKubeletLocalMode"

const localModePath = "/clusterConfiguration/featureGates/" + LocalModeGate

// localModeFields is localModePath as fields of a KubeadmConfig's spec.
var localModeFields = pathsOf(localModePath).below[0]

// The minors from which, and up to which, KubeadmControlPlane sets the gate.
var (
	localModeFrom = version.Minor{Major: 1, Minor: 31}
	localModeTo   = version.Minor{Major: 1, Minor: 36}
)

// SetsLocalMode reports whether KubeadmControlPlane sets LocalModeGate by itself for machines of a minor,
// pre-releases included: DefaultFeatureGates in Cluster API's
// controlplane/kubeadm/pkg/desiredstate/desired_state.go. A value of the user's stays.
func SetsLocalMode(minor version.Minor) bool {
	return !minor.Before(localModeFrom) && minor.Before(localModeTo)
}

// withLocalMode returns the current bootstrap config with the change of LocalModeGate that is part of the
// change of version: KubeadmControlPlane writes the gate to kubeadm's own configuration, so an upgrade to the
// version brings it about. Any other change of a gate is one that somebody asked for.
func (c *Coverage) withLocalMode() tree {
	config := c.current[bootstrapIndex]
	if c.scope != Machine || !isKubeadm(config) || c.from.IsZero() || c.to.IsZero() {
		return config
	}
	desired := lookup(c.desired[bootstrapIndex], machineBase)
	spec := lookup(config, machineBase)
	has, wants := lookup(spec, localModePath), lookup(desired, localModePath)
	if !changesLocalMode(c.from.Minor(), c.to.Minor(), has, wants) {
		return config
	}
	return put(config, tokens(machineBase), carry(spec, desired, localModeFields))
}

// changesLocalMode reports whether KubeadmControlPlane adds or drops LocalModeGate by itself
// between two minors, and the gate's values before and after are those of that change.
func changesLocalMode(from, to version.Minor, has, wants tree) bool {
	before, after := SetsLocalMode(from), SetsLocalMode(to)
	added := !before && after && isAbsent(has) && wants == tree(true)
	dropped := before && !after && has == tree(true) && isAbsent(wants)
	return added || dropped
}

package status

import (
	"slices"
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/chain"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

func (c *chainComputation) countControlPlane() (updated, machines int) {
	updated, machines = c.countMachines(isControlPlane, c.state.ControlPlane.Version)
	if c.facts.ControlPlane != nil {
		// A control plane without replicas, or with ones of another shape, has as many as there are Machines.
		if desired, given := controlPlaneReplicas(c.facts); given {
			machines = desired
		}
	}
	return min(updated, machines), machines
}

// countAll counts the machines of the control plane and of all groups, and those at a version.
func (c *chainComputation) countAll(at version.Version) (updated, machines int) {
	updated, _ = c.countMachines(isControlPlane, at)
	_, machines = c.countControlPlane()
	updated = min(updated, machines)
	for _, g := range c.state.Groups {
		if g.Exists && !g.Deleting {
			there, all := c.countGroup(g, at)
			updated, machines = updated+there, machines+all
		}
	}
	return updated, machines
}

func isControlPlane(m *clusterv1.Machine) bool { return capi.IsControlPlane(m) }

// countMachines counts the Machines of a group that are not going, and those of them that have arrived
// at a version.
func (c *chainComputation) countMachines(
	isMember func(*clusterv1.Machine) bool, at version.Version,
) (updated, machines int) {
	for _, m := range c.facts.Machines {
		if !m.DeletionTimestamp.IsZero() || !isMember(m) {
			continue
		}
		machines++
		if runs(m, at) && !isLost(m) && (!isAsked(m, at) || !c.isInMotion(m)) {
			updated++
		}
	}
	return updated, machines
}

// countGroup counts the machines of a group, and those at a version. A group is as large as it should be, not as it happens to be while
// machines are replaced.
func (c *chainComputation) countGroup(g chain.Group, at version.Version) (updated, machines int) {
	if g.Kind == plan.MachinePool {
		return c.countPool(g, at)
	}
	updated, machines = c.countMachines(c.membersOf(g), at)
	for _, md := range c.facts.MachineDeployments {
		if md.Labels[deploymentLabel] == g.Name && md.Spec.Replicas != nil {
			machines = int(*md.Spec.Replicas)
		}
	}
	return min(updated, machines), machines
}

const (
	deploymentLabel = clusterv1.ClusterTopologyMachineDeploymentNameLabel
	poolLabel       = clusterv1.ClusterTopologyMachinePoolNameLabel
)

// membersOf tells the Machines of a group.
func (c *chainComputation) membersOf(g chain.Group) func(*clusterv1.Machine) bool {
	if g.Kind == plan.MachinePool {
		name := topologyName(g)
		return func(m *clusterv1.Machine) bool { return m.Labels[poolLabel] == name }
	}
	var owners []capi.Owner
	for _, md := range c.facts.MachineDeployments {
		if md.Labels[deploymentLabel] == g.Name {
			owners = append(owners, capi.MachineDeployment(md.Namespace, md.Name))
		}
	}
	return func(m *clusterv1.Machine) bool {
		owner, _ := capi.OwnerOf(m)
		// The label of the topology may be gone from a Machine.
		return m.Labels[deploymentLabel] == g.Name || slices.Contains(owners, owner)
	}
}

// countPool counts by what the pool reports where it has no Machines.
func (c *chainComputation) countPool(g chain.Group, at version.Version) (updated, machines int) {
	updated, machines = c.countMachines(c.membersOf(g), at)
	for _, mp := range c.facts.MachinePools {
		if mp.Labels[poolLabel] != topologyName(g) {
			continue
		}
		if machines == 0 {
			updated, machines = countReported(mp.Status.Versions, at)
		}
		if mp.Spec.Replicas != nil {
			machines = int(*mp.Spec.Replicas)
		}
	}
	return min(updated, machines), machines
}

// topologyName is a group's name in the Cluster; that of a pool whose name a MachineDeployment has as well has its kind before it.
func topologyName(g chain.Group) string { return strings.TrimPrefix(g.Name, string(g.Kind)+"/") }

func countReported(versions []clusterv1.StatusVersion, at version.Version) (updated, machines int) {
	for _, r := range versions {
		machines += int(r.Replicas)
		if v, err := version.Parse(r.Version); err == nil && at.RunBy(v) {
			updated += int(r.Replicas)
		}
	}
	return updated, machines
}

// runs reports whether a Machine is at a version: by its kubelet, or before that is known by what it was made for.
func runs(m *clusterv1.Machine, at version.Version) bool {
	v, err := version.Parse(capi.ReportedVersion(m).Version)
	return err == nil && at.RunBy(v)
}

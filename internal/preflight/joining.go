package preflight

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	"github.com/windlass-dev/windlass/internal/clustercheck"
	"github.com/windlass-dev/windlass/internal/text"
)

// Joining is what a machine needs to join that a rollout adds before it removes one.
type Joining struct {
	// PodNetworks are spec.clusterNetwork.pods of the Cluster.
	PodNetworks []string
	Groups      []JoiningGroup
}

// JoiningGroup is a group of machines that are replaced.
type JoiningGroup struct {
	// Subject is its kind and name, and Config those of its bootstrap config.
	Subject, Config string
	// Surge reports that a new machine joins before an old one goes.
	Surge bool
	// NodeName is the one name that all of its machines register; empty if each has its own.
	NodeName string
	Replicas int
}

// CheckJoining finds what keeps the machines from joining that a rollout adds: a pod network that has no
// range for one Node more, and a Node's name that is taken.
func CheckJoining(j Joining, nodes []corev1.Node) []clustercheck.Finding {
	r := report{id: NewMachinesCanJoin}
	surges := text.Some{Most: maxNodes}
	for _, g := range j.Groups {
		if g.Surge {
			surges.Add(g.Subject)
		}
		const own = "have each machine make its own, as from its hostname"
		switch {
		case g.NodeName == "":
		case g.Replicas > 1:
			r.fail(g.Subject, own, "%s gives its %d machines one Node name, %s", g.Config, g.Replicas, g.NodeName)
		case g.Surge:
			r.fail(g.Subject, own+", or roll out without surge (maxSurge 0, maxUnavailable 1); with RKE2 and K3s "+
				"the Secret kube-system/"+g.NodeName+".node-password.* must go with the old Node",
				"%s gives each machine the Node name %s, and the rollout adds a machine while the old one has it",
				g.Config, g.NodeName)
		}
	}
	if f, full := findFullNetwork(j.PodNetworks, nodes); full && surges.Len() > 0 {
		r.warn("the pod network "+f.network.String(),
			"roll out without surge (maxSurge 0, maxUnavailable 1 for workers), or remove a machine before; a network "+
				"plugin that manages addresses itself needs no range of a Node",
			"it has %d ranges of /%d, one for each Node, and none is free; these add a machine before they remove one: %s",
			f.ranges, f.bits, surges.Join(", "))
	}
	return r.finish("machines that a rollout adds find a Node name and a range of the pod network")
}

// fullNetwork is a network of Pods whose ranges are all taken.
type fullNetwork struct {
	network      netip.Prefix
	ranges, bits int
}

// findFullNetwork compares the first network with the ranges of the Nodes, which have one size. Nodes
// without a range, or with one of another network or size, say that something else gives them out.
func findFullNetwork(networks []string, nodes []corev1.Node) (f fullNetwork, full bool) {
	if len(networks) == 0 || len(nodes) == 0 {
		return f, false
	}
	network, err := netip.ParsePrefix(networks[0])
	if err != nil {
		return f, false
	}
	for i := range nodes {
		of, err := netip.ParsePrefix(nodes[i].Spec.PodCIDR)
		if err != nil || !network.Contains(of.Addr()) || i > 0 && of.Bits() != f.bits {
			return f, false
		}
		f.bits = of.Bits()
	}
	const mostBits = 20 // Of a million Nodes.
	if more := f.bits - network.Bits(); more >= 0 && more <= mostBits {
		f.network, f.ranges = network.Masked(), 1<<more
		return f, len(nodes) >= f.ranges
	}
	return f, false
}

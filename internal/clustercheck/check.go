package clustercheck

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/text"
	"github.com/windlass-dev/windlass/pkg/version"
)

// API is what an API server answers about itself.
type API struct {
	// Version is what it runs, as it writes it.
	Version string
	// Groups is how many API groups it serves, and Broken which of their versions cannot be discovered, with the reason.
	Groups int
	Broken []string
}

// CheckAPI compares an API server with the version of the control plane object; a zero version means that none is known.
func CheckAPI(api API, wanted version.Version) Finding {
	if len(api.Broken) > 0 {
		return Fail(APIDiscovery, "look at the APIServices of these groups and at the Pods behind them: `kubectl get apiservices`",
			"API groups that cannot be discovered: %s", list(api.Broken))
	}
	if runs, err := version.Parse(api.Version); !wanted.IsZero() && (err != nil || !wanted.RunBy(runs)) {
		return Fail(APIDiscovery, "wait until the upgrade is complete (`windlass status`), or look at the control plane's Machines",
			"the API server runs %s, and the control plane object asks for %s", text.Bound(api.Version, maxVersionBytes), wanted)
	}
	return Pass(APIDiscovery, "the API server runs %s and serves %s", text.Bound(api.Version, maxVersionBytes), text.Count(api.Groups, "API group"))
}

// maxVersionBytes bounds a version that a server reports.
const maxVersionBytes = 64

// CheckNodes compares the Nodes with the Machines that the management cluster has for them.
func CheckNodes(nodes []corev1.Node, machines []*clusterv1.Machine) Finding {
	if len(nodes) == 0 {
		return Fail(Nodes, "look at the Machines: `windlass status`", "the cluster has no Nodes")
	}
	versions := make(map[string]string, len(machines))
	var problems []string
	for _, m := range machines {
		if m.DeletionTimestamp != nil {
			continue
		}
		versions[m.Status.NodeRef.Name] = m.Spec.Version
		if m.Status.NodeRef.Name == "" {
			problems = append(problems, fmt.Sprintf("Machine %s has no Node", m.Name))
		} else if !slices.ContainsFunc(nodes, func(n corev1.Node) bool { return n.Name == m.Status.NodeRef.Name }) {
			problems = append(problems, fmt.Sprintf("Node %s of Machine %s does not exist", m.Status.NodeRef.Name, m.Name))
		}
	}
	running := map[string]int{}
	for i := range nodes {
		running[nodes[i].Status.NodeInfo.KubeletVersion]++
		problems = append(problems, nodeProblems(&nodes[i], versions[nodes[i].Name])...)
	}
	if len(problems) > 0 {
		return Fail(Nodes, "look at these Nodes and their Machines: `windlass status`", "%s", list(problems))
	}
	counts := make([]string, 0, len(running))
	for v, n := range running {
		counts = append(counts, fmt.Sprintf("%d at %s", n, text.Bound(v, maxVersionBytes)))
	}
	return Pass(Nodes, "%s Ready: %s", text.CountAre(len(nodes), "Node"), list(counts))
}

// nodeProblems lists what is wrong with a Node. wanted is the version of its Machine; empty if it has none.
func nodeProblems(node *corev1.Node, wanted string) []string {
	var problems []string
	ready := false
	for _, c := range node.Status.Conditions {
		switch {
		case c.Type == corev1.NodeReady:
			ready = c.Status == corev1.ConditionTrue
		case c.Status == corev1.ConditionTrue && slices.Contains(pressures, c.Type):
			problems = append(problems, fmt.Sprintf("%s has %s", node.Name, c.Type))
		}
	}
	if !ready {
		problems = append(problems, node.Name+" is not Ready")
	}
	if asked, err := version.Parse(wanted); err == nil {
		if _, arrived := capi.RunningVersion(asked, wanted, node.Status.NodeInfo.KubeletVersion); !arrived {
			problems = append(problems, fmt.Sprintf("%s runs %s, and its Machine asks for %s",
				node.Name, text.Bound(node.Status.NodeInfo.KubeletVersion, maxVersionBytes), asked))
		}
	}
	return problems
}

// pressures are the conditions that are False on a healthy Node.
var pressures = []corev1.NodeConditionType{
	corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure, corev1.NodeNetworkUnavailable,
}

// Simulated reports why no Pod can run in a cluster although its Nodes are Ready: nothing runs containers on any of them.
// Every kubelet reports its container runtime; what only stands for one does not, or is marked by kwok.
func Simulated(nodes []corev1.Node) (reason string, simulated bool) {
	for i := range nodes {
		runtime := nodes[i].Status.NodeInfo.ContainerRuntimeVersion
		if runtime != "" && nodes[i].Annotations["kwok.x-k8s.io/node"] == "" {
			return "", false
		}
	}
	if len(nodes) == 0 {
		return "the cluster has no Nodes", true
	}
	return fmt.Sprintf("no Pod can run, because the Nodes are simulated (%d): they have no container runtime", len(nodes)), true
}

// SimulatedAPI reports why an API server cannot be checked: that of Cluster API's in-memory provider
// has no version, no discovery and no watch that lasts.
func SimulatedAPI(nodes []corev1.Node) (reason string, simulated bool) {
	for i := range nodes {
		if !strings.HasPrefix(nodes[i].Spec.ProviderID, "in-memory://") {
			return "", false
		}
	}
	return "the API server is simulated, by Cluster API's in-memory provider", len(nodes) > 0
}

// Certificate is one that was seen.
type Certificate struct {
	// Name is that of its owner.
	Name     string
	NotAfter time.Time
}

// MachineCertificates are those that Machines report: the first that expires of each control plane Machine.
func MachineCertificates(machines []*clusterv1.Machine) []Certificate {
	var found []Certificate
	for _, m := range machines {
		if expiry := m.Status.CertificatesExpiryDate; !expiry.IsZero() && m.DeletionTimestamp == nil {
			found = append(found, Certificate{Name: "Machine " + m.Name, NotAfter: expiry.Time})
		}
	}
	return found
}

const day = 24 * time.Hour

// CheckCertificates fails if one has fewer than least whole days left.
func CheckCertificates(certificates []Certificate, least int, now time.Time) Finding {
	if len(certificates) == 0 {
		return Skip(Certificates, "no certificate was seen")
	}
	sorted := slices.SortedFunc(slices.Values(certificates), func(a, b Certificate) int {
		if order := a.NotAfter.Compare(b.NotAfter); order != 0 {
			return order
		}
		return strings.Compare(a.Name, b.Name)
	})
	// The webhooks of a configuration usually have the same CA.
	sorted = slices.CompactFunc(sorted, func(a, b Certificate) bool {
		return a.Name == b.Name && a.NotAfter.Equal(b.NotAfter)
	})
	var soon []string
	for _, c := range sorted {
		if left := c.NotAfter.Sub(now); left < 0 || int(left/day) < least {
			soon = append(soon, fmt.Sprintf("%s (%s)", c.Name, remaining(c, now)))
		}
	}
	if len(soon) > 0 {
		return Fail(Certificates, "renew those of the control plane with a rollout of it, or with `kubeadm certs renew all` on its machines, "+
			"and others with the program that issues them",
			"certificates with fewer than %d days left: %s", least, list(soon))
	}
	return Pass(Certificates, "%s seen; the first to expire is that of %s (%s)",
		text.Count(len(sorted), "certificate"), sorted[0].Name, remaining(sorted[0], now))
}

func remaining(c Certificate, now time.Time) string {
	left := c.NotAfter.Sub(now)
	if left <= 0 {
		return "expired"
	}
	return text.Count(int(left/day), "day") + " left"
}

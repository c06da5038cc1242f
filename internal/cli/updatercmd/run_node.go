package updatercmd

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/windlass-dev/windlass/internal/cli"
	"github.com/windlass-dev/windlass/internal/cli/management"
	"github.com/windlass-dev/windlass/internal/linuxhost"
	"github.com/windlass-dev/windlass/internal/workload"
	"github.com/windlass-dev/windlass/pkg/version"
)

// clusterView is what the cluster of --kubeconfig shows about a host.
type clusterView struct {
	// node is the node on the host; nil where nobody is to look at it.
	node *workload.SingleNode
	// oldest is zero if no Node has the role control-plane.
	oldest linuxhost.ControlPlaneNode
	// oldestNode is the oldest version of a kubelet of any Node; zero if unknown.
	oldestNode version.Version
	// unknown is why oldest is unknown; nil if it is known.
	unknown error
}

// lookAtCluster finds the node on the host, and the oldest control plane Node.
func (r runRequest) lookAtCluster(ctx context.Context) (clusterView, error) {
	if r.node == nil {
		return clusterView{}, nil
	}
	cluster, err := r.node.connect()
	if err != nil {
		return clusterView{}, err
	}
	nodes, err := cluster.Nodes(ctx)
	if err != nil {
		err = &management.ReadError{Item: "the cluster of --kubeconfig", Err: err}
	}
	view, name := clusterView{unknown: err}, r.node.name
	switch {
	case name != "":
		// An API server that does not answer may be the one on this host, in the middle of its upgrade.
		found := cluster.Node(name).Look(ctx)
		if !found.Exists && found.Unknown == "" {
			return clusterView{}, cli.InputErrorf(
				"--node", "there is no Node %s in the cluster of --kubeconfig", name)
		}
	case err != nil:
		return clusterView{}, fmt.Errorf(
			"%w; if its only API server is on this host, name the node with --node", err)
	default:
		if name, err = selectNode(nodes, r.node.host); err != nil {
			return clusterView{}, err
		}
	}
	if view.unknown == nil {
		view.oldest, view.unknown = findOldest(nodes, isControlPlane)
		// Only a note depends on it, so an error is no reason to end.
		oldest, _ := findOldest(nodes, isAny)
		view.oldestNode = oldest.Kubelet
	}
	view.node = cluster.Node(name)
	return view, nil
}

// connect returns the cluster. It does not connect yet.
func (c nodeChoice) connect() (*workload.Single, error) {
	config, err := loadKubeconfig(c.kubeconfig, c.context)
	if err != nil {
		return nil, cli.WrapInput("--kubeconfig", err)
	}
	// Without a logger controller-runtime prints a stack when a drain first has something to log.
	ctrl.SetLogger(klog.Background())
	cluster, err := workload.NewSingle(config)
	if err != nil {
		return nil, cli.WrapInput("--kubeconfig", err)
	}
	return cluster, nil
}

// controlPlaneRole is the label that kubeadm, RKE2 and K3s give Nodes with an API server.
const controlPlaneRole = "node-role.kubernetes.io/control-plane"

func isControlPlane(node *corev1.Node) bool {
	_, is := node.Labels[controlPlaneRole]
	return is
}

func isAny(*corev1.Node) bool { return true }

// findOldest finds the Node with the oldest kubelet among those that count. It returns the zero value if
// there are none, such as Nodes of a hosted control plane.
func findOldest(
	nodes []corev1.Node, counts func(*corev1.Node) bool,
) (linuxhost.ControlPlaneNode, error) {
	var oldest linuxhost.ControlPlaneNode
	for i := range nodes {
		if !counts(&nodes[i]) {
			continue
		}
		kubelet, err := version.Parse(nodes[i].Status.NodeInfo.KubeletVersion)
		if err != nil {
			return linuxhost.ControlPlaneNode{}, fmt.Errorf(
				"reading the version of Node %s: %w", nodes[i].Name, err)
		}
		if oldest.Name == "" || version.Compare(kubelet, oldest.Kubelet) == version.Less {
			oldest = linuxhost.ControlPlaneNode{Name: nodes[i].Name, Kubelet: kubelet}
		}
	}
	return oldest, nil
}

// loadKubeconfig reads what the user names, and nothing else: what the environment names may be another cluster.
func loadKubeconfig(path, context string) (*rest.Config, error) {
	rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: path}
	loaded, err := rules.Load()
	if err != nil {
		return nil, fmt.Errorf("loading it: %w", err)
	}
	config, err := clientcmd.NewNonInteractiveClientConfig(*loaded, context, &clientcmd.ConfigOverrides{}, rules).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return config, nil
}

// selectNode selects the node that has a host's address or name.
func selectNode(nodes []corev1.Node, host string) (string, error) {
	var names []string
	for i := range nodes {
		has := func(a corev1.NodeAddress) bool { return strings.EqualFold(a.Address, host) }
		if strings.EqualFold(nodes[i].Name, host) || slices.ContainsFunc(nodes[i].Status.Addresses, has) {
			names = append(names, nodes[i].Name)
		}
	}
	slices.Sort(names)
	switch {
	case len(nodes) == 0:
		return "", cli.InputErrorf("--kubeconfig",
			"its cluster has no nodes, so it is probably not the cluster of the host, "+
				"but a management cluster. Fix: give the kubeconfig of the cluster that the host is in")
	case len(names) == 0:
		return "", cli.InputErrorf("--node", "none of the %d nodes in the cluster of --kubeconfig has the name or address %s. Fix: name the node that is on the host", len(nodes), host)
	case len(names) == 1:
		return names[0], nil
	default:
		return "", cli.InputErrorf("--node", "several nodes have the name or address %s: %s. Fix: name the one that is on the host", host, strings.Join(names, ", "))
	}
}

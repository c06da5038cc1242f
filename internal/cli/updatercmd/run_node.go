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
	"github.com/windlass-dev/windlass/internal/workload"
)

// findNode gives the node on the host; nil where nobody is to look at it.
func (r runRequest) findNode(ctx context.Context) (*workload.SingleNode, error) {
	if r.node == nil {
		return nil, nil
	}
	config, err := loadKubeconfig(r.node.kubeconfig, r.node.context)
	if err != nil {
		return nil, cli.WrapInput("--kubeconfig", err)
	}
	// Without a logger controller-runtime prints a stack when a drain first has something to log.
	ctrl.SetLogger(klog.Background())
	cluster, err := workload.NewSingle(config)
	if err != nil {
		return nil, cli.WrapInput("--kubeconfig", err)
	}
	if r.node.name != "" {
		// An API server that does not answer may be the one on this host, in the middle of its upgrade.
		node := cluster.Node(r.node.name)
		if found := node.Look(ctx); !found.Exists && found.Unknown == "" {
			return nil, cli.InputErrorf("--node", "there is no Node %s in the cluster of --kubeconfig", r.node.name)
		}
		return node, nil
	}
	nodes, err := cluster.Nodes(ctx)
	if err != nil {
		return nil, &management.ReadError{Item: "the cluster of --kubeconfig", Err: fmt.Errorf("%w; if its only API server is on this host, name the node with --node", err)}
	}
	name, err := selectNode(nodes, r.node.host)
	if err != nil {
		return nil, err
	}
	return cluster.Node(name), nil
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
	switch len(names) {
	case 0:
		return "", cli.InputErrorf("--node", "none of the %d nodes in the cluster of --kubeconfig has the name or address %s. Fix: name the node that is on the host", len(nodes), host)
	case 1:
		return names[0], nil
	default:
		return "", cli.InputErrorf("--node", "several nodes have the name or address %s: %s. Fix: name the one that is on the host", host, strings.Join(names, ", "))
	}
}

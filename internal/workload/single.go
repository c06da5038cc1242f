package workload

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/port"
)

// Single is one cluster that a kubeconfig of the user's names, without the management cluster that may have made it. It reads live, and is
// safe for concurrent use.
type Single struct{ remote client.Client }

// NewSingle returns the cluster of a configuration, which it does not change. It does not connect.
func NewSingle(config *rest.Config) (*Single, error) {
	remote, err := newClient(objectConfig(config), "")
	if err != nil {
		return nil, fmt.Errorf("the kubeconfig cannot be used: %w", err)
	}
	return &Single{remote: remote}, nil
}

// Nodes returns all nodes.
func (s *Single) Nodes(ctx context.Context) ([]corev1.Node, error) {
	var nodes []corev1.Node
	var page corev1.NodeList
	if err := listPages(ctx, s.remote, &page, func() { nodes = append(nodes, page.Items...) }); err != nil {
		return nil, fmt.Errorf("listing the nodes: %s", describe(err))
	}
	return nodes, nil
}

// Node gives one node, whether it exists or not.
func (s *Single) Node(name string) *SingleNode { return &SingleNode{remote: s.remote, name: name} }

// SingleNode is one node of a Single cluster. It is safe for concurrent use.
type SingleNode struct {
	remote client.Client
	name   string
}

// Name is the node's name.
func (n *SingleNode) Name() string { return n.name }

// Look looks the node up. That it is not there, or cannot be looked up, is part of the answer.
func (n *SingleNode) Look(ctx context.Context) inplace.Node {
	node, err := n.read(ctx)
	switch {
	case apierrors.IsNotFound(err):
		return inplace.Node{}
	case err != nil:
		return inplace.Node{Unknown: fmt.Sprintf("reading Node %s: %s", n.name, describe(err))}
	}
	return computeFacts(node)
}

// Drain is Drain of port.Nodes, by the rules that Cluster API has where there are no MachineDrainRules.
func (n *SingleNode) Drain(ctx context.Context) (port.DrainStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	node, err := n.read(ctx)
	if apierrors.IsNotFound(err) {
		return port.DrainStatus{Done: true}, nil
	}
	var status port.DrainStatus
	if err == nil {
		ctx = log.IntoContext(ctx, log.FromContext(ctx).V(drainLogLevel))
		status, err = evict(ctx, noRules{}, n.remote, node, &clusterv1.Cluster{}, &clusterv1.Machine{})
	}
	if err != nil {
		return port.DrainStatus{}, fmt.Errorf("draining Node %s: %s", n.name, describe(err))
	}
	return status, nil
}

// Uncordon makes the node schedulable again. A node that does not exist is no error.
func (n *SingleNode) Uncordon(ctx context.Context) error {
	node, err := n.read(ctx)
	if apierrors.IsNotFound(err) || err == nil && !node.Spec.Unschedulable {
		return nil
	}
	if err == nil {
		changed := node.DeepCopy()
		changed.Spec.Unschedulable = false
		err = n.remote.Patch(ctx, changed, client.MergeFrom(node))
	}
	if err != nil {
		return fmt.Errorf("uncordoning Node %s: %s", n.name, describe(err))
	}
	return nil
}

func (n *SingleNode) read(ctx context.Context) (*corev1.Node, error) {
	node := &corev1.Node{}
	return node, n.remote.Get(ctx, types.NamespacedName{Name: n.name}, node)
}

// noRules stands for a management cluster without MachineDrainRules, the only thing that a drain looks for there.
type noRules struct{ client.Client }

// List leaves the list empty.
func (noRules) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }

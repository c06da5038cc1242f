package simulated

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/cluster-api/util/kubeconfig"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/workload"
	"github.com/windlass-dev/windlass/pkg/version"
)

// Nodes reads nodes, and sets the kubelet version that they report. Implementations are safe for
// concurrent use.
type Nodes interface {
	// Node looks a node up. A node that does not exist, or a cluster that is not reached, is part of the answer.
	Node(ctx context.Context, cluster types.NamespacedName, name string) inplace.Node
	// SetKubelet sets the kubelet version that a simulated node reports. It refuses other nodes.
	SetKubelet(ctx context.Context, cluster types.NamespacedName, name, kubelet string) error
}

// ErrRealNode is the error of SetKubelet for a node that is not a simulated one.
var ErrRealNode = errors.New("it is not a node of Cluster API's in-memory provider")

// providerPrefix begins the provider ids of Cluster API's in-memory provider.
const providerPrefix = "in-memory://"

// InMemory implements Nodes with the API servers of Cluster API's in-memory provider.
type InMemory struct {
	*workload.Nodes

	management client.Client
}

// NewInMemory returns the nodes of the clusters whose kubeconfig Secrets management reads.
func NewInMemory(management client.Client) InMemory {
	return InMemory{Nodes: workload.New(management, time.Now), management: management}
}

// SetKubelet implements Nodes.
func (n InMemory) SetKubelet(ctx context.Context, cluster types.NamespacedName, name, kubelet string) error {
	if err := n.setKubelet(ctx, cluster, name, kubelet); err != nil {
		return fmt.Errorf("setting the kubelet version of Node %s of Cluster %s: %w", name, cluster, err)
	}
	return nil
}

func (n InMemory) setKubelet(ctx context.Context, cluster types.NamespacedName, name, kubelet string) error {
	if _, err := version.Parse(kubelet); err != nil {
		return err
	}
	data, err := kubeconfig.FromSecret(ctx, n.management, cluster)
	if err != nil {
		return err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(data)
	if err != nil {
		return err
	}
	workloads, err := client.New(config, client.Options{})
	if err != nil {
		return err
	}
	return setKubelet(ctx, workloads, name, kubelet)
}

func setKubelet(ctx context.Context, workloads client.Client, name, kubelet string) error {
	node := &corev1.Node{}
	if err := workloads.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		return err
	}
	if !strings.HasPrefix(node.Spec.ProviderID, providerPrefix) {
		return ErrRealNode
	}
	if node.Status.NodeInfo.KubeletVersion == kubelet {
		return nil
	}
	// The provider's API server has no /status of nodes, and takes the status with the rest.
	before := node.DeepCopy()
	node.Status.NodeInfo.KubeletVersion = kubelet
	return workloads.Patch(ctx, node, client.MergeFrom(before))
}

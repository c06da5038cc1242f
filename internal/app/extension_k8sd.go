package app

import (
	"context"
	"encoding/json"
	"fmt"
	"net"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/port"
	"github.com/windlass-dev/windlass/internal/updaters/k8sd"
	"github.com/windlass-dev/windlass/internal/workload"
)

// k8sdProxyPort is where the pods of the k8sd proxy listen, whatever the port of k8sd is.
const k8sdProxyPort = 2380

func (p *updaterPool) newK8sd(config v1alpha1.K8sdConfig) (port.Updater, error) {
	return k8sd.New(k8sd.Options{
		Config: config, Prefix: p.prefix, Machines: liveMachines{p.live}, Secret: p.secret, Kubelet: p.kubelet, Forward: p.forwardToK8sd,
	})
}

// secret reads the data of a Secret.
func (p *updaterPool) secret(ctx context.Context, name types.NamespacedName) (map[string][]byte, error) {
	s := &corev1.Secret{}
	if err := p.live.Get(ctx, name, s); err != nil {
		return nil, err
	}
	return s.Data, nil
}

// kubelet reads the version that the kubelet of a node reports.
func (p *updaterPool) kubelet(ctx context.Context, cluster types.NamespacedName, node string) (string, error) {
	n, err := p.nodes.Get(ctx, cluster, node)
	if err != nil {
		return "", err
	}
	return n.Status.NodeInfo.KubeletVersion, nil
}

// forwardToK8sd connects to the proxy pod on a node, which leads to the node's k8sd.
func (p *updaterPool) forwardToK8sd(ctx context.Context, cluster types.NamespacedName, node string) (net.Conn, error) {
	return p.nodes.Forward(ctx, cluster, workload.PodPort{
		Namespace: metav1.NamespaceSystem, Labels: map[string]string{"app": "k8sd-proxy"}, Node: node, Port: k8sdProxyPort,
	})
}

// liveMachines are the Machines of the management cluster, as the API server has them.
type liveMachines struct{ live client.Client }

// Machine implements k8sd.Machines.
func (l liveMachines) Machine(ctx context.Context, name types.NamespacedName) (k8sd.Machine, error) {
	m := &clusterv1.Machine{}
	if err := l.live.Get(ctx, name, m); err != nil {
		return k8sd.Machine{}, err
	}
	return k8sd.Machine{
		Name: name, ResourceVersion: m.ResourceVersion, Cluster: m.Spec.ClusterName, Node: m.Status.NodeRef.Name,
		Addresses: m.Status.Addresses, Annotations: m.Annotations,
	}, nil
}

// Annotate implements k8sd.Machines.
func (l liveMachines) Annotate(ctx context.Context, name types.NamespacedName, resourceVersion string, annotations map[string]*string) error {
	metadata := map[string]any{"annotations": annotations}
	if resourceVersion != "" {
		metadata["resourceVersion"] = resourceVersion
	}
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return fmt.Errorf("writing the patch: %w", err)
	}
	m := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}}
	m.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("Machine"))
	return l.live.Patch(ctx, m, client.RawPatch(types.MergePatchType, patch))
}

package app

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/linuxhost"
	"github.com/windlass-dev/windlass/internal/port"
	"github.com/windlass-dev/windlass/internal/refusal"
	"github.com/windlass-dev/windlass/internal/transport/pod"
	"github.com/windlass-dev/windlass/internal/transport/ssh"
	"github.com/windlass-dev/windlass/internal/updaters/hosts"
)

func (p *updaterPool) newHosts(name string, kind v1alpha1.InProcessKind, config v1alpha1.HostConfig) (port.Updater, error) {
	var binaries linuxhost.Bundle
	if config.Binaries.Bundle != "" {
		binaries = hosts.BundleFile{Path: config.Binaries.Bundle}
	}
	return hosts.New(hosts.Options{
		Kind: kind, Config: config, Machine: p.hostMachine, Secret: p.secret, ConfigMap: p.configMap,
		Nodes: p.nodes, ProveNode: p.proveNode, Connect: p.connectHost,
		Bundle: binaries, Log: updateLog{p.live},
		RecordSerial: func(ctx context.Context, serial int64) (int64, error) { return p.recordSerial(ctx, name, serial) },
	})
}

// recordSerial records the serial of a signed manifest in the status of an Updater, unless a higher one was seen. The write
// fails where the Updater has changed since it was read; the caller is asked again.
func (p *updaterPool) recordSerial(ctx context.Context, name string, serial int64) (highest int64, err error) {
	u := &v1alpha1.Updater{}
	if err := p.live.Get(ctx, types.NamespacedName{Name: name}, u); err != nil {
		return 0, fmt.Errorf("reading Updater %q: %w", name, err)
	}
	if u.Status.DigestsSerial >= serial {
		return u.Status.DigestsSerial, nil
	}
	changed := u.DeepCopy()
	changed.Status.DigestsSerial = serial
	sent := changed.DeepCopy()
	if err := p.live.Status().Patch(ctx, changed, client.MergeFromWithOptions(u, client.MergeFromWithOptimisticLock{})); err != nil {
		return 0, fmt.Errorf("writing the status of Updater %q: %w", name, err)
	}
	if err := refusal.CheckStored(sent, changed); err != nil {
		return 0, fmt.Errorf("recording the serial %d: %w", serial, err)
	}
	return serial, nil
}

// hostMachine reads what leads to the host of a Machine.
func (p *updaterPool) hostMachine(ctx context.Context, name types.NamespacedName) (hosts.Machine, error) {
	m := &clusterv1.Machine{}
	if err := p.live.Get(ctx, name, m); err != nil {
		return hosts.Machine{}, err
	}
	return hosts.Machine{
		UID: m.UID, Cluster: m.Spec.ClusterName, Node: m.Status.NodeRef.Name,
		ProviderID: m.Spec.ProviderID, Addresses: m.Status.Addresses,
	}, nil
}

// proveNode reads a Node, and what the kubeconfig of its Cluster trusts.
func (p *updaterPool) proveNode(
	ctx context.Context, cluster types.NamespacedName, name string,
) (providerID string, authorities []byte, err error) {
	node, authorities, err := p.nodes.GetProved(ctx, cluster, name)
	if err != nil {
		return "", authorities, err
	}
	return node.Spec.ProviderID, authorities, nil
}

// configMap reads the data of a ConfigMap.
func (p *updaterPool) configMap(ctx context.Context, name types.NamespacedName) (map[string]string, error) {
	c := &corev1.ConfigMap{}
	if err := p.live.Get(ctx, name, c); err != nil {
		return nil, err
	}
	return c.Data, nil
}

// connectHost returns the connection to a host. That of SSH is made in the background: no request waits
// for a host that may not answer.
func (p *updaterPool) connectHost(ctx context.Context, to hosts.Target) (port.Host, error) {
	if to.SSH != nil {
		//nolint:contextcheck // A connection outlives the request that begins it.
		return p.connections.Connect(to.Machine.Namespace, to.Machine.Name, sshOptions(*to.SSH))
	}
	config, err := p.nodes.Config(ctx, to.Cluster)
	if err != nil {
		return nil, &port.HostError{Reason: port.HostUnreachable, Host: to.Node, Err: err}
	}
	return pod.New(pod.Options{
		Config: config, Namespace: to.Pod.Namespace, Node: to.Node, Image: to.Pod.Image, StartTimeout: podPatience,
	})
}

// podPatience is how long one request waits for a Pod to run. The Pod stays for the next request.
const podPatience = 2 * time.Second

func sshOptions(to hosts.SSHTarget) ssh.Options {
	login := func(l hosts.Login, names []string) ssh.Login {
		return ssh.Login{Address: l.Address, User: l.User, PrivateKeys: [][]byte{l.PrivateKey}, KnownHosts: to.KnownHosts, HostNames: names}
	}
	options := ssh.Options{Login: login(to.Login, to.Names)}
	if to.Bastion != nil {
		bastion := login(*to.Bastion, nil)
		options.Bastion = &bastion
	}
	return options
}

package extension

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/host/pod"
	"github.com/windlass-dev/windlass/internal/host/ssh"
	"github.com/windlass-dev/windlass/internal/port"
	"github.com/windlass-dev/windlass/internal/updater/hosts"
	"github.com/windlass-dev/windlass/internal/updater/hosts/bundle"
	"github.com/windlass-dev/windlass/internal/updater/hoststep"
)

func (p *updaterPool) newHosts(kind v1alpha1.InProcessKind, config v1alpha1.HostConfig) (port.Updater, error) {
	var binaries hoststep.Bundle
	if config.Binaries.Bundle != "" {
		binaries = bundle.File{Path: config.Binaries.Bundle}
	}
	return hosts.New(hosts.Options{
		Kind: kind, Config: config, Machine: p.hostMachine, Secret: p.secret, ConfigMap: p.configMap, Nodes: p.nodes, Connect: p.connectHost,
		Bundle: binaries, Log: updateLog{p.live},
	})
}

// hostMachine reads what leads to the host of a Machine.
func (p *updaterPool) hostMachine(ctx context.Context, name types.NamespacedName) (hosts.Machine, error) {
	m := &clusterv1.Machine{}
	if err := p.live.Get(ctx, name, m); err != nil {
		return hosts.Machine{}, err
	}
	return hosts.Machine{Cluster: m.Spec.ClusterName, Node: m.Status.NodeRef.Name, Addresses: m.Status.Addresses}, nil
}

// configMap reads the data of a ConfigMap.
func (p *updaterPool) configMap(ctx context.Context, name types.NamespacedName) (map[string]string, error) {
	c := &corev1.ConfigMap{}
	if err := p.live.Get(ctx, name, c); err != nil {
		return nil, err
	}
	return c.Data, nil
}

// connectHost prepares the connection to a host; it is made with the first script.
func (p *updaterPool) connectHost(ctx context.Context, to hosts.Target) (port.Host, error) {
	if to.SSH != nil {
		return ssh.New(sshOptions(*to.SSH))
	}
	config, err := p.nodes.Config(ctx, to.Cluster)
	if err != nil {
		return nil, &port.HostError{Reason: port.HostUnreachable, Host: to.Node, Err: err}
	}
	return pod.New(pod.Options{Config: config, Namespace: to.Pod.Namespace, Node: to.Node, Image: to.Pod.Image})
}

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

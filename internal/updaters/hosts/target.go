package hosts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
)

// Target is a host, and how to reach it. Exactly one of SSH and Pod is set. It holds keys: it is never printed.
type Target struct {
	Machine types.NamespacedName
	Cluster types.NamespacedName
	// Node is the name of the node on the host.
	Node string
	SSH  *SSHTarget
	Pod  *PodTarget
}

// String and GoString keep keys out of whatever prints a target.
func (t Target) String() string { return "host of Machine " + t.Machine.String() }

// GoString implements fmt.GoStringer.
func (t Target) GoString() string { return t.String() }

// SSHTarget is a login at a host.
type SSHTarget struct {
	Login
	// KnownHosts holds pinned keys of hosts, in the form of known_hosts; Names are other names than the address by which the host's may be pinned.
	KnownHosts []byte
	Names      []string
	// Bastion is a host that the connection goes through; nil for none. Its key is in KnownHosts, too.
	Bastion *Login
}

// Login is who logs in where.
type Login struct {
	// Address is host:port.
	Address    string
	User       string
	PrivateKey []byte
}

// PodTarget is the Pod by which a host is reached.
type PodTarget struct{ Image, Namespace string }

// The keys of the Secret for SSH.
const (
	privateKeyKey        = "ssh-privatekey"
	bastionPrivateKeyKey = "bastion-ssh-privatekey"
	knownHostsKey        = "known_hosts"
	clusterVariable      = "{cluster}"
)

// computeTarget computes how a Machine's host is reached.
func (u *Updater) computeTarget(ctx context.Context, name types.NamespacedName, m Machine) (Target, error) {
	to := Target{Machine: name, Cluster: types.NamespacedName{Namespace: name.Namespace, Name: m.Cluster}, Node: m.Node}
	if m.Node == "" {
		return Target{}, setup("the Machine %s has no node (status.nodeRef), so that nobody could see the upgrade's end", name)
	}
	if p := u.options.Config.Pod; p != nil {
		to.Pod = &PodTarget{Image: p.Image, Namespace: p.Namespace}
		return to, nil
	}
	c := u.options.Config.SSH
	host := findAddress(m.Addresses, c.AddressType)
	if host == "" {
		return Target{}, setup("the Machine %s has no address of type %s in its status; set spec.inProcess.host.ssh.addressType of the Updater to one that it has%s", name, c.AddressType, listTypes(m.Addresses))
	}
	secret := types.NamespacedName{Namespace: name.Namespace, Name: strings.ReplaceAll(c.SecretName, clusterVariable, m.Cluster)}
	data, err := u.options.Secret(ctx, secret)
	switch {
	case apierrors.IsNotFound(err):
		return Target{}, setup("there is no Secret %s with the key for SSH", secret)
	case err != nil:
		return Target{}, fmt.Errorf("reading Secret %s: %w", secret, err)
	}
	to.SSH, err = computeSSH(c, host, data)
	if err != nil {
		return Target{}, setup("the Secret %s %w", secret, err)
	}
	to.SSH.Names = []string{name.Name, m.Node}
	return to, nil
}

func computeSSH(c *v1alpha1.HostSSH, host string, data map[string][]byte) (*SSHTarget, error) {
	key, known := data[privateKeyKey], []byte(c.KnownHosts)
	if len(known) == 0 {
		known = data[knownHostsKey]
	}
	switch {
	case len(key) == 0:
		return nil, errors.New("has no key " + privateKeyKey)
	case len(known) == 0:
		return nil, errors.New("has no key " + knownHostsKey + ", and spec.inProcess.host.ssh.knownHosts of the Updater is not set: without the hosts' keys nobody can tell who answers")
	}
	to := &SSHTarget{Login: Login{Address: address(host, c.Port), User: c.User, PrivateKey: key}, KnownHosts: known}
	if b := c.Bastion; b != nil {
		to.Bastion = &Login{Address: address(b.Host, b.Port), User: b.User, PrivateKey: key}
		if own := data[bastionPrivateKeyKey]; len(own) > 0 {
			to.Bastion.PrivateKey = own
		}
	}
	return to, nil
}

func address(host string, port int32) string { return net.JoinHostPort(host, strconv.Itoa(int(port))) }

func findAddress(addresses clusterv1.MachineAddresses, wanted v1alpha1.HostAddressType) string {
	for _, a := range addresses {
		if string(a.Type) == string(wanted) && a.Address != "" {
			return a.Address
		}
	}
	return ""
}

// listTypes tells which types of addresses there are.
func listTypes(addresses clusterv1.MachineAddresses) string {
	var types []string
	for _, a := range addresses {
		types = append(types, string(a.Type))
	}
	slices.Sort(types)
	return ": " + cmp.Or(strings.Join(slices.Compact(types), ", "), "none so far")
}

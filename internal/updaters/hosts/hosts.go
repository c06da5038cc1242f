package hosts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/keyed"
	"github.com/windlass-dev/windlass/internal/linuxhost"
	"github.com/windlass-dev/windlass/internal/port"
	"github.com/windlass-dev/windlass/internal/updaters"
)

// Machine is what the updater reads of a Machine.
type Machine struct {
	UID types.UID
	// Cluster is the name of its Cluster, Node that of its node; Node is empty where it has none yet. ProviderID is the one of its spec.
	Cluster, Node, ProviderID string
	Addresses                 clusterv1.MachineAddresses
}

// Nodes looks nodes up.
type Nodes interface {
	// Node looks a node up. That it does not exist, or that the cluster cannot be reached, is part of the answer.
	Node(ctx context.Context, cluster types.NamespacedName, name string) inplace.Node
}

// Options configure an Updater. All but RecordSerial, Bundle, Log, Now and Pause are needed. Functions are safe for concurrent use.
type Options struct {
	// Kind is one for hosts, and Config the spec of the Updater. Fields of it that are not set have their defaults.
	Kind   v1alpha1.InProcessKind
	Config v1alpha1.HostConfig
	// Machine reads a Machine live, Secret and ConfigMap the data of these; a NotFound error of apimachinery where there is none.
	Machine   func(ctx context.Context, name types.NamespacedName) (Machine, error)
	Secret    func(ctx context.Context, name types.NamespacedName) (map[string][]byte, error)
	ConfigMap func(ctx context.Context, name types.NamespacedName) (map[string]string, error)
	Nodes     Nodes
	// ProveNode reads spec.providerID of a Node live, and returns the certificates, in PEM, that the
	// Cluster's kubeconfig trusts for its API server. If the error is nil, the API server that
	// answered has proved itself under these certificates, and it has accepted the kubeconfig's
	// credentials. With an error, they are what the kubeconfig names; nil if it is not readable.
	ProveNode func(ctx context.Context, cluster types.NamespacedName, node string) (
		providerID string, authorities []byte, err error)
	// RecordSerial records that a signed manifest with a serial was seen, and returns the highest that was seen so far. nil
	// records nothing.
	RecordSerial func(ctx context.Context, serial int64) (highest int64, err error)
	// Connect prepares the connection to a host. Its errors, and the host's, are *port.HostError where they say why.
	Connect func(ctx context.Context, to Target) (port.Host, error)
	// Bundle is needed where Config names one.
	Bundle linuxhost.Bundle
	// Log takes what steps print; nil for nobody.
	Log Log
	// Now is the clock; nil means the real one.
	Now func() time.Time
	// Pause waits between two looks at a step that has just begun, at most as long as ctx lives; nil means a real pause.
	Pause func(ctx context.Context, d time.Duration)
}

// Updater is a port.Updater. It is safe for concurrent use; requests about one machine are served one after another.
type Updater struct {
	updaters.Coverer

	options  Options
	coverage coverage
	locks    keyed.Locks[types.NamespacedName]
	// said is what was last said about each Machine. It is for words only, and decides nothing.
	said keyed.Memory[types.NamespacedName, said]
}

var _ port.Updater = &Updater{}

// distributionOf is what runs Kubernetes on the hosts of a kind; empty for kinds that are not for hosts.
func distributionOf(kind v1alpha1.InProcessKind) linuxhost.Distribution {
	switch kind {
	case v1alpha1.KubeadmUpdater:
		return linuxhost.Kubeadm
	case v1alpha1.RKE2Updater:
		return linuxhost.RKE2
	case v1alpha1.K3sUpdater:
		return linuxhost.K3s
	case v1alpha1.K8sdUpdater:
	}
	return ""
}

const (
	defaultUser = "root"
	defaultPort = 22
)

// New returns an Updater. The error says what is wrong with the configuration, for one that did not come through the API server, too.
func New(o Options) (*Updater, error) {
	distribution := distributionOf(o.Kind)
	if err := o.check(distribution); err != nil {
		return nil, fmt.Errorf("creating the updater for hosts: %w", err)
	}
	o.Config = withDefaults(o.Config)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Pause == nil {
		o.Pause = pause
	}
	u := &Updater{options: o, coverage: coverage{
		distribution: distribution, folder: cmp.Or(o.Config.BinariesFolder, distribution.Folder()), prefixes: o.Config.AllowedPathPrefixes,
		repeatable: o.Config.RepeatableCommands, accepted: o.Config.AcceptedSettings,
	}}
	u.Coverer = u.patches
	return u, nil
}

// check returns what is wrong with the options for a distribution.
func (o Options) check(d linuxhost.Distribution) error {
	switch {
	case d == "":
		return fmt.Errorf("kind %q is not for hosts", o.Kind)
	case o.lacksPort():
		return errors.New("it needs Machine, Secret, ConfigMap, Nodes, ProveNode and Connect")
	case (o.Config.SSH == nil) == (o.Config.Pod == nil):
		return errors.New("set exactly one of ssh and pod")
	case o.Config.Binaries.Bundle != "" && o.Bundle == nil:
		return errors.New("it needs Bundle")
	}
	for _, prefix := range o.Config.AllowedPathPrefixes {
		if err := linuxhost.CheckPrefix(prefix); err != nil {
			return fmt.Errorf("allowedPathPrefixes: %w", err)
		}
	}
	return nil
}

// lacksPort reports whether one of the ports that every updater of hosts needs is missing.
func (o Options) lacksPort() bool {
	return o.Machine == nil || o.Secret == nil || o.ConfigMap == nil || o.Nodes == nil ||
		o.ProveNode == nil || o.Connect == nil
}

// withDefaults is what the API server would have made of a configuration.
func withDefaults(c v1alpha1.HostConfig) v1alpha1.HostConfig {
	c = *c.DeepCopy()
	if len(c.AllowedPathPrefixes) == 0 {
		c.AllowedPathPrefixes = linuxhost.DefaultPrefixes()
	}
	c.EtcdSnapshot = cmp.Or(c.EtcdSnapshot, v1alpha1.EtcdSnapshotRequired)
	if c.SSH == nil {
		return c
	}
	c.SSH.User = cmp.Or(c.SSH.User, defaultUser)
	c.SSH.Port = cmp.Or(c.SSH.Port, defaultPort)
	c.SSH.AddressType = cmp.Or(c.SSH.AddressType, v1alpha1.HostAddressType(clusterv1.MachineInternalIP))
	if b := c.SSH.Bastion; b != nil {
		b.Port, b.User = cmp.Or(b.Port, defaultPort), cmp.Or(b.User, c.SSH.User)
	}
	return c
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// Check implements port.Updater. Without a machine there is nothing to reach, and that the configuration can be used was seen by New.
func (u *Updater) Check(ctx context.Context) error { return ctx.Err() }

func (u *Updater) patches(ctx context.Context, scope cover.Scope, current, desired cover.Objects) (cover.Patches, error) {
	if err := ctx.Err(); err != nil {
		return cover.Patches{}, err
	}
	claims, notes, err := u.coverage.claims(ctx, scope, current, desired)
	if err != nil {
		return cover.Patches{}, err
	}
	patches, err := updaters.Patches(claims, scope, current, desired)
	patches.Notes, patches.Warnings = notes, unknownVersion(scope, desired)
	return patches, err
}

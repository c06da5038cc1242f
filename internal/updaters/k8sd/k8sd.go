package k8sd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/keyed"
	"github.com/windlass-dev/windlass/internal/port"
	"github.com/windlass-dev/windlass/internal/record"
	"github.com/windlass-dev/windlass/internal/updaters"
)

// Options configure an Updater.
type Options struct {
	// Config is the spec of the Updater. Fields of it that are not set have their defaults.
	Config v1alpha1.K8sdConfig
	// Prefix begins the key of the annotation with the change that goes on; empty means v1alpha1.DefaultInPlaceUpgradePrefix.
	Prefix string
	// Machines reads and annotates Machines.
	Machines Machines
	// Secret reads the data of a Secret; a NotFound error of apimachinery where it does not exist.
	Secret func(ctx context.Context, name types.NamespacedName) (map[string][]byte, error)
	// Kubelet reads the version that the kubelet of a node reports.
	Kubelet func(ctx context.Context, cluster types.NamespacedName, node string) (string, error)
	// Forward connects to the k8sd of a node through its workload cluster. It is needed where Config says PortForward.
	Forward func(ctx context.Context, cluster types.NamespacedName, node string) (net.Conn, error)
	// Now is the clock; nil means the real one.
	Now func() time.Time
}

// Updater is a port.Updater. It is safe for concurrent use; requests about one machine are served one after another.
type Updater struct {
	// Coverer covers nothing without a channel for each minor.
	updaters.Coverer

	options Options
	trust   trust
	claims  []cover.Pointer
	locks   keyed.Locks[types.NamespacedName]
	clock   *record.Clock
}

var _ port.Updater = &Updater{}

// versionClaim is the field that the updater changes where it has a channel for each minor.
var versionClaim = cover.Pointer{Part: cover.PartMachine, Path: "/spec/version"}

const (
	defaultPort = 2380
	// minorVariable stands for the minor in the configured channel.
	minorVariable = "{minor}"
)

// New returns an Updater. The error says what is wrong with the configuration, for one that did not come through the API server, too.
func New(o Options) (*Updater, error) {
	if o.Machines == nil || o.Secret == nil || o.Kubelet == nil {
		return nil, errors.New("creating the k8sd updater: it needs Machines, Secret and Kubelet")
	}
	o.Config.Reach = cmp.Or(o.Config.Reach, v1alpha1.K8sdPortForward)
	o.Config.Port = cmp.Or(o.Config.Port, defaultPort)
	o.Prefix = cmp.Or(o.Prefix, v1alpha1.DefaultInPlaceUpgradePrefix)
	if o.Now == nil {
		o.Now = time.Now
	}
	switch {
	case o.Config.Reach != v1alpha1.K8sdPortForward && o.Config.Reach != v1alpha1.K8sdDirect:
		return nil, fmt.Errorf("creating the k8sd updater: reach %q is unknown. Fix: use %s or %s", o.Config.Reach, v1alpha1.K8sdPortForward, v1alpha1.K8sdDirect)
	case o.Config.Reach == v1alpha1.K8sdPortForward && o.Forward == nil:
		return nil, errors.New("creating the k8sd updater: it needs Forward to reach nodes by port-forwards")
	}
	trusted, err := newTrust(o.Config.TLS)
	if err != nil {
		return nil, fmt.Errorf("creating the k8sd updater: tls: %w", err)
	}
	u := &Updater{options: o, trust: trusted, clock: record.NewClock()}
	u.Coverer = u.patches
	if o.Config.Channel != "" {
		u.claims = []cover.Pointer{versionClaim}
	}
	return u, nil
}

// Check implements port.Updater. Without a machine there is nothing to reach, and that the configuration can be used was seen by New.
func (u *Updater) Check(ctx context.Context) error { return ctx.Err() }

func (u *Updater) patches(ctx context.Context, scope cover.Scope, current, desired cover.Objects) (cover.Patches, error) {
	if err := ctx.Err(); err != nil {
		return cover.Patches{}, err
	}
	return updaters.Patches(u.claims, scope, current, desired)
}

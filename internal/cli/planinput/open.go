package planinput

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/inplace/preview"
	"github.com/windlass-dev/windlass/internal/port"
	"github.com/windlass-dev/windlass/internal/updaters"
	"github.com/windlass-dev/windlass/internal/updaters/hosts"
	"github.com/windlass-dev/windlass/internal/updaters/k8sd"
	"github.com/windlass-dev/windlass/internal/updaters/remote"
)

// openHosts opens the updater for Linux hosts to ask it what it covers, for which it reaches nothing.
func openHosts(kind v1alpha1.InProcessKind, config v1alpha1.HostConfig) (port.Updater, error) {
	return hosts.New(hosts.Options{
		Kind: kind, Config: config, Nodes: noNodes{}, Bundle: hosts.BundleFile{Path: config.Binaries.Bundle},
		Machine:   func(context.Context, types.NamespacedName) (hosts.Machine, error) { return hosts.Machine{}, errPreview },
		Secret:    func(context.Context, types.NamespacedName) (map[string][]byte, error) { return nil, errPreview },
		ConfigMap: func(context.Context, types.NamespacedName) (map[string]string, error) { return nil, errPreview },
		ProveNode: func(context.Context, types.NamespacedName, string) (string, []byte, error) {
			return "", nil, errPreview
		},
		Connect: func(context.Context, hosts.Target) (port.Host, error) { return nil, errPreview },
	})
}

// noMachines are the Machines of nobody: an updater that is asked what it covers looks at none.
type noMachines struct{ k8sd.Machines }

var errPreview = errors.New("nothing is updated by a preview")

// openK8sd opens the k8sd updater to ask it what it covers, for which it reaches nothing.
func openK8sd(config v1alpha1.K8sdConfig) (port.Updater, error) {
	return k8sd.New(k8sd.Options{
		Config: config, Machines: noMachines{},
		Secret:  func(context.Context, types.NamespacedName) (map[string][]byte, error) { return nil, errPreview },
		Kubelet: func(context.Context, types.NamespacedName, string) (string, error) { return "", errPreview },
		Forward: func(context.Context, types.NamespacedName, string) (net.Conn, error) { return nil, errPreview },
	})
}

// open opens an updater to ask it what it covers, which takes nothing but its answer.
func open(_ context.Context, u v1alpha1.Updater) (port.Updater, error) {
	switch {
	case u.Spec.InProcess != nil:
		return openInProcess(*u.Spec.InProcess)
	case u.Spec.Remote == nil:
		return nil, errors.New("it is neither inProcess nor remote")
	case u.Spec.Remote.Protocol == v1alpha1.HandOverProtocol:
		return nil, errors.New("machines are handed over to it, so that a question would be an offer")
	case u.Spec.Remote.Service != nil:
		return nil, &preview.ElsewhereError{Reason: fmt.Sprintf("Service %s/%s is reached only from inside the management cluster", u.Spec.Remote.Service.Namespace, u.Spec.Remote.Service.Name)}
	default:
		opened, err := remote.New(updaters.ClientOptions{
			Name: u.Name, URL: u.Spec.Remote.URL, CABundle: u.Spec.Remote.CABundle, Timeout: time.Duration(u.Spec.Remote.TimeoutSeconds) * time.Second,
		}, time.Now)
		if err != nil {
			return nil, err
		}
		if isLoopback(u.Spec.Remote.URL) {
			return loopbackUpdater{Updater: opened, url: u.Spec.Remote.URL}, nil
		}
		return opened, nil
	}
}

func openInProcess(u v1alpha1.InProcessUpdater) (port.Updater, error) {
	switch {
	case u.Kind == v1alpha1.K8sdUpdater && u.K8sd != nil:
		return openK8sd(*u.K8sd)
	case u.Kind.ForHosts() && u.Host != nil:
		return openHosts(u.Kind, *u.Host)
	default:
		return nil, fmt.Errorf("this release does not know the kind %q", u.Kind)
	}
}

func isLoopback(address string) bool {
	parsed, err := url.Parse(address)
	if err != nil {
		return false
	}
	host := parsed.Hostname()
	ip := net.ParseIP(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || ip != nil && ip.IsLoopback()
}

// loopbackUpdater is one with a loopback address, which means the machine, or the Pod, that the extension runs on: that nobody
// answers here says nothing about it.
type loopbackUpdater struct {
	port.Updater
	url string
}

func (l loopbackUpdater) CanUpdateMachine(ctx context.Context, r *runtimehooksv1.CanUpdateMachineRequest) (cover.Patches, error) {
	patches, err := l.Updater.CanUpdateMachine(ctx, r)
	return patches, l.elsewhere(err)
}

func (l loopbackUpdater) CanUpdateMachineSet(ctx context.Context, r *runtimehooksv1.CanUpdateMachineSetRequest) (cover.Patches, error) {
	patches, err := l.Updater.CanUpdateMachineSet(ctx, r)
	return patches, l.elsewhere(err)
}

func (l loopbackUpdater) elsewhere(err error) error {
	if failed, ok := errors.AsType[*updaters.Error](err); ok && failed.Class == updaters.Unreachable {
		return &preview.ElsewhereError{Reason: l.url + " is an address of the machine that the extension runs on, and here nobody answers there", Err: err}
	}
	return err
}

// noNodes are the nodes of nobody: an updater that is asked what it covers looks at none.
type noNodes struct{ port.Nodes }

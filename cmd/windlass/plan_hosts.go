package main

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/port"
	"github.com/windlass-dev/windlass/internal/updaters/hosts"
)

// openHostsForPreview opens the updater for Linux hosts to ask it what it covers, for which it reaches nothing.
func openHostsForPreview(kind v1alpha1.InProcessKind, config v1alpha1.HostConfig) (port.Updater, error) {
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

package main

import (
	"context"
	"errors"
	"net"

	"k8s.io/apimachinery/pkg/types"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/port"
	"github.com/windlass-dev/windlass/internal/updaters/k8sd"
)

// noMachines are the Machines of nobody: an updater that is asked what it covers looks at none.
type noMachines struct{ k8sd.Machines }

var errPreview = errors.New("nothing is updated by a preview")

// openK8sdForPreview opens the k8sd updater to ask it what it covers, for which it reaches nothing.
func openK8sdForPreview(config v1alpha1.K8sdConfig) (port.Updater, error) {
	return k8sd.New(k8sd.Options{
		Config: config, Machines: noMachines{},
		Secret:  func(context.Context, types.NamespacedName) (map[string][]byte, error) { return nil, errPreview },
		Kubelet: func(context.Context, types.NamespacedName, string) (string, error) { return "", errPreview },
		Forward: func(context.Context, types.NamespacedName, string) (net.Conn, error) { return nil, errPreview },
	})
}

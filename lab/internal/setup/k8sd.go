package setup

import (
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/lab/internal/devplane"
)

// K8sdName is the name of the Updater that the stand-in for k8sd is registered as.
const K8sdName = "k8sd"

// k8sdPort is the port of the stand-in's process at which it is k8sd.
const k8sdPort = "k8sd"

// k8sdChild describes the stand-in for k8sd as a process of a plane. lab is the path of windlass-lab.
func k8sdChild(lab string, duration time.Duration) devplane.Child {
	return devplane.Child{
		Name: UpdaterProcess(K8sdName), Path: lab,
		Args: []string{
			"k8sd", "serve", "--kubeconfig", "$(KUBECONFIG)", "--address", "127.0.0.1:$(PORT_" + k8sdPort + ")",
			"--stats-addr", "127.0.0.1:$(PORT_" + StatsPort + ")", "--duration", duration.String(),
		},
		Ports: []string{k8sdPort, StatsPort}, Ready: devplane.Readiness{TCP: "127.0.0.1:$(PORT_" + StatsPort + ")"},
		Restart: devplane.RestartAlways,
	}
}

// AddK8sd runs the stand-in for k8sd on a plane where the extension runs, and waits until the extension has found that it can be asked. Where it runs
// already, nothing is done, and added is false. When it fails, it leaves nothing of the stand-in behind.
func AddK8sd(ctx context.Context, plane *devplane.Plane, lab string, duration time.Duration) (added bool, err error) {
	status, err := plane.Status(ctx)
	if err != nil || child(status, UpdaterProcess(K8sdName)) != nil {
		return false, err
	}
	err = addUpdater(ctx, plane, K8sdName, func(c client.WithWatch) error {
		if _, err := plane.AddChild(ctx, k8sdChild(lab, duration)); err != nil {
			return fmt.Errorf("starting k8sd: %w", err)
		}
		return awaitUpdater(ctx, c, K8sdName)
	})
	return err == nil, err
}

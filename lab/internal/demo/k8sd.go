package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/internal/devplane"
)

// K8sdName is the name of the Updater that the stand-in for k8sd is registered as.
const K8sdName = "k8sd"

// k8sdPort is the port of the stand-in's process at which it is k8sd.
const k8sdPort = "k8sd"

// K8sdChild describes the stand-in for k8sd as a process of a plane. lab is the path of windlass-lab.
func K8sdChild(lab string, duration time.Duration) devplane.Child {
	return devplane.Child{
		Name: SimulatedUpdater{Name: K8sdName}.Process(), Path: lab,
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
	if err != nil {
		return false, err
	}
	u := SimulatedUpdater{Name: K8sdName}
	if child(status, u.Process()) != nil {
		return false, nil
	}
	c, err := checkNewUpdater(ctx, plane, status, u)
	if err != nil {
		return false, err
	}
	_, err = plane.AddChild(ctx, K8sdChild(lab, duration))
	if err != nil {
		err = fmt.Errorf("starting k8sd: %w", err)
	} else {
		err = await(ctx, c, &v1alpha1.UpdaterList{}, K8sdName, func(u *v1alpha1.Updater) (bool, string) {
			return conditionTrue(u.Status.Conditions, v1alpha1.ReadyCondition)
		})
	}
	if err != nil {
		cleanupCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
		defer cancel()
		return false, errors.Join(err, removeUpdater(cleanupCtx, plane, c, u))
	}
	return true, nil
}

// SetK8sdBehaviour changes how the stand-in for k8sd behaves that runs on a plane.
func SetK8sdBehaviour(ctx context.Context, plane *devplane.Plane, b K8sdBehaviour) error {
	body, err := encodeBehaviour(b)
	if err != nil {
		return err
	}
	return SetBehaviour(ctx, plane, K8sdName, body)
}

package pick

import (
	"fmt"

	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/windlass-dev/windlass/internal/core/cover"
)

// Machine gives the current and the desired objects that a request is about.
func Machine(request *runtimehooksv1.CanUpdateMachineRequest) (current, desired cover.Objects, err error) {
	c, d := &request.Current, &request.Desired
	if current, err = Objects(&c.Machine, c.InfrastructureMachine, c.BootstrapConfig); err != nil {
		return cover.Objects{}, cover.Objects{}, fmt.Errorf("the current objects: %w", err)
	}
	if desired, err = Objects(&d.Machine, d.InfrastructureMachine, d.BootstrapConfig); err != nil {
		return cover.Objects{}, cover.Objects{}, fmt.Errorf("the desired objects: %w", err)
	}
	return current, desired, nil
}

// MachineSet gives the current and the desired objects that a request is about.
func MachineSet(request *runtimehooksv1.CanUpdateMachineSetRequest) (current, desired cover.Objects, err error) {
	c, d := &request.Current, &request.Desired
	if current, err = Objects(&c.MachineSet, c.InfrastructureMachineTemplate, c.BootstrapConfigTemplate); err != nil {
		return cover.Objects{}, cover.Objects{}, fmt.Errorf("the current objects: %w", err)
	}
	if desired, err = Objects(&d.MachineSet, d.InfrastructureMachineTemplate, d.BootstrapConfigTemplate); err != nil {
		return cover.Objects{}, cover.Objects{}, fmt.Errorf("the desired objects: %w", err)
	}
	return current, desired, nil
}

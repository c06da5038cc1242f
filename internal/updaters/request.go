package updaters

import (
	"fmt"

	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/windlass-dev/windlass/internal/inplace/cover"
)

// MachineObjects gives the current and the desired objects that a request is about.
func MachineObjects(request *runtimehooksv1.CanUpdateMachineRequest) (current, desired cover.Objects, err error) {
	c, d := &request.Current, &request.Desired
	if current, err = SpecObjects(&c.Machine, c.InfrastructureMachine, c.BootstrapConfig); err != nil {
		return cover.Objects{}, cover.Objects{}, fmt.Errorf("the current objects: %w", err)
	}
	if desired, err = SpecObjects(&d.Machine, d.InfrastructureMachine, d.BootstrapConfig); err != nil {
		return cover.Objects{}, cover.Objects{}, fmt.Errorf("the desired objects: %w", err)
	}
	return current, desired, nil
}

// MachineSetObjects gives the current and the desired objects that a request is about.
func MachineSetObjects(request *runtimehooksv1.CanUpdateMachineSetRequest) (current, desired cover.Objects, err error) {
	c, d := &request.Current, &request.Desired
	if current, err = SpecObjects(&c.MachineSet, c.InfrastructureMachineTemplate, c.BootstrapConfigTemplate); err != nil {
		return cover.Objects{}, cover.Objects{}, fmt.Errorf("the current objects: %w", err)
	}
	if desired, err = SpecObjects(&d.MachineSet, d.InfrastructureMachineTemplate, d.BootstrapConfigTemplate); err != nil {
		return cover.Objects{}, cover.Objects{}, fmt.Errorf("the desired objects: %w", err)
	}
	return current, desired, nil
}

package topology

import (
	"context"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cluster-api/exp/topology/scope"
)

// ComputeDesired computes the objects that a Cluster should have, at the given versions. It writes nothing; it reads CustomResourceDefinitions
// from the cache and calls the extensions of external patches. The names of objects that do not exist yet are random. The desired Cluster has the
// current annotations: they are the caller's. Its input is not changed, and its result shares no memory that [Objects.Apply] changes.
func (o *Objects) ComputeDesired(ctx context.Context, blueprint *scope.ClusterBlueprint, current *scope.ClusterState, versions Versions) (*scope.ClusterState, error) {
	view, err := computeSettledView(blueprint, current)
	if err != nil {
		return nil, err
	}
	desired, err := o.generator.Generate(ctx, view)
	if err != nil {
		return nil, fmt.Errorf("making objects from ClusterClass %s: %w", name(blueprint.ClusterClass), err)
	}
	// The generator removes or sets the mark of the upgrade's step as its own view of an upgrade demands.
	desired.Cluster.Annotations = maps.Clone(current.Cluster.Annotations)
	if err := setVersions(desired, versions); err != nil {
		return nil, err
	}
	if len(blueprint.ClusterClass.Spec.Patches) == 0 {
		return desired, nil
	}
	if err := o.patches.Apply(ctx, withOwnTemplates(blueprint), desired); err != nil {
		return nil, fmt.Errorf("applying the patches of ClusterClass %s: %w", name(blueprint.ClusterClass), err)
	}
	return desired, nil
}

func setVersions(desired *scope.ClusterState, versions Versions) error {
	if err := unstructured.SetNestedField(desired.ControlPlane.Object.Object, versions.ControlPlane, "spec", "version"); err != nil {
		return fmt.Errorf("setting the version of the %s: %w", desired.ControlPlane.Object.GetKind(), err)
	}
	for name, state := range desired.MachineDeployments {
		worker, ok := versions.MachineDeployments[name]
		if !ok {
			return fmt.Errorf("topology: no version was given for MachineDeployment %q", name)
		}
		state.Object.Spec.Template.Spec.Version = worker.Version
	}
	for name, state := range desired.MachinePools {
		worker, ok := versions.MachinePools[name]
		if !ok {
			return fmt.Errorf("topology: no version was given for MachinePool %q", name)
		}
		state.Object.Spec.Template.Spec.Version = worker.Version
	}
	return nil
}

// withOwnTemplates copies the templates of a blueprint: the patch engine writes labels and annotations into them.
func withOwnTemplates(blueprint *scope.ClusterBlueprint) *scope.ClusterBlueprint {
	own := *blueprint
	own.InfrastructureClusterTemplate = blueprint.InfrastructureClusterTemplate.DeepCopy()
	controlPlane := *blueprint.ControlPlane
	controlPlane.Template = controlPlane.Template.DeepCopy()
	controlPlane.InfrastructureMachineTemplate = controlPlane.InfrastructureMachineTemplate.DeepCopy()
	own.ControlPlane = &controlPlane
	own.MachineDeployments = make(map[string]*scope.MachineDeploymentBlueprint, len(blueprint.MachineDeployments))
	for name, class := range blueprint.MachineDeployments {
		copied := *class
		copied.BootstrapTemplate = class.BootstrapTemplate.DeepCopy()
		copied.InfrastructureMachineTemplate = class.InfrastructureMachineTemplate.DeepCopy()
		own.MachineDeployments[name] = &copied
	}
	own.MachinePools = make(map[string]*scope.MachinePoolBlueprint, len(blueprint.MachinePools))
	for name, class := range blueprint.MachinePools {
		copied := *class
		copied.BootstrapTemplate = class.BootstrapTemplate.DeepCopy()
		copied.InfrastructureMachinePoolTemplate = class.InfrastructureMachinePoolTemplate.DeepCopy()
		own.MachinePools[name] = &copied
	}
	return &own
}

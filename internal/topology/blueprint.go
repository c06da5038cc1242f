package topology

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/exp/topology/scope"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ReadBlueprint reads the templates that the ClusterClass of a Cluster refers to. It changes neither.
func (o *Objects) ReadBlueprint(ctx context.Context, cluster *clusterv1.Cluster, class *clusterv1.ClusterClass) (*scope.ClusterBlueprint, error) {
	blueprint := &scope.ClusterBlueprint{
		Topology:           cluster.Spec.Topology,
		ClusterClass:       class,
		ControlPlane:       &scope.ControlPlaneBlueprint{},
		MachineDeployments: make(map[string]*scope.MachineDeploymentBlueprint, len(class.Spec.Workers.MachineDeployments)),
		MachinePools:       make(map[string]*scope.MachinePoolBlueprint, len(class.Spec.Workers.MachinePools)),
	}
	var err error
	if blueprint.InfrastructureClusterTemplate, err = o.classTemplate(ctx, class, class.Spec.Infrastructure.TemplateRef); err != nil {
		return nil, fmt.Errorf("reading the infrastructure of ClusterClass %s: %w", name(class), err)
	}
	controlPlane := &class.Spec.ControlPlane
	if blueprint.ControlPlane.Template, err = o.classTemplate(ctx, class, controlPlane.TemplateRef); err != nil {
		return nil, fmt.Errorf("reading the control plane of ClusterClass %s: %w", name(class), err)
	}
	if blueprint.HasControlPlaneInfrastructureMachine() {
		if blueprint.ControlPlane.InfrastructureMachineTemplate, err = o.classTemplate(ctx, class, controlPlane.MachineInfrastructure.TemplateRef); err != nil {
			return nil, fmt.Errorf("reading the control plane machines of ClusterClass %s: %w", name(class), err)
		}
	}
	if blueprint.HasControlPlaneMachineHealthCheck() {
		blueprint.ControlPlane.HealthCheck = controlPlane.HealthCheck
	}
	for _, worker := range class.Spec.Workers.MachineDeployments {
		read := &scope.MachineDeploymentBlueprint{Metadata: *worker.Metadata.DeepCopy(), HealthCheck: worker.HealthCheck}
		read.InfrastructureMachineTemplate, read.BootstrapTemplate, err = o.workerTemplates(ctx, class, worker.Infrastructure.TemplateRef, worker.Bootstrap.TemplateRef)
		if err != nil {
			return nil, fmt.Errorf("reading MachineDeployment class %q of ClusterClass %s: %w", worker.Class, name(class), err)
		}
		blueprint.MachineDeployments[worker.Class] = read
	}
	for _, worker := range class.Spec.Workers.MachinePools {
		read := &scope.MachinePoolBlueprint{Metadata: *worker.Metadata.DeepCopy()}
		read.InfrastructureMachinePoolTemplate, read.BootstrapTemplate, err = o.workerTemplates(ctx, class, worker.Infrastructure.TemplateRef, worker.Bootstrap.TemplateRef)
		if err != nil {
			return nil, fmt.Errorf("reading MachinePool class %q of ClusterClass %s: %w", worker.Class, name(class), err)
		}
		blueprint.MachinePools[worker.Class] = read
	}
	return blueprint, nil
}

func (o *Objects) workerTemplates(ctx context.Context, class *clusterv1.ClusterClass, infrastructureRef, bootstrapRef clusterv1.ClusterClassTemplateReference) (infrastructure, bootstrap *unstructured.Unstructured, err error) {
	if infrastructure, err = o.classTemplate(ctx, class, infrastructureRef); err != nil {
		return nil, nil, err
	}
	bootstrap, err = o.classTemplate(ctx, class, bootstrapRef)
	return infrastructure, bootstrap, err
}

func (o *Objects) classTemplate(ctx context.Context, class *clusterv1.ClusterClass, ref clusterv1.ClusterClassTemplateReference) (*unstructured.Unstructured, error) {
	return o.get(ctx, ref.ToObjectReference(class.Namespace))
}

// get reads the object that a reference names.
func (o *Objects) get(ctx context.Context, ref *corev1.ObjectReference) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion(ref.APIVersion)
	object.SetKind(ref.Kind)
	if err := o.client.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, object); err != nil {
		return nil, fmt.Errorf("getting %s %s/%s: %w", ref.Kind, ref.Namespace, ref.Name, err)
	}
	return object, nil
}

// name is an object's namespace and name, for messages.
func name(object client.Object) string { return client.ObjectKeyFromObject(object).String() }

package porttest

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/windlass-dev/windlass/api/v1alpha1"
)

// The versions of the machine in requests: the one that it has, and those that it is updated to.
const (
	UpdaterFrom = "v1.31.4"
	UpdaterTo   = "v1.32.1"
	UpdaterNext = "v1.33.0"
)

// UpdaterCluster is the name of the machine's cluster.
const UpdaterCluster = "cluster"

// CanUpdateMachine is a request about a change of version.
func CanUpdateMachine(machine types.NamespacedName, from, to string) *runtimehooksv1.CanUpdateMachineRequest {
	objects := func(version string) runtimehooksv1.CanUpdateMachineRequestObjects {
		return runtimehooksv1.CanUpdateMachineRequestObjects{
			Machine:               *updaterMachine(machine, version),
			InfrastructureMachine: updaterObject("infrastructure.cluster.x-k8s.io/v1beta2", "DevMachine", machine, map[string]any{"image": "base"}),
			BootstrapConfig:       updaterObject("bootstrap.cluster.x-k8s.io/v1beta2", "KubeadmConfig", machine, map[string]any{"format": "cloud-config"}),
		}
	}
	return &runtimehooksv1.CanUpdateMachineRequest{Current: objects(from), Desired: objects(to)}
}

// CanUpdateMachineSet is a request about a change of version.
func CanUpdateMachineSet(machineSet types.NamespacedName, from, to string) *runtimehooksv1.CanUpdateMachineSetRequest {
	objects := func(version string) runtimehooksv1.CanUpdateMachineSetRequestObjects {
		set := clusterv1.MachineSet{}
		set.APIVersion, set.Kind = clusterv1.GroupVersion.String(), "MachineSet"
		set.Namespace, set.Name, set.Spec.ClusterName = machineSet.Namespace, machineSet.Name, UpdaterCluster
		set.Spec.Template.Spec = updaterMachine(machineSet, version).Spec
		template := func(spec map[string]any) map[string]any {
			return map[string]any{"template": map[string]any{"spec": spec}}
		}
		return runtimehooksv1.CanUpdateMachineSetRequestObjects{
			MachineSet: set,
			InfrastructureMachineTemplate: updaterObject("infrastructure.cluster.x-k8s.io/v1beta2", "DevMachineTemplate", machineSet,
				template(map[string]any{"image": "base"})),
			BootstrapConfigTemplate: updaterObject("bootstrap.cluster.x-k8s.io/v1beta2", "KubeadmConfigTemplate", machineSet,
				template(map[string]any{"format": "cloud-config"})),
		}
	}
	return &runtimehooksv1.CanUpdateMachineSetRequest{Current: objects(from), Desired: objects(to)}
}

// UpdateMachine is a request to update a machine.
func UpdateMachine(machine types.NamespacedName, to, operation string) *runtimehooksv1.UpdateMachineRequest {
	request := &runtimehooksv1.UpdateMachineRequest{Desired: runtimehooksv1.UpdateMachineRequestObjects{
		Machine:               *updaterMachine(machine, to),
		InfrastructureMachine: updaterObject("infrastructure.cluster.x-k8s.io/v1beta2", "DevMachine", machine, map[string]any{"image": "base"}),
		BootstrapConfig:       updaterObject("bootstrap.cluster.x-k8s.io/v1beta2", "KubeadmConfig", machine, map[string]any{"format": "cloud-config"}),
	}}
	request.Desired.Machine.Annotations = map[string]string{v1alpha1.OperationIDAnnotation: operation}
	return request
}

func updaterMachine(name types.NamespacedName, version string) *clusterv1.Machine {
	machine := &clusterv1.Machine{}
	machine.APIVersion, machine.Kind = clusterv1.GroupVersion.String(), "Machine"
	machine.Namespace, machine.Name = name.Namespace, name.Name
	machine.Spec.ClusterName, machine.Spec.Version, machine.Spec.ProviderID = UpdaterCluster, version, "test:///"+name.Name
	return machine
}

func updaterObject(apiVersion, kind string, name types.NamespacedName, spec map[string]any) runtime.RawExtension {
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind, "spec": spec}}
	object.SetNamespace(name.Namespace)
	object.SetName(name.Name)
	return runtime.RawExtension{Object: object}
}

package topology

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/exp/topology/scope"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var errSettled = errors.New("topology: upstream's generator wanted to act on a settled view; this version of Cluster API is not supported")

// settledClient is the generator's client. It lists no Machines, so that no group counts as upgrading, and refuses to write.
type settledClient struct{ client.Client }

func (settledClient) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }

func (settledClient) Patch(context.Context, client.Object, client.Patch, ...client.PatchOption) error {
	return errSettled
}

// noWorkloadCluster is the generator's access to workload clusters: there is none.
type noWorkloadCluster struct{ clustercache.ClusterCache }

func (noWorkloadCluster) GetClient(context.Context, client.ObjectKey) (client.Client, error) {
	return nil, errSettled
}

// computeSettledView returns what upstream's generator is shown: see the package's documentation. Its input is not changed. The view
// shares memory with it where the generator only reads.
func computeSettledView(blueprint *scope.ClusterBlueprint, current *scope.ClusterState) (*scope.Scope, error) {
	version := blueprint.Topology.Version
	class := *blueprint.ClusterClass
	class.Spec.Patches = nil
	class.Spec.Upgrade = clusterv1.ClusterClassUpgrade{}
	class.Spec.KubernetesVersions = nil
	unpatched := *blueprint
	unpatched.ClusterClass = &class

	view := scope.New(current.Cluster)
	view.Blueprint = &unpatched
	view.Current.InfrastructureCluster = current.InfrastructureCluster
	view.Current.ControlPlane = &scope.ControlPlaneState{}
	if current.ControlPlane != nil {
		*view.Current.ControlPlane = *current.ControlPlane
	}
	if object := view.Current.ControlPlane.Object; object != nil {
		settled, err := settledControlPlane(object, version)
		if err != nil {
			return nil, err
		}
		view.Current.ControlPlane.Object = settled
	}
	view.Current.MachineDeployments = make(scope.MachineDeploymentsStateMap, len(current.MachineDeployments))
	for name, state := range current.MachineDeployments {
		settled, object := *state, *state.Object
		object.Spec.Template.Spec.Version = version
		object.Status = clusterv1.MachineDeploymentStatus{}
		settled.Object = &object
		view.Current.MachineDeployments[name] = &settled
	}
	view.Current.MachinePools = make(scope.MachinePoolsStateMap, len(current.MachinePools))
	for name, state := range current.MachinePools {
		settled, object := *state, *state.Object
		object.Spec.Template.Spec.Version = version
		object.Status = clusterv1.MachinePoolStatus{}
		settled.Object = &object
		view.Current.MachinePools[name] = &settled
	}
	return view, nil
}

// settledControlPlane copies what differs: the object's own level and that of its spec.
func settledControlPlane(object *unstructured.Unstructured, version string) (*unstructured.Unstructured, error) {
	spec, _, err := unstructured.NestedFieldNoCopy(object.Object, "spec")
	fields, ok := spec.(map[string]any)
	if err != nil || !ok {
		return nil, fmt.Errorf("%s %s has no spec", object.GetKind(), name(object))
	}
	fields = maps.Clone(fields)
	fields["version"] = version
	settled := &unstructured.Unstructured{Object: maps.Clone(object.Object)}
	settled.Object["spec"] = fields
	delete(settled.Object, "status")
	return settled, nil
}

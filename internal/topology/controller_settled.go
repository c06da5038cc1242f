package topology

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/exp/topology/scope"

	"github.com/windlass-dev/windlass/pkg/version"
)

// settledFor is how long "nothing to write" is believed. What it does not depend on, such as defaults that a newer provider brings, is seen then.
const settledFor = 10 * time.Minute

// fingerprintInputs covers everything that desired objects are made from and compared with: of each
// object its metadata and spec. The generation would not do in place of the spec: an etcd that is
// restored repeats one. Statuses are not among it.
func fingerprintInputs(blueprint *scope.ClusterBlueprint, current *scope.ClusterState, versions Versions, holdControlPlane bool, stamp version.Version) (string, error) {
	hash := sha256.New()
	encoder := json.NewEncoder(hash)
	for _, part := range []any{versions, holdControlPlane, stamp.String()} {
		if err := encoder.Encode(part); err != nil {
			return "", fmt.Errorf("computing what the topology's objects depend on: %w", err)
		}
	}
	for _, object := range involved(blueprint, current) {
		facts := []any{object.GetUID(), readMetadata(object), specOf(object)}
		if err := encoder.Encode(facts); err != nil {
			return "", fmt.Errorf("computing what the topology's objects depend on: %w", err)
		}
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// specOf returns the spec of an object that involved lists.
func specOf(object metav1.Object) any {
	switch o := object.(type) {
	case *unstructured.Unstructured:
		return o.Object["spec"]
	case *clusterv1.Cluster:
		return o.Spec
	case *clusterv1.ClusterClass:
		return o.Spec
	case *clusterv1.MachineDeployment:
		return o.Spec
	case *clusterv1.MachinePool:
		return o.Spec
	case *clusterv1.MachineHealthCheck:
		return o.Spec
	}
	return nil
}

// involved lists all objects in a stable order; one that does not exist is an empty one.
func involved(blueprint *scope.ClusterBlueprint, current *scope.ClusterState) []metav1.Object {
	var objects []metav1.Object
	add := func(all ...*unstructured.Unstructured) {
		for _, object := range all {
			if object == nil {
				object = &unstructured.Unstructured{}
			}
			objects = append(objects, object)
		}
	}
	addCheck := func(check *clusterv1.MachineHealthCheck) {
		if check == nil {
			check = &clusterv1.MachineHealthCheck{}
		}
		objects = append(objects, check)
	}
	objects = append(objects, blueprint.ClusterClass, current.Cluster)
	add(blueprint.InfrastructureClusterTemplate, blueprint.ControlPlane.Template, blueprint.ControlPlane.InfrastructureMachineTemplate,
		current.InfrastructureCluster, current.ControlPlane.Object, current.ControlPlane.InfrastructureMachineTemplate)
	addCheck(current.ControlPlane.MachineHealthCheck)
	for _, name := range slices.Sorted(maps.Keys(blueprint.MachineDeployments)) {
		add(blueprint.MachineDeployments[name].BootstrapTemplate, blueprint.MachineDeployments[name].InfrastructureMachineTemplate)
	}
	for _, name := range slices.Sorted(maps.Keys(blueprint.MachinePools)) {
		add(blueprint.MachinePools[name].BootstrapTemplate, blueprint.MachinePools[name].InfrastructureMachinePoolTemplate)
	}
	for _, name := range slices.Sorted(maps.Keys(current.MachineDeployments)) {
		md := current.MachineDeployments[name]
		objects = append(objects, md.Object)
		add(md.BootstrapTemplate, md.InfrastructureMachineTemplate)
		addCheck(md.MachineHealthCheck)
	}
	for _, name := range slices.Sorted(maps.Keys(current.MachinePools)) {
		mp := current.MachinePools[name]
		objects = append(objects, mp.Object)
		add(mp.BootstrapObject, mp.InfrastructureMachinePoolObject)
	}
	return objects
}

package topology

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/core/reconcilers/topology/cluster/structuredmerge"
	"sigs.k8s.io/cluster-api/exp/topology/scope"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Field managers in the managed fields of objects, besides our own.
const (
	// beforeFirstApply is to whom the API server gives all fields of an object without managed fields, when somebody applies to it.
	beforeFirstApply = "before-first-apply"
	// updateManager is the stock manager's when it updates and patches.
	updateManager = "manager"
)

// RepairOwnership gives objects back their managed fields. The API server may lose those of an object (kubernetes/kubernetes#136919). The next
// apply would then make it name another owner of every field, and a field that leaves the class would stay in the object for ever. The stock
// manager repairs the same objects in the same way. Of the Cluster it also ends what earlier versions of the stock manager have applied.
//
// What was repaired is in the result, also when an error ended it early. If there is something, current is out of date: the caller lets its
// cache catch up and begins anew. A conflict means the same.
func (o *Objects) RepairOwnership(ctx context.Context, current *scope.ClusterState) (Result, error) {
	var result Result
	for _, object := range topologyObjects(current) {
		kind, err := o.client.GroupVersionKindFor(object)
		if err != nil {
			return result, fmt.Errorf("repairing the managed fields of %s: %w", name(object), err)
		}
		repaired, err := computeOwners(object, kind)
		if err != nil {
			return result, fmt.Errorf("repairing the managed fields of %s %s: %w", kind.Kind, name(object), err)
		}
		if repaired == nil {
			continue
		}
		change, err := o.writeOwners(ctx, object, kind, repaired)
		if err != nil {
			return result, fmt.Errorf("repairing the managed fields of %s %s: %w", kind.Kind, name(object), err)
		}
		result.Changes = append(result.Changes, change)
	}
	return result, nil
}

// topologyObjects lists the Cluster and the objects that are applied for it, as far as they exist.
func topologyObjects(current *scope.ClusterState) []client.Object {
	objects := []client.Object{current.Cluster}
	add := func(all ...*unstructured.Unstructured) {
		for _, object := range all {
			if object != nil {
				objects = append(objects, object)
			}
		}
	}
	addCheck := func(check *clusterv1.MachineHealthCheck) {
		if check != nil {
			objects = append(objects, check)
		}
	}
	add(current.InfrastructureCluster, current.ControlPlane.Object, current.ControlPlane.InfrastructureMachineTemplate)
	addCheck(current.ControlPlane.MachineHealthCheck)
	for _, group := range slices.Sorted(maps.Keys(current.MachineDeployments)) {
		md := current.MachineDeployments[group]
		objects = append(objects, md.Object)
		add(md.InfrastructureMachineTemplate, md.BootstrapTemplate)
		addCheck(md.MachineHealthCheck)
	}
	for _, group := range slices.Sorted(maps.Keys(current.MachinePools)) {
		mp := current.MachinePools[group]
		objects = append(objects, mp.Object)
		add(mp.InfrastructureMachinePoolObject, mp.BootstrapObject)
	}
	return objects
}

// computeOwners returns the managed fields that an object should have; nil if they are as they should be. There is always one entry left, as
// otherwise the API server would invent an owner again.
func computeOwners(object client.Object, kind schema.GroupVersionKind) ([]metav1.ManagedFieldsEntry, error) {
	stale := []string{beforeFirstApply}
	_, isCluster := object.(*clusterv1.Cluster)
	if isCluster {
		// A Cluster is patched, not applied.
		stale = append(stale, structuredmerge.TopologyManagerName)
	}
	var kept []metav1.ManagedFieldsEntry
	ours := false
	entries := object.GetManagedFields()
	for _, entry := range entries {
		if !slices.Contains(stale, entry.Manager) {
			kept = append(kept, entry)
			ours = ours || entry.Manager == structuredmerge.TopologyManagerName
		}
	}
	switch {
	case len(entries) > 0 && len(kept) == len(entries):
		return nil, nil
	case isCluster && len(kept) > 0, ours:
		return kept, nil
	}
	seed := metav1.ManagedFieldsEntry{
		Manager: structuredmerge.TopologyManagerName, Operation: metav1.ManagedFieldsOperationApply,
		APIVersion: kind.GroupVersion().String(), FieldsType: "FieldsV1",
	}
	if isCluster {
		seed.Manager, seed.Operation = updateManager, metav1.ManagedFieldsOperationUpdate
	}
	encoded, err := json.Marshal(computeOwnedFields(object, kind.GroupKind()))
	if err != nil {
		return nil, fmt.Errorf("encoding managed fields: %w", err)
	}
	seed.FieldsV1 = metav1.NewFieldsV1(string(encoded))
	return append(kept, seed), nil
}

// writeOwners writes an object's managed fields, unless the object has changed since it was read.
func (o *Objects) writeOwners(ctx context.Context, object client.Object, kind schema.GroupVersionKind, owners []metav1.ManagedFieldsEntry) (Change, error) {
	patch, err := json.Marshal([]map[string]any{
		{"op": "add", "path": "/metadata/managedFields", "value": owners},
		{"op": "replace", "path": "/metadata/resourceVersion", "value": object.GetResourceVersion()},
	})
	if err != nil {
		return Change{}, fmt.Errorf("encoding the patch: %w", err)
	}
	written, ok := object.DeepCopyObject().(client.Object)
	if !ok {
		return Change{}, fmt.Errorf("%T is not an API object", object)
	}
	if err := o.client.Patch(ctx, written, client.RawPatch(types.JSONPatchType, patch)); err != nil {
		return Change{}, fmt.Errorf("patching: %w", err)
	}
	ctrl.LoggerFrom(ctx).Info("managed fields that the API server had lost are repaired", "object", kind.Kind, "name", name(object))
	return Change{Kind: kind, Key: client.ObjectKeyFromObject(object), ResourceVersion: written.GetResourceVersion(), Verb: Updated}, nil
}

// kubeadmArguments are the lists of command line arguments in a KubeadmControlPlane. They are the fields that most often leave a class, when a new
// Kubernetes version does not know an argument any more; a component does not start with one that stays.
func kubeadmArguments() [][]string {
	return [][]string{
		{"spec", "kubeadmConfigSpec", "clusterConfiguration", "apiServer", "extraArgs"},
		{"spec", "kubeadmConfigSpec", "clusterConfiguration", "controllerManager", "extraArgs"},
		{"spec", "kubeadmConfigSpec", "clusterConfiguration", "scheduler", "extraArgs"},
		{"spec", "kubeadmConfigSpec", "clusterConfiguration", "etcd", "local", "extraArgs"},
		{"spec", "kubeadmConfigSpec", "initConfiguration", "nodeRegistration", "kubeletExtraArgs"},
		{"spec", "kubeadmConfigSpec", "joinConfiguration", "nodeRegistration", "kubeletExtraArgs"},
	}
}

// computeOwnedFields are the fields that an owner is given of an object of which it is not known any more who has set what: arguments of kubeadm, so
// that the next apply can already remove them. That apply owns everything else again. An entry must own something, or it is dropped: where there are
// no arguments it is the name, which is no owner's, and which the entry loses with its manager's next write.
func computeOwnedFields(object client.Object, kind schema.GroupKind) map[string]any {
	fields := map[string]any{}
	content, ok := object.(*unstructured.Unstructured)
	if ok && kind == (schema.GroupKind{Group: "controlplane.cluster.x-k8s.io", Kind: "KubeadmControlPlane"}) {
		for _, path := range kubeadmArguments() {
			// A path that meets something else than a map has no arguments.
			if arguments, found, err := unstructured.NestedFieldNoCopy(content.Object, path...); found && err == nil {
				addFields(fields, path, argumentFields(arguments))
			}
		}
	}
	if len(fields) == 0 {
		addFields(fields, []string{"metadata"}, map[string]any{"f:name": map[string]any{}})
	}
	return fields
}

// addFields puts what is owned below a path to the rest, in the form of FieldsV1.
func addFields(fields map[string]any, path []string, owned map[string]any) {
	if len(owned) == 0 {
		return
	}
	for _, field := range path {
		inner, ok := fields["f:"+field].(map[string]any)
		if !ok {
			inner = map[string]any{}
			fields["f:"+field] = inner
		}
		fields = inner
	}
	maps.Copy(fields, owned)
}

// argumentFields are the entries of a list whose keys are name and value (v1beta2), or of a map (v1beta1), in the form of FieldsV1.
func argumentFields(arguments any) map[string]any {
	owned := map[string]any{}
	switch all := arguments.(type) {
	case map[string]any:
		for argument := range all {
			owned["f:"+argument] = map[string]any{}
		}
	case []any:
		for _, item := range all {
			argument, _ := item.(map[string]any)
			argumentName, hasName := argument["name"].(string)
			value, hasValue := argument["value"].(string)
			if !hasName || !hasValue {
				continue
			}
			key, err := json.Marshal(map[string]string{"name": argumentName, "value": value})
			if err != nil {
				continue
			}
			owned["k:"+string(key)] = map[string]any{".": map[string]any{}, "f:name": map[string]any{}, "f:value": map[string]any{}}
		}
	}
	return owned
}

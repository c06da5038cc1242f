package controllers

import (
	"context"
	"fmt"
	"maps"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/contract"
	"github.com/windlass-dev/windlass/internal/inplace/engine"
	"github.com/windlass-dev/windlass/internal/snapshot"
	"github.com/windlass-dev/windlass/internal/updatepolicy"
)

// kubeadmControlPlane is the group and kind of Cluster API's own control plane provider.
var kubeadmControlPlane = schema.GroupKind{Group: "controlplane.cluster.x-k8s.io", Kind: "KubeadmControlPlane"}

// readGroups reads all groups of a namespace. A cluster that is being deleted has none: nothing is updated in it any more.
func (r *UpdatePolicyReconciler) readGroups(ctx context.Context, namespace string) ([]updatepolicy.State, error) {
	var clusters clusterv1.ClusterList
	if err := r.Client.List(ctx, &clusters, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing Clusters in %s: %w", namespace, err)
	}
	byName := make(map[string]*clusterv1.Cluster, len(clusters.Items))
	controlPlanes := make(map[types.NamespacedName]struct{}, len(clusters.Items))
	var groups []updatepolicy.State
	for i := range clusters.Items {
		c := &clusters.Items[i]
		if !c.DeletionTimestamp.IsZero() {
			continue
		}
		byName[c.Name] = c
		if !c.Spec.ControlPlaneRef.IsDefined() {
			continue
		}
		state, err := r.readControlPlane(ctx, c)
		if err != nil {
			return nil, err
		}
		groups = append(groups, state)
		controlPlanes[types.NamespacedName{Namespace: namespace, Name: c.Spec.ControlPlaneRef.Name}] = struct{}{}
	}
	maps.DeleteFunc(r.replicas, func(key types.NamespacedName, _ replicas) bool {
		_, exists := controlPlanes[key]
		return key.Namespace == namespace && !exists
	})
	deployments := metav1.PartialObjectMetadataList{}
	deployments.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("MachineDeploymentList"))
	if err := r.Client.List(ctx, &deployments, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing MachineDeployments in %s: %w", namespace, err)
	}
	for i := range deployments.Items {
		d := &deployments.Items[i]
		// Cluster API's webhook sets the label from spec.clusterName.
		c := byName[d.Labels[clusterv1.ClusterNameLabel]]
		if c == nil || !d.DeletionTimestamp.IsZero() {
			continue
		}
		groups = append(groups, updatepolicy.State{Group: snapshot.MachineDeploymentGroup(c, d)})
	}
	return groups, nil
}

// readControlPlane reads a cluster's control plane object. One that does not exist, or whose kind is not installed yet, has no
// labels and unknown replicas.
func (r *UpdatePolicyReconciler) readControlPlane(ctx context.Context, c *clusterv1.Cluster) (updatepolicy.State, error) {
	ref := c.Spec.ControlPlaneRef
	kind := schema.GroupKind{Group: ref.APIGroup, Kind: ref.Kind}
	state := updatepolicy.State{Group: snapshot.MissingControlPlaneGroup(c), Kubeadm: kind == kubeadmControlPlane}
	mapping, err := r.Mapper.RESTMapping(kind)
	if meta.IsNoMatchError(err) {
		return state, nil
	}
	if err != nil {
		return state, fmt.Errorf("finding the version of %s, the kind of the control plane of Cluster %s: %w", kind, client.ObjectKeyFromObject(c), err)
	}
	if err := r.watches.add(ctx, mapping.GroupVersionKind); err != nil {
		return state, fmt.Errorf("the control plane of Cluster %s: %w", client.ObjectKeyFromObject(c), err)
	}
	object := capi.MetadataOf(mapping.GroupVersionKind)
	key := client.ObjectKey{Namespace: c.Namespace, Name: ref.Name}
	bounded, cancel := context.WithTimeout(ctx, contract.ReadTimeout)
	defer cancel()
	err = r.Client.Get(bounded, key, object)
	if apierrors.IsNotFound(err) {
		return state, nil
	}
	if err != nil {
		return state, fmt.Errorf("reading the metadata of %s %s: %w", kind.Kind, key, err)
	}
	state.Group = snapshot.ControlPlaneGroup(c, object)
	if state.Kubeadm {
		state.Replicas, err = r.readReplicas(ctx, object)
	}
	return state, err
}

// replicas are those of a control plane object at a generation.
type replicas struct {
	uid        types.UID
	generation int64
	value      *int64
}

// readReplicas reads spec.replicas from the API server, once for each generation of the object. A
// resourceVersion would change with each write of the status. An etcd that is restored repeats a
// generation, and ends the process.
func (r *UpdatePolicyReconciler) readReplicas(ctx context.Context, known *metav1.PartialObjectMetadata) (*int64, error) {
	key := client.ObjectKeyFromObject(known)
	if read := r.replicas[key]; read.uid == known.UID && read.generation == known.Generation {
		return read.value, nil
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(known.GroupVersionKind())
	if err := r.Live.Get(ctx, key, object); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil //nolint:nilnil // It was deleted meanwhile; replicas that are not known are nil.
		}
		return nil, fmt.Errorf("reading %s %s: %w", known.Kind, key, err)
	}
	var value *int64
	if n, found, err := unstructured.NestedInt64(object.Object, "spec", "replicas"); err == nil && found {
		value = &n
	}
	if r.replicas == nil {
		r.replicas = map[types.NamespacedName]replicas{}
	}
	r.replicas[key] = replicas{
		uid: object.GetUID(), generation: object.GetGeneration(), value: value,
	}
	return value, nil
}

// readNamespaceLabels reads the labels of a namespace; one that does not exist has none.
func (r *UpdatePolicyReconciler) readNamespaceLabels(ctx context.Context, namespace string) (map[string]string, error) {
	labels, err := engine.NamespaceLabels(ctx, r.Client, namespace)
	return labels, client.IgnoreNotFound(err)
}

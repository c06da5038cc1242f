package update

import (
	"context"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/engine/ask"
	"github.com/windlass-dev/windlass/internal/snapshot"
	"github.com/windlass-dev/windlass/internal/updatepolicy"
)

var (
	machineDeploymentKind = clusterv1.GroupVersion.WithKind("MachineDeployment")
	machineSetKind        = clusterv1.GroupVersion.WithKind("MachineSet")
)

// owner is the object that holds a group of machines: a MachineDeployment, a MachineSet without one, or a control plane.
type owner struct {
	object *metav1.PartialObjectMetadata
	group  updatepolicy.Group
	// cluster is the metadata of the Cluster.
	cluster *metav1.PartialObjectMetadata
}

func (o owner) blockedObject() blockedObject {
	return blockedObject{kind: o.object.GroupVersionKind(), key: client.ObjectKeyFromObject(o.object)}
}

// readOwner finds the group that an object with these labels and owner references belongs to.
func (e *Engine) readOwner(ctx context.Context, meta metav1.Object) (owner, error) {
	labels := meta.GetLabels()
	clusterName := labels[clusterv1.ClusterNameLabel]
	if clusterName == "" {
		return owner{}, fmt.Errorf("%s/%s has no label %s, so its cluster is not known", meta.GetNamespace(), meta.GetName(), clusterv1.ClusterNameLabel)
	}
	cluster := metadataOf(clusterv1.GroupVersion.WithKind("Cluster"))
	if err := e.Client.Get(ctx, types.NamespacedName{Namespace: meta.GetNamespace(), Name: clusterName}, cluster); err != nil {
		return owner{}, fmt.Errorf("reading Cluster %s/%s: %w", meta.GetNamespace(), clusterName, err)
	}
	gvk, name, err := ownerReference(meta)
	if err != nil {
		return owner{}, err
	}
	reader := client.Reader(e.Client)
	if gvk != machineDeploymentKind && gvk != machineSetKind {
		// A tenant chose the kind. A cache of it may never sync.
		reader = e.Live
	}
	object := metadataOf(gvk)
	if err := reader.Get(ctx, types.NamespacedName{Namespace: meta.GetNamespace(), Name: name}, object); err != nil {
		return owner{}, fmt.Errorf("reading %s %s/%s: %w", gvk.Kind, meta.GetNamespace(), name, err)
	}
	group := snapshot.MachineDeploymentGroup(cluster, object)
	if _, ok := labels[clusterv1.MachineControlPlaneLabel]; ok {
		group = snapshot.ControlPlaneGroup(cluster, object)
	}
	return owner{object: object, group: group, cluster: cluster}, nil
}

// ownerReference returns kind and name of the object that holds the group of a Machine or MachineSet.
func ownerReference(meta metav1.Object) (schema.GroupVersionKind, string, error) {
	if name := meta.GetLabels()[clusterv1.MachineDeploymentNameLabel]; name != "" {
		return machineDeploymentKind, name, nil
	}
	ref := metav1.GetControllerOf(meta)
	if ref == nil {
		return schema.GroupVersionKind{}, "", fmt.Errorf("%s/%s has no controller, so it belongs to no group of machines", meta.GetNamespace(), meta.GetName())
	}
	return schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind), ref.Name, nil
}

// selectPolicy returns the policy that counts for a group.
func (e *Engine) selectPolicy(ctx context.Context, g updatepolicy.Group) (updatepolicy.Selected, error) {
	var policies v1alpha1.UpdatePolicyList
	if err := e.Client.List(ctx, &policies, client.InNamespace(g.Namespace)); err != nil {
		return updatepolicy.Selected{}, fmt.Errorf("listing UpdatePolicies in %s: %w", g.Namespace, err)
	}
	selected, err := updatepolicy.Select(policies.Items, g)
	if err != nil {
		return updatepolicy.Selected{}, refused(v1alpha1.PolicyConflictReason, "%v", err)
	}
	return selected, nil
}

// policyNamed returns a policy by its name.
func (r *run) policyNamed(ctx context.Context, name string) (updatepolicy.Selected, error) {
	var policies v1alpha1.UpdatePolicyList
	if err := r.Client.List(ctx, &policies, client.InNamespace(r.owner.group.Namespace)); err != nil {
		return updatepolicy.Selected{}, fmt.Errorf("listing UpdatePolicies in %s: %w", r.owner.group.Namespace, err)
	}
	policies.Items = slices.DeleteFunc(policies.Items, func(p v1alpha1.UpdatePolicy) bool { return p.Name != name })
	selected, err := updatepolicy.Select(policies.Items, r.owner.group)
	if err != nil {
		return updatepolicy.Selected{}, refused(v1alpha1.PolicyConflictReason, "%v", err)
	}
	return selected, nil
}

// selectUpdaters returns the updaters for machines with these labels, in order.
func (e *Engine) selectUpdaters(ctx context.Context, namespace string, labels map[string]string) ([]v1alpha1.Updater, error) {
	found, err := ask.SelectUpdaters(ctx, e.Client, namespace, labels)
	if invalid, ok := errors.AsType[*updatepolicy.InvalidError](err); ok {
		return nil, refused(v1alpha1.UpdaterErrorReason, "%v", invalid)
	}
	return found, err
}

func metadataOf(gvk schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(gvk)
	return object
}

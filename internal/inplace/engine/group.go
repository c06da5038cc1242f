package engine

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/contract"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/snapshot"
)

var (
	machineKind    = clusterv1.GroupVersion.WithKind("Machine")
	deploymentKind = capi.MachineDeploymentKind
)

// owner is the object that holds a group of machines: a MachineDeployment or a control plane.
type owner struct {
	object *metav1.PartialObjectMetadata
	group  policy.Group
	// cluster is the metadata of the Cluster.
	cluster *metav1.PartialObjectMetadata
}

func (o owner) blockedObject() blockedObject {
	return blockedObject{kind: o.object.GroupVersionKind(), key: client.ObjectKeyFromObject(o.object)}
}

// shownOn returns the object whose conditions show why subject is blocked: the owner, or subject
// itself, if the owner's list of conditions may have no keys.
func (o owner) shownOn(subject client.Object) (client.Object, blockedObject) {
	if hasKeyedConditions(o.object.GroupVersionKind()) {
		return o.object, o.blockedObject()
	}
	return subject, blockedObject{kind: machineKind, key: client.ObjectKeyFromObject(subject)}
}

func (o owner) clusterKey() types.NamespacedName { return client.ObjectKeyFromObject(o.cluster) }

// readOwner finds the group that an object with these labels and owner references belongs to.
func (e *Engine) readOwner(ctx context.Context, meta metav1.Object) (owner, error) {
	clusterName := meta.GetLabels()[clusterv1.ClusterNameLabel]
	if clusterName == "" {
		return owner{}, fmt.Errorf("%s/%s has no label %s, so its cluster is not known", meta.GetNamespace(), meta.GetName(), clusterv1.ClusterNameLabel)
	}
	cluster := capi.MetadataOf(clusterv1.GroupVersion.WithKind("Cluster"))
	if err := e.Client.Get(ctx, types.NamespacedName{Namespace: meta.GetNamespace(), Name: clusterName}, cluster); err != nil {
		return owner{}, fmt.Errorf("reading Cluster %s/%s: %w", meta.GetNamespace(), clusterName, err)
	}
	object, isControlPlane, err := e.readGroupObject(ctx, meta)
	if err != nil {
		return owner{}, err
	}
	if object == nil {
		return owner{}, fmt.Errorf("%s/%s belongs to no MachineDeployment and to no control plane, so no UpdatePolicy counts for it",
			meta.GetNamespace(), meta.GetName())
	}
	return owner{object: object, group: snapshot.GroupOf(cluster, object, isControlPlane), cluster: cluster}, nil
}

// readGroupObject reads the metadata of the MachineDeployment or control plane object whose group a
// Machine or MachineSet belongs to; nil if it belongs to none. See capi.Memberships.
func (e *Engine) readGroupObject(
	ctx context.Context, meta metav1.Object,
) (object *metav1.PartialObjectMetadata, isControlPlane bool, err error) {
	group, ok, err := e.fetchGroup(ctx, meta)
	if err != nil || !ok {
		return nil, false, err
	}
	if group.ControlPlane {
		object = &metav1.PartialObjectMetadata{}
		err := e.ReadProvided(ctx, group.GroupKind(), group.NamespacedName, object)
		return object, true, err
	}
	object = capi.MetadataOf(deploymentKind)
	if err := e.Client.Get(ctx, group.NamespacedName, object); err != nil {
		return nil, false, fmt.Errorf("reading MachineDeployment %s: %w", group.NamespacedName, err)
	}
	return object, false, nil
}

// fetchGroup returns the group of a Machine or MachineSet; ok is false if there is none. It reads
// MachineSets live: only a Machine that has lost a label leads to one, and a cache of all MachineSets
// would cost more than this read.
func (e *Engine) fetchGroup(
	ctx context.Context, meta metav1.Object,
) (group contract.Group, ok bool, err error) {
	if set, isSet := meta.(*clusterv1.MachineSet); isSet {
		group.Owner = capi.OwnerThrough(set)
		return group, group.IsMachineDeployment(), nil
	}
	if group, ok, err = contract.FetchGroup(ctx, e.Live, meta); err != nil {
		err = fmt.Errorf("finding the group of %s/%s: %w", meta.GetNamespace(), meta.GetName(), err)
	}
	return group, ok, err
}

// SelectPolicy returns the policy that counts for a group; the default, whose name is empty, if none does. If that
// cannot be told, problem says why, and the policy is the one that is named, if it selects the group.
func (e *Engine) SelectPolicy(
	ctx context.Context, g policy.Group, named string,
) (selected policy.Policy, problem, err error) {
	policies, err := e.policies.In(ctx, g.Namespace)
	if err != nil {
		return policy.Policy{}, nil, err //nolint:wrapcheck // It says what could not be listed.
	}
	selected, problem = policies.Select(g)
	if problem == nil || named == "" {
		return selected, problem, nil
	}
	if found, err := policies.Named(named).Select(g); err == nil {
		selected = found
	}
	return selected, problem, nil
}

// selectPolicy is SelectPolicy for an update that has not begun.
func (e *Engine) selectPolicy(ctx context.Context, g policy.Group) (policy.Policy, error) {
	selected, problem, err := e.SelectPolicy(ctx, g, "")
	if problem != nil {
		return selected, refused(v1alpha1.PolicyConflictReason, "%v", problem)
	}
	return selected, err
}

// selectUpdaters returns the updaters for machines with these labels, in order.
func (e *Engine) selectUpdaters(ctx context.Context, namespace string, labels map[string]string) ([]v1alpha1.Updater, error) {
	found, err := selectUpdaters(ctx, e.Client, namespace, labels)
	if invalid, ok := errors.AsType[*policy.InvalidError](err); ok {
		return nil, refused(v1alpha1.UpdaterErrorReason, "%v", invalid)
	}
	return found, err
}

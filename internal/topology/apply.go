package topology

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/exp/topology/scope"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/internal/contract"
)

// ApplyOptions say what an apply leaves alone and what it adds.
type ApplyOptions struct {
	// HoldControlPlane leaves an existing control plane object and its template alone, so that a pending upgrade and other changes are one
	// rollout. Its MachineHealthCheck is still kept.
	HoldControlPlane bool
	// InfrastructureAnnotations are set on the infrastructure cluster, and ControlPlaneAnnotations on the control plane object, in the same
	// request as everything else. They are part of the intent: one that is no longer given is removed with the next change.
	InfrastructureAnnotations, ControlPlaneAnnotations map[string]string
}

// Result says what was written, in the order in which it was, also when an error ended it early. A caller lets its cache catch up with
// it before it reads again.
type Result struct{ Changes []Change }

// Apply brings the objects of a Cluster from their current to their desired state: the infrastructure cluster, the control plane, the
// Cluster's references and labels, MachineDeployments, MachinePools. It makes no request for what needs no change. One group's failure does not
// keep it from the others. It changes none of its arguments, and may be repeated after any failure.
func (o *Objects) Apply(ctx context.Context, blueprint *scope.ClusterBlueprint, current, desired *scope.ClusterState, versions Versions, options ApplyOptions) (Result, error) {
	a := &applier{Objects: o, cluster: current.Cluster}
	err := a.applyAll(ctx, blueprint, current, desired, versions, options)
	return Result{Changes: a.changes}, err
}

func (a *applier) applyAll(ctx context.Context, blueprint *scope.ClusterBlueprint, current, desired *scope.ClusterState, versions Versions, options ApplyOptions) error {
	infrastructure := withAnnotations(desired.InfrastructureCluster, options.InfrastructureAnnotations)
	controlPlane := withAnnotations(desired.ControlPlane.Object, options.ControlPlaneAnnotations)
	infrastructure, controlPlane, err := a.reconcileShim(ctx, current, infrastructure, controlPlane)
	if err != nil {
		return err
	}
	if err := a.applyReferenced(ctx, slot{role: roleInfrastructureCluster}, current.InfrastructureCluster, infrastructure); err != nil {
		return err
	}
	controlPlaneErr := a.applyControlPlane(ctx, blueprint, current, desired, controlPlane, options.HoldControlPlane)
	if controlPlaneErr != nil && current.InfrastructureCluster != nil {
		return controlPlaneErr
	}
	// An infrastructure cluster that was just created is referred to in any case, or the next attempt would create another.
	if err := errors.Join(controlPlaneErr, a.applyCluster(ctx, current, desired, controlPlaneErr == nil)); err != nil {
		return err
	}
	return errors.Join(
		a.applyMachineDeployments(ctx, current.MachineDeployments, desired.MachineDeployments, versions.MachineDeployments),
		a.applyMachinePools(ctx, current.MachinePools, desired.MachinePools, versions.MachinePools),
	)
}

func withAnnotations(object *unstructured.Unstructured, annotations map[string]string) *unstructured.Unstructured {
	if len(annotations) == 0 {
		return object
	}
	annotated := object.DeepCopy()
	all := annotated.GetAnnotations()
	if all == nil {
		all = make(map[string]string, len(annotations))
	}
	maps.Copy(all, annotations)
	annotated.SetAnnotations(all)
	return annotated
}

// reconcileShim keeps a Secret that owns the infrastructure cluster and the control plane until the Cluster does, so that they are collected as
// garbage when a failure comes between their creation and the Cluster's references to them. It returns the two with the owner that they
// need, or without the one that they no longer need.
func (a *applier) reconcileShim(ctx context.Context, current *scope.ClusterState, infrastructure, controlPlane *unstructured.Unstructured) (withShim, alsoWithShim *unstructured.Unstructured, err error) {
	shim := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: a.cluster.Name + "-shim", Namespace: a.cluster.Namespace,
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: a.cluster.Name, UID: a.cluster.UID,
			}},
		},
		Type: clusterv1.ClusterSecretType,
	}
	if current.InfrastructureCluster == nil || current.ControlPlane.Object == nil {
		if err := a.checkUpToDate(ctx); err != nil {
			return nil, nil, err
		}
		if err := a.client.Create(ctx, shim); err != nil {
			if !apierrors.IsAlreadyExists(err) {
				return nil, nil, fmt.Errorf("creating Secret %s: %w", name(shim), err)
			}
			if err := a.apiReader.Get(ctx, client.ObjectKeyFromObject(shim), shim); err != nil {
				return nil, nil, fmt.Errorf("getting Secret %s: %w", name(shim), err)
			}
		}
		owner := metav1.OwnerReference{APIVersion: "v1", Kind: "Secret", Name: shim.Name, UID: shim.UID}
		return withOwner(infrastructure, owner), withOwner(controlPlane, owner), nil
	}
	if !ownedBy(current.InfrastructureCluster, "Cluster", a.cluster.Name) || !ownedBy(current.ControlPlane.Object, "Cluster", a.cluster.Name) {
		return infrastructure, controlPlane, nil
	}
	if ownedBy(current.InfrastructureCluster, "Secret", shim.Name) || ownedBy(current.ControlPlane.Object, "Secret", shim.Name) {
		if err := a.deleteShim(ctx, shim); err != nil {
			return nil, nil, err
		}
		return withoutOwner(infrastructure, shim.Name), withoutOwner(controlPlane, shim.Name), nil
	}
	return infrastructure, controlPlane, nil
}

// deleteShim deletes the shim, not again as long as references to it linger.
func (a *applier) deleteShim(ctx context.Context, shim *corev1.Secret) error {
	place := slot{role: roleShim}
	owner, err := computeDigest(a.cluster.UID)
	if err != nil {
		return err
	}
	if _, done := a.memory.get(a.key(), place, owner); done {
		return nil
	}
	if err := client.IgnoreNotFound(a.client.Delete(ctx, shim)); err != nil {
		return fmt.Errorf("deleting Secret %s: %w", name(shim), err)
	}
	a.memory.put(a.key(), place, known{current: owner})
	return nil
}

// checkUpToDate makes sure that a Cluster has no references that the cache does not show: they would be overwritten by new ones.
func (a *applier) checkUpToDate(ctx context.Context) error {
	live := &clusterv1.Cluster{}
	if err := a.apiReader.Get(ctx, a.key(), live); err != nil {
		return fmt.Errorf("getting Cluster %s: %w", name(a.cluster), err)
	}
	if live.UID != a.cluster.UID || live.Spec.InfrastructureRef != a.cluster.Spec.InfrastructureRef || live.Spec.ControlPlaneRef != a.cluster.Spec.ControlPlaneRef {
		return fmt.Errorf("what was read of Cluster %s is out of date: its references changed meanwhile", name(a.cluster))
	}
	return nil
}

func withOwner(object *unstructured.Unstructured, owner metav1.OwnerReference) *unstructured.Unstructured {
	owned := object.DeepCopy()
	owned.SetOwnerReferences(util.EnsureOwnerRef(owned.GetOwnerReferences(), owner))
	return owned
}

func withoutOwner(object *unstructured.Unstructured, secret string) *unstructured.Unstructured {
	disowned := object.DeepCopy()
	owners := slices.DeleteFunc(disowned.GetOwnerReferences(), func(owner metav1.OwnerReference) bool {
		return owner.Kind == "Secret" && owner.Name == secret
	})
	if len(owners) == 0 {
		owners = nil
	}
	disowned.SetOwnerReferences(owners)
	return disowned
}

func ownedBy(object client.Object, kind, name string) bool {
	return slices.ContainsFunc(object.GetOwnerReferences(), func(owner metav1.OwnerReference) bool {
		return owner.Kind == kind && owner.Name == name
	})
}

// applyReferenced applies an object that is made from a template and keeps its name for ever.
func (a *applier) applyReferenced(ctx context.Context, place slot, current, desired *unstructured.Unstructured) error {
	t := target{slot: place, desired: desired, ignore: computeIgnoredPaths(desired)}
	if current == nil {
		return a.apply(ctx, t, "")
	}
	if err := checkCompatible(current, desired); err != nil {
		return err
	}
	t.current = current
	from, _, _ := unstructured.NestedString(current.Object, "spec", "version")
	to, _, _ := unstructured.NestedString(desired.Object, "spec", "version")
	return a.apply(ctx, t, versionNote(from, to))
}

// checkCompatible refuses to let an object of another kind take the current one's place.
func checkCompatible(current, desired *unstructured.Unstructured) error {
	from, to := current.GroupVersionKind().GroupKind(), desired.GroupVersionKind().GroupKind()
	if from != to {
		return &IncompatibleError{Current: current.GetKind() + " " + name(current), Field: "kind", From: from.String(), To: to.String()}
	}
	return checkNamespace(current, desired)
}

func checkNamespace(current, desired *unstructured.Unstructured) error {
	if current.GetNamespace() != desired.GetNamespace() {
		return &IncompatibleError{
			Current: current.GetKind() + " " + name(current), Field: "namespace", From: current.GetNamespace(), To: desired.GetNamespace(),
		}
	}
	return nil
}

// applyControlPlane applies the control plane object, the template of its machines before it, and its MachineHealthCheck.
func (a *applier) applyControlPlane(ctx context.Context, blueprint *scope.ClusterBlueprint, current, desired *scope.ClusterState, object *unstructured.Unstructured, hold bool) error {
	if err := a.applyHealthCheck(ctx, slot{role: roleControlPlaneHealthCheck}, current.ControlPlane.MachineHealthCheck, desired.ControlPlane.MachineHealthCheck); err != nil {
		return err
	}
	if hold && current.ControlPlane.Object != nil {
		return nil
	}
	place := slot{role: roleControlPlane}
	if !blueprint.HasControlPlaneInfrastructureMachine() {
		return a.applyReferenced(ctx, place, current.ControlPlane.Object, object)
	}
	previous := current.ControlPlane.InfrastructureMachineTemplate
	machines, created, err := a.applyControlPlaneMachines(ctx, previous, desired.ControlPlane.InfrastructureMachineTemplate)
	if err != nil {
		return err
	}
	if object, err = a.withMachineTemplate(ctx, object, desired.ControlPlane.InfrastructureMachineTemplate, machines); err == nil {
		err = a.applyReferenced(ctx, place, current.ControlPlane.Object, object)
	}
	if err != nil {
		if created && rejected(err) {
			a.cleanUp(ctx, []client.Object{machines})
		}
		return err
	}
	if previous != nil && previous.GetName() != machines.GetName() {
		// If this fails, the template is collected with the Cluster: nothing will look for it again.
		return a.delete(ctx, previous)
	}
	return nil
}

// applyControlPlaneMachines applies the template of control plane machines. It returns it as [applier.applyTemplate] does.
func (a *applier) applyControlPlaneMachines(ctx context.Context, current, desired *unstructured.Unstructured) (*unstructured.Unstructured, bool, error) {
	t := template{prefix: controlPlaneTemplatePrefix(a.cluster.Name)}
	t.slot, t.desired = slot{role: roleControlPlaneMachines}, desired
	if current != nil {
		if err := checkCompatible(current, desired); err != nil {
			return nil, false, err
		}
		t.current = current
	}
	return a.applyTemplate(ctx, t)
}

// withMachineTemplate returns the control plane object with a reference to the template, which was rotated if its name is not the desired one.
func (a *applier) withMachineTemplate(ctx context.Context, object, desired, machines *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if machines.GetName() == desired.GetName() {
		return object, nil
	}
	contractVersion, err := contract.FetchVersion(ctx, a.client, object.GroupVersionKind())
	if err != nil {
		return nil, err
	}
	return withMachineTemplateName(object, contractVersion, machines.GetName())
}

// applyCluster sets the Cluster's labels and its references to the objects.
func (a *applier) applyCluster(ctx context.Context, current, desired *scope.ClusterState, withControlPlane bool) error {
	before, after := current.Cluster, current.Cluster.DeepCopy()
	after.Labels = maps.Clone(desired.Cluster.Labels)
	after.Spec.InfrastructureRef = desired.Cluster.Spec.InfrastructureRef
	if withControlPlane {
		after.Spec.ControlPlaneRef = desired.Cluster.Spec.ControlPlaneRef
	}
	if maps.Equal(before.Labels, after.Labels) && before.Spec.InfrastructureRef == after.Spec.InfrastructureRef && before.Spec.ControlPlaneRef == after.Spec.ControlPlaneRef {
		return nil
	}
	if err := a.client.Patch(ctx, after, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("patching Cluster %s: %w", name(before), err)
	}
	a.record(Updated, clusterv1.GroupVersion.WithKind("Cluster"), a.key(), after.ResourceVersion, "")
	return nil
}

// applyHealthCheck creates, changes or deletes a MachineHealthCheck.
func (a *applier) applyHealthCheck(ctx context.Context, place slot, current, desired *clusterv1.MachineHealthCheck) error {
	switch {
	case desired != nil && current != nil:
		return a.apply(ctx, target{slot: place, current: current, desired: desired}, "")
	case desired != nil:
		return a.apply(ctx, target{slot: place, desired: desired}, "")
	case current != nil:
		a.memory.drop(a.key(), place)
		return a.delete(ctx, current)
	}
	return nil
}

// liveGroups are the topology names of a Cluster's groups as the API server has them, for the cache may not show a group yet.
func (a *applier) liveGroups(ctx context.Context, kind, label string) (map[string]bool, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(clusterv1.GroupVersion.WithKind(kind + "List"))
	if err := a.apiReader.List(ctx, list, groupLabels(a.cluster)...); err != nil {
		return nil, fmt.Errorf("listing the %ss of Cluster %s: %w", kind, name(a.cluster), err)
	}
	names := make(map[string]bool, len(list.Items))
	for i := range list.Items {
		names[list.Items[i].Labels[label]] = true
	}
	return names, nil
}

// groupError names the group that an error is about.
func groupError(kind, group string, err error) error {
	return fmt.Errorf("%s %q: %w", strings.TrimSpace(kind), group, err)
}

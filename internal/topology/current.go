package topology

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/exp/topology/scope"
	"sigs.k8s.io/cluster-api/feature"
	"sigs.k8s.io/cluster-api/util/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/internal/contract"
)

// ReadCurrent reads the objects that a Cluster has now. What the Cluster does not refer to yet is nil; the templates of a group that is
// being deleted are nil too, because they may be gone before it. Its result shares the Cluster with the caller.
//
// A template that a MachineDeployment refers to is nil if the API server has no such template, and no
// Machine is of it. It was collected with a MachineSet, and a new one takes its place.
func (o *Objects) ReadCurrent(ctx context.Context, cluster *clusterv1.Cluster, blueprint *scope.ClusterBlueprint) (*scope.ClusterState, error) {
	current := &scope.ClusterState{Cluster: cluster, ControlPlane: &scope.ControlPlaneState{}}
	var err error
	if cluster.Spec.InfrastructureRef.IsDefined() {
		current.InfrastructureCluster, err = o.owned(ctx, cluster.Spec.InfrastructureRef, cluster.Namespace, blueprint.InfrastructureClusterTemplate, objectKind)
		if err != nil {
			return nil, fmt.Errorf("reading the infrastructure of Cluster %s: %w", name(cluster), err)
		}
	}
	if cluster.Spec.ControlPlaneRef.IsDefined() {
		if current.ControlPlane, err = o.readControlPlane(ctx, cluster, blueprint); err != nil {
			return nil, fmt.Errorf("reading the control plane of Cluster %s: %w", name(cluster), err)
		}
	}
	if current.MachineDeployments, err = o.readMachineDeployments(ctx, cluster, blueprint); err != nil {
		return nil, fmt.Errorf("reading the MachineDeployments of Cluster %s: %w", name(cluster), err)
	}
	if !feature.Gates.Enabled(feature.MachinePool) {
		return current, nil
	}
	if current.MachinePools, err = o.readMachinePools(ctx, cluster, blueprint); err != nil {
		return nil, fmt.Errorf("reading the MachinePools of Cluster %s: %w", name(cluster), err)
	}
	return current, nil
}

func (o *Objects) readControlPlane(ctx context.Context, cluster *clusterv1.Cluster, blueprint *scope.ClusterBlueprint) (*scope.ControlPlaneState, error) {
	object, err := o.owned(ctx, cluster.Spec.ControlPlaneRef, cluster.Namespace, blueprint.ControlPlane.Template, objectKind)
	if err != nil {
		return nil, err
	}
	state := &scope.ControlPlaneState{Object: object}
	if !blueprint.HasControlPlaneInfrastructureMachine() {
		return state, nil
	}
	contractVersion, err := contract.FetchVersion(ctx, o.client, object.GroupVersionKind())
	if err != nil {
		return nil, err
	}
	ref, err := machineTemplateRef(object, contractVersion)
	if err != nil {
		return nil, err
	}
	state.InfrastructureMachineTemplate, err = o.owned(ctx, ref, object.GetNamespace(), blueprint.ControlPlane.InfrastructureMachineTemplate, templateKind)
	if err != nil {
		return nil, fmt.Errorf("reading the machine template of %s %s: %w", object.GetKind(), name(object), err)
	}
	state.MachineHealthCheck, err = o.healthCheck(ctx, object)
	return state, err
}

// groupLabels select a Cluster's MachineDeployments or MachinePools.
func groupLabels(cluster *clusterv1.Cluster) []client.ListOption {
	return []client.ListOption{
		client.InNamespace(cluster.Namespace),
		client.MatchingLabels{clusterv1.ClusterNameLabel: cluster.Name, clusterv1.ClusterTopologyOwnedLabel: ""},
	}
}

func (o *Objects) readMachineDeployments(ctx context.Context, cluster *clusterv1.Cluster, blueprint *scope.ClusterBlueprint) (scope.MachineDeploymentsStateMap, error) {
	list := &clusterv1.MachineDeploymentList{}
	if err := o.client.List(ctx, list, groupLabels(cluster)...); err != nil {
		return nil, fmt.Errorf("listing: %w", err)
	}
	classes := make(map[string]string, len(cluster.Spec.Topology.Workers.MachineDeployments))
	for _, group := range cluster.Spec.Topology.Workers.MachineDeployments {
		classes[group.Name] = group.Class
	}
	states := make(scope.MachineDeploymentsStateMap, len(list.Items))
	for i := range list.Items {
		object := &list.Items[i]
		topologyName, err := topologyName(object, clusterv1.ClusterTopologyMachineDeploymentNameLabel, states)
		if err != nil {
			return nil, err
		}
		state := &scope.MachineDeploymentState{Object: object}
		if state.MachineHealthCheck, err = o.healthCheck(ctx, object); err != nil {
			return nil, err
		}
		if object.DeletionTimestamp.IsZero() {
			var templates scope.MachineDeploymentBlueprint
			if class, inTopology := classes[topologyName]; inTopology {
				found, ok := blueprint.MachineDeployments[class]
				if !ok {
					return nil, &MissingClassError{Kind: "MachineDeployment", Class: class, Group: topologyName}
				}
				templates = *found
			}
			machine := &object.Spec.Template.Spec
			if state.InfrastructureMachineTemplate, err = o.groupTemplate(ctx, object, machine.InfrastructureRef, templates.InfrastructureMachineTemplate); err != nil {
				return nil, fmt.Errorf("reading the infrastructure of MachineDeployment %s: %w", name(object), err)
			}
			if state.BootstrapTemplate, err = o.groupTemplate(ctx, object, machine.Bootstrap.ConfigRef, templates.BootstrapTemplate); err != nil {
				return nil, fmt.Errorf("reading the bootstrap template of MachineDeployment %s: %w", name(object), err)
			}
		}
		states[topologyName] = state
	}
	return states, nil
}

func (o *Objects) readMachinePools(ctx context.Context, cluster *clusterv1.Cluster, blueprint *scope.ClusterBlueprint) (scope.MachinePoolsStateMap, error) {
	list := &clusterv1.MachinePoolList{}
	if err := o.client.List(ctx, list, groupLabels(cluster)...); err != nil {
		return nil, fmt.Errorf("listing: %w", err)
	}
	classes := make(map[string]string, len(cluster.Spec.Topology.Workers.MachinePools))
	for _, group := range cluster.Spec.Topology.Workers.MachinePools {
		classes[group.Name] = group.Class
	}
	states := make(scope.MachinePoolsStateMap, len(list.Items))
	for i := range list.Items {
		object := &list.Items[i]
		topologyName, err := topologyName(object, clusterv1.ClusterTopologyMachinePoolNameLabel, states)
		if err != nil {
			return nil, err
		}
		state := &scope.MachinePoolState{Object: object}
		if object.DeletionTimestamp.IsZero() {
			var templates scope.MachinePoolBlueprint
			if class, inTopology := classes[topologyName]; inTopology {
				found, ok := blueprint.MachinePools[class]
				if !ok {
					return nil, &MissingClassError{Kind: "MachinePool", Class: class, Group: topologyName}
				}
				templates = *found
			}
			machine := &object.Spec.Template.Spec
			if state.InfrastructureMachinePoolObject, err = o.owned(ctx, machine.InfrastructureRef, object.Namespace, templates.InfrastructureMachinePoolTemplate, objectKind); err != nil {
				return nil, fmt.Errorf("reading the infrastructure of MachinePool %s: %w", name(object), err)
			}
			if state.BootstrapObject, err = o.owned(ctx, machine.Bootstrap.ConfigRef, object.Namespace, templates.BootstrapTemplate, objectKind); err != nil {
				return nil, fmt.Errorf("reading the bootstrap config of MachinePool %s: %w", name(object), err)
			}
		}
		states[topologyName] = state
	}
	return states, nil
}

// topologyName is a group's name in the topology. Two groups of one name cannot both be reconciled, so they are an error.
func topologyName[S any](group client.Object, label string, seen map[string]*S) (string, error) {
	topologyName := group.GetLabels()[label]
	if topologyName == "" {
		return "", fmt.Errorf("%s has the label %s but lacks %s", name(group), clusterv1.ClusterTopologyOwnedLabel, label)
	}
	if seen[topologyName] != nil {
		return "", fmt.Errorf("%s is a second object with the label %s=%s: delete one of them", name(group), label, topologyName)
	}
	return topologyName, nil
}

// owned reads a referenced object and checks that it belongs to the topology: a managed Cluster must not take over an object of somebody else.
func (o *Objects) owned(ctx context.Context, ref clusterv1.ContractVersionedObjectReference, namespace string, template *unstructured.Unstructured, kind func(*unstructured.Unstructured) string) (*unstructured.Unstructured, error) {
	if !ref.IsDefined() {
		return nil, fmt.Errorf("the reference is not set")
	}
	aligned, err := o.align(ctx, ref, namespace, template, kind)
	if err != nil {
		return nil, err
	}
	object, err := o.get(ctx, aligned)
	if err != nil {
		return nil, err
	}
	if !labels.IsTopologyOwned(object) {
		return nil, fmt.Errorf("%s %s lacks the label %s: it does not belong to a managed topology", object.GetKind(), name(object), clusterv1.ClusterTopologyOwnedLabel)
	}
	return object, nil
}

// groupTemplate reads a template of a MachineDeployment. It returns nil if the API server itself has
// no such template, and no Machine is of it: it was collected with a MachineSet. A template that only
// the cache does not show is an error, and so is one that somebody has deleted while Machines are of
// it: a new template would update or replace these.
func (o *Objects) groupTemplate(
	ctx context.Context, md *clusterv1.MachineDeployment,
	ref clusterv1.ContractVersionedObjectReference, template *unstructured.Unstructured,
) (*unstructured.Unstructured, error) {
	object, err := o.owned(ctx, ref, md.Namespace, template, templateKind)
	if !apierrors.IsNotFound(err) {
		return object, err
	}
	aligned, alignErr := o.align(ctx, ref, md.Namespace, template, templateKind)
	if alignErr != nil {
		return nil, err
	}
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(aligned.GroupVersionKind())
	key := client.ObjectKey{Namespace: md.Namespace, Name: ref.Name}
	liveErr := o.apiReader.Get(ctx, key, live)
	switch {
	case liveErr == nil:
		return nil, err
	case !apierrors.IsNotFound(liveErr):
		return nil, fmt.Errorf("getting %s %s: %w", ref.Kind, key, liveErr)
	}
	set, usedErr := o.usedBy(ctx, md, ref)
	switch {
	case usedErr != nil:
		return nil, usedErr
	case set != "":
		return nil, fmt.Errorf("%w: MachineSet %s has Machines of it. "+
			"Fix: create it again with the same content", err, set)
	}
	return nil, nil
}

// usedBy returns the name of a MachineSet of a MachineDeployment that refers to a template, is not
// being deleted, and has Machines; empty for none.
func (o *Objects) usedBy(
	ctx context.Context, md *clusterv1.MachineDeployment,
	template clusterv1.ContractVersionedObjectReference,
) (string, error) {
	sets, machines := &clusterv1.MachineSetList{}, &clusterv1.MachineList{}
	for _, list := range []client.ObjectList{sets, machines} {
		err := o.apiReader.List(ctx, list, client.InNamespace(md.Namespace),
			client.MatchingLabels{clusterv1.MachineDeploymentNameLabel: md.Name})
		if err != nil {
			return "", fmt.Errorf("listing what uses %s %s: %w", template.Kind, template.Name, err)
		}
	}
	for i := range sets.Items {
		set := &sets.Items[i]
		machine := &set.Spec.Template.Spec
		if !set.DeletionTimestamp.IsZero() ||
			machine.InfrastructureRef != template && machine.Bootstrap.ConfigRef != template {
			continue
		}
		for j := range machines.Items {
			if metav1.IsControlledBy(&machines.Items[j], set) {
				return set.Name, nil
			}
		}
	}
	return "", nil
}

// healthCheck reads the MachineHealthCheck of a control plane or MachineDeployment, which has the same name; nil if there is none.
func (o *Objects) healthCheck(ctx context.Context, target client.Object) (*clusterv1.MachineHealthCheck, error) {
	check := &clusterv1.MachineHealthCheck{}
	if err := o.client.Get(ctx, client.ObjectKeyFromObject(target), check); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("getting MachineHealthCheck %s: %w", name(target), err)
	}
	return check, nil
}

package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/internal/contract"
)

// groupLifetime is how long the group of a MachineSet is remembered. It changes where somebody orphans
// the MachineSet, which is rare.
const groupLifetime = time.Minute

// mostGroups bounds of how many MachineSets the groups are remembered.
const mostGroups = 4096

// setKey identifies a MachineSet as the controller of a Machine.
type setKey struct {
	types.NamespacedName
	uid types.UID
}

// listIndexed lists the Machines of a Cluster that the cache shows with a value of InFlightIndex. They
// must not be changed.
func (e *Engine) listIndexed(
	ctx context.Context, cluster types.NamespacedName, value string, options ...client.ListOption,
) ([]metav1.PartialObjectMetadata, error) {
	machines := newMachineMetadataList()
	options = append(options, client.InNamespace(cluster.Namespace),
		client.MatchingFields{InFlightIndex: value}, client.UnsafeDisableDeepCopy)
	if err := e.Client.List(ctx, machines, options...); err != nil {
		return nil, fmt.Errorf("listing the Machines in flight of Cluster %s: %w", cluster, err)
	}
	return machines.Items, nil
}

// listGroup lists the Machines of the run's MachineDeployment that the cache shows.
func (r *run) listGroup(ctx context.Context) ([]metav1.PartialObjectMetadata, error) {
	group, cluster := r.groupKey(), r.owner.clusterKey()
	machines := newMachineMetadataList()
	err := r.Client.List(ctx, machines, client.InNamespace(group.Namespace), labelsOf(cluster, group),
		client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing the Machines of the %s: %w", r.owner.group, err)
	}
	labelled := slices.DeleteFunc(machines.Items, func(m metav1.PartialObjectMetadata) bool {
		return groupInIndex(&m) != group.Name
	})
	others, err := r.listUnlabelled(ctx, cluster, group, func(client.Object) bool { return true })
	return slices.Concat(labelled, others), err
}

// groupKey is the key of the run's MachineDeployment.
func (r *run) groupKey() types.NamespacedName {
	return types.NamespacedName{Namespace: r.Object.Namespace, Name: r.owner.group.Object}
}

// labelsOf are the labels of the Machines of a MachineDeployment.
func labelsOf(cluster, group types.NamespacedName) client.MatchingLabels {
	return client.MatchingLabels{
		clusterv1.ClusterNameLabel: cluster.Name, clusterv1.MachineDeploymentNameLabel: group.Name,
	}
}

// listOfGroup lists the Machines of the run's group that the cache shows with a value of InFlightIndex,
// and those without a label for which matches is true.
func (r *run) listOfGroup(
	ctx context.Context, value string, matches func(client.Object) bool, options ...client.ListOption,
) ([]metav1.PartialObjectMetadata, error) {
	machines, err := r.listIndexed(ctx, r.owner.clusterKey(), value, options...)
	if err != nil {
		return nil, err
	}
	others, err := r.listUnlabelled(ctx, r.owner.clusterKey(), r.groupKey(), matches)
	return slices.Concat(machines, others), err
}

// listUnlabelled lists the Machines of a MachineDeployment that the cache shows without a label that
// names it, and for which matches is true. Somebody has removed the label, or made it that of a control
// plane. It reads the MachineSets of such Machines of the Cluster live, each once in groupLifetime;
// usually there are none.
func (e *Engine) listUnlabelled(
	ctx context.Context, cluster, group types.NamespacedName, matches func(client.Object) bool,
) ([]metav1.PartialObjectMetadata, error) {
	machines, err := e.listIndexed(ctx, cluster, unlabelledValue(cluster.Name))
	if err != nil {
		return nil, err
	}
	var found []metav1.PartialObjectMetadata
	for i := range machines {
		m := &machines[i]
		if !matches(m) {
			continue
		}
		own, err := e.groupOfUnlabelled(ctx, m)
		if err != nil {
			return nil, err
		}
		if own.IsMachineDeployment() && own.NamespacedName == group {
			found = append(found, *m)
		}
	}
	return found, nil
}

// groupOfUnlabelled is fetchGroup, from memory if the MachineSet was read a while ago.
func (e *Engine) groupOfUnlabelled(ctx context.Context, m metav1.Object) (contract.Group, error) {
	ref := metav1.GetControllerOfNoCopy(m)
	if ref == nil {
		return contract.Group{}, nil
	}
	key := setKey{types.NamespacedName{Namespace: m.GetNamespace(), Name: ref.Name}, ref.UID}
	if group, known := e.setGroups.Get(key, e.Now()); known {
		return group, nil
	}
	group, _, err := e.fetchGroup(ctx, m)
	if err == nil {
		e.setGroups.Put(key, group, e.Now(), groupLifetime)
	}
	return group, err
}

package guardwebhook

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/contract"
	"github.com/windlass-dev/windlass/internal/guard"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/snapshot"
)

// group is the control plane or MachineDeployment of a Machine.
type group struct {
	reference corev1.ObjectReference
	selection policy.Group
	// facts lack the numbers: they are read only for a group that is guarded.
	facts guard.Group
	// replicas is spec.replicas.
	replicas *int64
	// one says that an object without spec.replicas has one Machine.
	one bool
	// members selects the group's Machines by labels; owner, where it is set, is the UID of their owner.
	members []client.ListOption
	owner   types.UID
	// mayBeUnasked says that a refusal may need more explaining.
	mayBeUnasked bool
}

const (
	machineDeploymentKind   = "MachineDeployment"
	kubeadmControlPlaneKind = "KubeadmControlPlane"
)

// readGroup reads the group of a Machine; nil where it has none. A Machine of a MachinePool has none, nor
// has one of a MachineSet without a MachineDeployment: no UpdatePolicy selects those. The label of a
// MachinePool alone exempts no Machine, because a tenant can add it to any.
func (g *Guard) readGroup(ctx context.Context, cluster *clusterv1.Cluster, m machine) (*group, error) {
	group, ok, err := contract.FetchGroup(ctx, g.options.Live, m.meta())
	switch {
	case err != nil:
		return nil, fmt.Errorf("finding the group of Machine %s: %w", m.facts.Name, err)
	case !ok:
		return nil, nil
	case group.ControlPlane:
		return g.readControlPlane(ctx, cluster, m)
	default:
		return g.readMachineDeployment(ctx, cluster, group.Name)
	}
}

func (g *Guard) readMachineDeployment(ctx context.Context, cluster *clusterv1.Cluster, name string) (*group, error) {
	var md clusterv1.MachineDeployment
	err := g.options.Live.Get(ctx, client.ObjectKey{Namespace: cluster.Namespace, Name: name}, &md)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading MachineDeployment %s: %w", name, err)
	}
	found := newGroup(clusterv1.GroupVersion.WithKind(machineDeploymentKind), &md)
	found.selection = snapshot.MachineDeploymentGroup(cluster, &md)
	found.one, found.mayBeUnasked = true, mayBeUnasked(&md)
	if md.Spec.Replicas != nil {
		found.replicas = new(int64(*md.Spec.Replicas))
	}
	found.members = []client.ListOption{
		client.InNamespace(cluster.Namespace),
		client.MatchingLabels{clusterv1.ClusterNameLabel: cluster.Name, clusterv1.MachineDeploymentNameLabel: name},
	}
	return found, nil
}

func (g *Guard) readControlPlane(ctx context.Context, cluster *clusterv1.Cluster, m machine) (*group, error) {
	object := &unstructured.Unstructured{}
	kind := schema.FromAPIVersionAndKind(m.controller.APIVersion, m.controller.Kind)
	object.SetGroupVersionKind(kind)
	err := g.options.Live.Get(ctx, client.ObjectKey{Namespace: cluster.Namespace, Name: m.controller.Name}, object)
	if apierrors.IsNotFound(err) || err == nil && object.GetUID() != m.controller.UID {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s %s: %w", kind.Kind, m.controller.Name, err)
	}
	found := newGroup(kind, object)
	found.selection = snapshot.ControlPlaneGroup(cluster, object)
	found.one = kind.Kind == kubeadmControlPlaneKind
	replicas, ok, err := unstructured.NestedInt64(object.Object, "spec", "replicas")
	if err != nil {
		return nil, fmt.Errorf("reading %s %s: spec.replicas: %w", kind.Kind, m.controller.Name, err)
	}
	if ok {
		found.replicas = &replicas
	}
	found.owner = object.GetUID()
	found.members = []client.ListOption{
		client.InNamespace(cluster.Namespace),
		client.MatchingLabels{clusterv1.ClusterNameLabel: cluster.Name}, client.HasLabels{clusterv1.MachineControlPlaneLabel},
	}
	return found, nil
}

func newGroup(kind schema.GroupVersionKind, object client.Object) *group {
	apiVersion, kindName := kind.ToAPIVersionAndKind()
	return &group{
		// Without a resource version: Events about equal references become one.
		reference: corev1.ObjectReference{
			APIVersion: apiVersion, Kind: kindName, Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID(),
		},
		facts: guard.Group{Kind: kindName, Name: object.GetNamespace() + "/" + object.GetName(), Deleting: !object.GetDeletionTimestamp().IsZero()},
	}
}

func (g *group) desired() (int, error) {
	switch {
	case g.replicas != nil:
		return int(*g.replicas), nil
	case g.one:
		return 1, nil
	default:
		// Guessing would let Machines go.
		return 0, fmt.Errorf("%s has no spec.replicas, so its number of machines is unknown. Fix: set it", g.facts)
	}
}

// member is a Machine of a group that is not being deleted.
type member struct {
	uid         types.UID
	replaceable bool
}

// readMembers reads the Machines of a group that are not being deleted. It changes none of what reader returns.
func readMembers(ctx context.Context, reader client.Reader, found *group) ([]member, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("MachineList"))
	if err := reader.List(ctx, list, found.members...); err != nil {
		return nil, fmt.Errorf("listing the Machines of %s: %w", found.facts, err)
	}
	members := make([]member, 0, len(list.Items))
	for i := range list.Items {
		m := &list.Items[i]
		owner := metav1.GetControllerOfNoCopy(m)
		if !m.DeletionTimestamp.IsZero() || found.owner != "" && (owner == nil || owner.UID != found.owner) {
			continue
		}
		members = append(members, member{uid: m.UID, replaceable: has(m.Annotations, v1alpha1.AllowReplacementAnnotation)})
	}
	return members, nil
}

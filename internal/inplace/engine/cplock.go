package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/untrusted"
)

// controlPlaneLocks are the locks of Clusters. They are safe for concurrent use, also by several processes.
type controlPlaneLocks struct {
	client client.Client
	live   client.Reader
}

// newControlPlaneLocks returns the locks that a client writes. They are read from the API server: what was just
// written must be seen.
func newControlPlaneLocks(c client.Client, live client.Reader) controlPlaneLocks {
	return controlPlaneLocks{client: c, live: live}
}

// information is the wire format of a lock.
type information struct {
	MachineName      string `json:"machineName"`
	MachineNamespace string `json:"machineNamespace"`
}

// controlPlaneLock is a lock as it was read.
type controlPlaneLock struct {
	// Holder names the Machine that holds the lock. It is empty if nobody does, and words if the
	// lock cannot be trusted.
	Holder string
	// object is the ConfigMap; nil where there is none.
	object *corev1.ConfigMap
}

func keyOf(cluster types.NamespacedName) types.NamespacedName {
	return types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Name + v1alpha1.InPlaceUpgradeLockSuffix}
}

// Read reads who holds the lock of a Cluster. A Machine of the Cluster that does not exist any
// longer holds none.
//
// Tenants can write the ConfigMap, so its content selects nothing outside the Cluster: Read looks
// up a Machine in the Cluster's namespace only, and counts it only if it belongs to the Cluster. A
// lock that the Cluster does not own, that cannot be read, or that names another namespace is
// reported as held, because another program may rely on it.
func (l controlPlaneLocks) Read(ctx context.Context, cluster metav1.Object) (controlPlaneLock, error) {
	key := keyOf(types.NamespacedName{Namespace: cluster.GetNamespace(), Name: cluster.GetName()})
	found, info, err := l.read(ctx, key)
	if err != nil || found == nil {
		return controlPlaneLock{}, err
	}
	distrusted := func(why string) (controlPlaneLock, error) {
		holder := fmt.Sprintf("unknown (look at %s in ConfigMap %s, which %s)",
			v1alpha1.InPlaceUpgradeLockKey, key, why)
		return controlPlaneLock{object: found, Holder: holder}, nil
	}
	switch {
	case !ownedBy(found, cluster):
		return distrusted("Cluster " + cluster.GetName() + " does not own; delete it if no upgrade runs")
	case info.MachineName == "":
		return distrusted("cannot be read")
	case info.MachineNamespace != "" && info.MachineNamespace != key.Namespace:
		// The answer is the same whether or not such a Machine exists.
		return controlPlaneLock{object: found, Holder: info.MachineNamespace + "/" + info.MachineName}, nil
	}
	holds, err := l.isMachineOf(ctx, cluster, info.MachineName)
	if err != nil {
		return controlPlaneLock{}, fmt.Errorf("reading Machine %s, which the lock ConfigMap %s names: %w", info.MachineName, key, err)
	}
	if !holds {
		return controlPlaneLock{object: found}, nil
	}
	return controlPlaneLock{object: found, Holder: info.MachineName}, nil
}

// MayHold reports whether a Machine's name is in the lock of a Cluster. It verifies nothing: true
// says that Read is worth its cost.
func (l controlPlaneLocks) MayHold(ctx context.Context, cluster types.NamespacedName, machine string) (bool, error) {
	found, info, err := l.read(ctx, keyOf(cluster))
	return found != nil && info.MachineName == machine, err
}

// read reads a lock; nil where there is none. The information is empty where it cannot be read.
func (l controlPlaneLocks) read(ctx context.Context, key types.NamespacedName) (*corev1.ConfigMap, information, error) {
	found := &corev1.ConfigMap{}
	if err := l.live.Get(ctx, key, found); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, information{}, nil
		}
		return nil, information{}, fmt.Errorf("reading the lock ConfigMap %s: %w", key, err)
	}
	var info information
	if err := untrusted.Annotation.Unmarshal([]byte(found.Data[v1alpha1.InPlaceUpgradeLockKey]), &info); err != nil {
		info = information{}
	}
	return found, info, nil
}

// ownedBy reports whether a Cluster owns an object. The UID is compared: a deleted Cluster of the
// same name does not count.
func ownedBy(object, cluster metav1.Object) bool {
	return slices.ContainsFunc(object.GetOwnerReferences(), func(ref metav1.OwnerReference) bool {
		kind := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
		return ref.UID == cluster.GetUID() && kind.Kind == "Cluster" && kind.Group == clusterv1.GroupVersion.Group
	})
}

// isMachineOf reports whether a Cluster has a Machine of this name.
func (l controlPlaneLocks) isMachineOf(ctx context.Context, cluster metav1.Object, name string) (bool, error) {
	machine := capi.MetadataOf(machineKind)
	key := types.NamespacedName{Namespace: cluster.GetNamespace(), Name: name}
	if err := l.live.Get(ctx, key, machine); err != nil {
		return false, client.IgnoreNotFound(err) //nolint:wrapcheck // The caller says which Machine.
	}
	return machine.Labels[clusterv1.ClusterNameLabel] == cluster.GetName(), nil
}

// Take takes the lock for a Machine, unless another one that exists holds it; who holds it then is
// for Read to say. Taking it twice is no error.
func (l controlPlaneLocks) Take(ctx context.Context, cluster *clusterv1.Cluster, machine string) error {
	key := client.ObjectKeyFromObject(cluster)
	found, err := l.Read(ctx, cluster)
	if err != nil {
		return err
	}
	if found.Holder != "" {
		return nil
	}
	if err := l.remove(ctx, found.object); err != nil {
		return err
	}
	data, err := json.Marshal(information{MachineName: machine, MachineNamespace: cluster.Namespace})
	if err != nil {
		return fmt.Errorf("encoding the lock: %w", err)
	}
	object := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, Name: keyOf(key).Name,
			Labels: map[string]string{clusterv1.ClusterNameLabel: cluster.Name},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: cluster.Name, UID: cluster.UID,
			}},
		},
		Data: map[string]string{v1alpha1.InPlaceUpgradeLockKey: string(data)},
	}
	if err := l.client.Create(ctx, object); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("taking the lock ConfigMap %s: %w", keyOf(key), err)
	}
	return nil
}

// Release gives the lock back, if the Machine holds it.
func (l controlPlaneLocks) Release(ctx context.Context, cluster metav1.Object, machine string) error {
	found, err := l.Read(ctx, cluster)
	if err != nil || found.Holder != machine {
		return err
	}
	return l.remove(ctx, found.object)
}

// remove deletes a lock that is still what was read; one that has changed since is somebody else's.
func (l controlPlaneLocks) remove(ctx context.Context, object *corev1.ConfigMap) error {
	if object == nil {
		return nil
	}
	err := l.client.Delete(ctx, object, client.Preconditions{UID: &object.UID, ResourceVersion: &object.ResourceVersion})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("removing the lock ConfigMap %s: %w", client.ObjectKeyFromObject(object), err)
	}
	return nil
}

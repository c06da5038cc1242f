package annotated

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
)

// locks are the locks that control plane Machines hold while they are upgraded, one for each Cluster.
type locks struct {
	client client.Client
	live   client.Reader
}

// lockInformation is the wire format of a lock.
type lockInformation struct {
	MachineName      string `json:"machineName"`
	MachineNamespace string `json:"machineNamespace"`
}

// lock is a lock as it was read.
type lock struct {
	// object is the ConfigMap; nil where there is none.
	object *corev1.ConfigMap
	// holder names the Machine that holds the lock, in words where that cannot be told; empty if nobody holds it.
	holder string
}

func lockKey(cluster types.NamespacedName) types.NamespacedName {
	return types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Name + v1alpha1.InPlaceUpgradeLockSuffix}
}

// read reads who holds the lock of a Cluster. A Machine that does not exist any longer holds none.
func (l locks) read(ctx context.Context, cluster types.NamespacedName) (lock, error) {
	key := lockKey(cluster)
	found := &corev1.ConfigMap{}
	if err := l.live.Get(ctx, key, found); err != nil {
		if apierrors.IsNotFound(err) {
			return lock{}, nil
		}
		return lock{}, fmt.Errorf("reading the lock ConfigMap %s: %w", key, err)
	}
	info, ok := readLock(found)
	if !ok {
		return lock{object: found, holder: fmt.Sprintf("unknown (look at %s in ConfigMap %s, which cannot be read)", v1alpha1.InPlaceUpgradeLockKey, key)}, nil
	}
	holder := types.NamespacedName{Namespace: info.MachineNamespace, Name: info.MachineName}
	if holder.Namespace == "" {
		holder.Namespace = cluster.Namespace
	}
	machine := metadataOf(clusterv1.GroupVersion.WithKind("Machine"))
	if err := l.live.Get(ctx, holder, machine); err != nil {
		if apierrors.IsNotFound(err) {
			return lock{object: found}, nil
		}
		return lock{}, fmt.Errorf("reading Machine %s, which holds the lock ConfigMap %s: %w", holder, key, err)
	}
	if holder.Namespace != cluster.Namespace {
		return lock{object: found, holder: holder.String()}, nil
	}
	return lock{object: found, holder: holder.Name}, nil
}

func readLock(object *corev1.ConfigMap) (info lockInformation, ok bool) {
	err := json.Unmarshal([]byte(object.Data[v1alpha1.InPlaceUpgradeLockKey]), &info)
	return info, err == nil && info.MachineName != ""
}

// take takes the lock for a Machine, unless another one that exists holds it; who holds it then is for read to say.
func (l locks) take(ctx context.Context, cluster *clusterv1.Cluster, machine string) error {
	key := client.ObjectKeyFromObject(cluster)
	found, err := l.read(ctx, key)
	if err != nil {
		return err
	}
	if found.holder != "" {
		return nil
	}
	if err := l.remove(ctx, found.object); err != nil {
		return err
	}
	data, err := json.Marshal(lockInformation{MachineName: machine, MachineNamespace: cluster.Namespace})
	if err != nil {
		return fmt.Errorf("encoding the lock: %w", err)
	}
	object := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, Name: lockKey(key).Name,
			Labels: map[string]string{clusterv1.ClusterNameLabel: cluster.Name},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: cluster.Name, UID: cluster.UID,
			}},
		},
		Data: map[string]string{v1alpha1.InPlaceUpgradeLockKey: string(data)},
	}
	if err := l.client.Create(ctx, object); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("taking the lock ConfigMap %s: %w", lockKey(key), err)
	}
	return nil
}

// release gives the lock back, if the Machine holds it.
func (l locks) release(ctx context.Context, cluster types.NamespacedName, machine string) error {
	found, err := l.read(ctx, cluster)
	if err != nil || found.holder != machine {
		return err
	}
	return l.remove(ctx, found.object)
}

// remove deletes a lock that is still what was read; one that has changed since is somebody else's.
func (l locks) remove(ctx context.Context, object *corev1.ConfigMap) error {
	if object == nil {
		return nil
	}
	err := l.client.Delete(ctx, object, client.Preconditions{UID: &object.UID, ResourceVersion: &object.ResourceVersion})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("removing the lock ConfigMap %s: %w", client.ObjectKeyFromObject(object), err)
	}
	return nil
}

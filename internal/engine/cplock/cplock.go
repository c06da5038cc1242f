// Package cplock is the lock that a control plane Machine holds while an annotation has it upgraded in place: one for each Cluster, in a ConfigMap whose
// form other programs share.
package cplock

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

// Locks are the locks of Clusters. They are safe for concurrent use, also by several processes.
type Locks struct {
	client client.Client
	live   client.Reader
}

// New returns the locks that a client writes. They are read from the API server: what was just written must be seen.
func New(c client.Client, live client.Reader) Locks { return Locks{client: c, live: live} }

// information is the wire format of a lock.
type information struct {
	MachineName      string `json:"machineName"`
	MachineNamespace string `json:"machineNamespace"`
}

// Lock is a lock as it was read.
type Lock struct {
	// Holder names the Machine that holds the lock, in words where that cannot be told; empty if nobody holds it.
	Holder string
	// object is the ConfigMap; nil where there is none.
	object *corev1.ConfigMap
}

func keyOf(cluster types.NamespacedName) types.NamespacedName {
	return types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Name + v1alpha1.InPlaceUpgradeLockSuffix}
}

// Read reads who holds the lock of a Cluster. A Machine that does not exist any longer holds none.
func (l Locks) Read(ctx context.Context, cluster types.NamespacedName) (Lock, error) {
	key := keyOf(cluster)
	found := &corev1.ConfigMap{}
	if err := l.live.Get(ctx, key, found); err != nil {
		if apierrors.IsNotFound(err) {
			return Lock{}, nil
		}
		return Lock{}, fmt.Errorf("reading the lock ConfigMap %s: %w", key, err)
	}
	info, ok := parse(found)
	if !ok {
		return Lock{object: found, Holder: fmt.Sprintf("unknown (look at %s in ConfigMap %s, which cannot be read)", v1alpha1.InPlaceUpgradeLockKey, key)}, nil
	}
	holder := types.NamespacedName{Namespace: info.MachineNamespace, Name: info.MachineName}
	if holder.Namespace == "" {
		holder.Namespace = cluster.Namespace
	}
	machine := &metav1.PartialObjectMetadata{}
	machine.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("Machine"))
	if err := l.live.Get(ctx, holder, machine); err != nil {
		if apierrors.IsNotFound(err) {
			return Lock{object: found}, nil
		}
		return Lock{}, fmt.Errorf("reading Machine %s, which holds the lock ConfigMap %s: %w", holder, key, err)
	}
	if holder.Namespace != cluster.Namespace {
		return Lock{object: found, Holder: holder.String()}, nil
	}
	return Lock{object: found, Holder: holder.Name}, nil
}

func parse(object *corev1.ConfigMap) (info information, ok bool) {
	err := json.Unmarshal([]byte(object.Data[v1alpha1.InPlaceUpgradeLockKey]), &info)
	return info, err == nil && info.MachineName != ""
}

// Take takes the lock for a Machine, unless another one that exists holds it; who holds it then is for Read to say. Taking it twice is no error.
func (l Locks) Take(ctx context.Context, cluster *clusterv1.Cluster, machine string) error {
	key := client.ObjectKeyFromObject(cluster)
	found, err := l.Read(ctx, key)
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
func (l Locks) Release(ctx context.Context, cluster types.NamespacedName, machine string) error {
	found, err := l.Read(ctx, cluster)
	if err != nil || found.Holder != machine {
		return err
	}
	return l.remove(ctx, found.object)
}

// remove deletes a lock that is still what was read; one that has changed since is somebody else's.
func (l Locks) remove(ctx context.Context, object *corev1.ConfigMap) error {
	if object == nil {
		return nil
	}
	err := l.client.Delete(ctx, object, client.Preconditions{UID: &object.UID, ResourceVersion: &object.ResourceVersion})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("removing the lock ConfigMap %s: %w", client.ObjectKeyFromObject(object), err)
	}
	return nil
}

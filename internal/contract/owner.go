package contract

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/internal/capi"
)

// FetchOwner returns the owner of a Machine's group, as capi.OwnerOf and capi.OwnerThrough derive it; ok
// is false if it has none. It reads the metadata of the MachineSet of a Machine whose label is gone. If
// that MachineSet is gone, it is the owner.
func FetchOwner(
	ctx context.Context, c client.Reader, machine metav1.Object,
) (owner capi.Owner, ok bool, err error) {
	owner, ok = capi.OwnerOf(machine)
	if !ok || owner.GroupKind() != capi.MachineSetKind.GroupKind() {
		return owner, ok, nil
	}
	set := capi.MetadataOf(capi.MachineSetKind)
	err = c.Get(ctx, owner.NamespacedName, set)
	if apierrors.IsNotFound(err) {
		return owner, ok, nil
	}
	if err != nil {
		return owner, ok, fmt.Errorf("reading MachineSet %s: %w", owner.Name, err)
	}
	return capi.OwnerThrough(set), ok, nil
}

// Group identifies what a Machine belongs to: a MachineDeployment, or a control plane object in the
// version that its controller wrote.
type Group struct {
	capi.Owner
	ControlPlane bool
}

// FetchGroup returns the group of a Machine that an UpdatePolicy may select, by capi.Memberships; ok is
// false if it has none. It reads what FetchOwner reads. The object of the group need not exist.
func FetchGroup(
	ctx context.Context, c client.Reader, machine metav1.Object,
) (group Group, ok bool, err error) {
	owner, ok, err := FetchOwner(ctx, c, machine)
	if err != nil || !ok {
		return Group{}, false, err
	}
	group = Group{Owner: owner, ControlPlane: capi.IsControlPlane(machine)}
	return group, group.ControlPlane || owner.IsMachineDeployment(), nil
}

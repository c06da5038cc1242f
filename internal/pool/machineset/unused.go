package machineset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/internal/contract"
)

// DeleteUnused deletes bootstrap configs and infrastructure that the MachineSet has created and
// that no Machine uses. A run that was killed before it created the Machine leaves such objects. It
// lists all of a namespace, so it does not look again soon if there were none.
func (r *Run) DeleteUnused(ctx context.Context) error {
	known, recent := r.looked.Get(r.Set.UID, r.Now())
	if recent && known == foundNone {
		return nil
	}
	none, used := true, objectsOf(r.Machines...)
	spec := r.Set.Spec.Template.Spec
	refs := []clusterv1.ContractVersionedObjectReference{spec.InfrastructureRef}
	if spec.Bootstrap.ConfigRef.IsDefined() {
		refs = append(refs, spec.Bootstrap.ConfigRef)
	}
	var errs []error
	for _, ref := range refs {
		owned, err := r.listOwned(ctx, ref)
		if err != nil {
			return fmt.Errorf("looking for objects that no Machine uses: %w", err)
		}
		for i := range owned {
			object := &owned[i]
			if object.GetDeletionTimestamp() != nil || used.Has(keyOf(object)) {
				continue
			}
			none = false
			errs = append(errs, r.deleteIfUnused(ctx, object))
		}
	}
	if none && !recent {
		r.looked.Put(r.Set.UID, foundNone, r.Now(), lookAgain)
	}
	return errors.Join(errs...)
}

// look is what is known of the objects that a MachineSet owns.
type look bool

const (
	// mayCreate: the MachineSet was about to create some a short while ago, and a cache may not show
	// them.
	mayCreate look = false
	// foundNone: there were none without a Machine.
	foundNone look = true
)

const (
	// creationShows is longer than it takes until a cache shows what was created.
	creationShows = time.Minute
	// lookAgain is how long a MachineSet without unused objects is not looked at again.
	lookAgain = 15 * time.Minute
)

// listOwned returns the objects of the kind of a template that the MachineSet owns. Once an object
// has a Machine, the Machine owns it in the MachineSet's place. The objects must not be changed:
// they are the cache's own.
func (r *Run) listOwned(
	ctx context.Context, ref clusterv1.ContractVersionedObjectReference,
) ([]unstructured.Unstructured, error) {
	kind := ref.GroupKind()
	kind.Kind = strings.TrimSuffix(kind.Kind, clusterv1.TemplateSuffix)
	version, err := contract.FetchAPIVersion(ctx, r.Client, kind)
	if err != nil {
		return nil, err
	}
	labels, err := metav1.LabelSelectorAsMap(&r.Set.Spec.Selector)
	if err != nil {
		return nil, fmt.Errorf("reading the selector of MachineSet %s: %w", r.Set.Name, err)
	}
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion(version)
	list.SetKind(kind.Kind + "List")
	err = r.Client.List(ctx, list, client.InNamespace(r.Set.Namespace), client.MatchingLabels(labels),
		client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", kind, err)
	}
	return slices.DeleteFunc(list.Items, func(o unstructured.Unstructured) bool {
		return !util.HasOwnerRef(o.GetOwnerReferences(), r.ownerReference())
	}), nil
}

// objectKey names an object that a Machine refers to.
type objectKey struct{ kind, name string }

func keyOf(object *unstructured.Unstructured) objectKey {
	return objectKey{object.GetKind(), object.GetName()}
}

// objectsOf returns the bootstrap configs and infrastructure that Machines use.
func objectsOf(machines ...*clusterv1.Machine) sets.Set[objectKey] {
	used := make(sets.Set[objectKey], 2*len(machines))
	for _, m := range machines {
		for _, ref := range []clusterv1.ContractVersionedObjectReference{
			m.Spec.InfrastructureRef, m.Spec.Bootstrap.ConfigRef,
		} {
			used.Insert(objectKey{ref.Kind, ref.Name})
		}
	}
	return used
}

func (r *Run) deleteIfUnused(ctx context.Context, object *unstructured.Unstructured) error {
	kind, name := object.GetKind(), object.GetName()
	// The cache may not show a Machine that was just created, or that has just moved to another
	// MachineSet. An object has the name of its Machine.
	live := &clusterv1.Machine{}
	err := r.APIReader.Get(ctx, client.ObjectKeyFromObject(object), live)
	if err == nil && objectsOf(live).Has(keyOf(object)) {
		return nil
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("looking for the Machine of %s %s: %w", kind, name, err)
	}
	if err := r.Client.Delete(ctx, object); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting %s %s, which no Machine uses: %w", kind, name, err)
	}
	return nil
}

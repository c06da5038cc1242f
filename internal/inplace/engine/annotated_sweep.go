package engine

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/keyed"
)

// shownObject names an object with our condition.
type shownObject struct {
	kind schema.GroupKind
	key  types.NamespacedName
}

// shownSet is which objects this process knows to have our condition. Objects are cached without
// their status, so that one from which a person has taken the annotation while it waited would look
// as if nothing were left to do. It is safe for concurrent use.
type shownSet struct {
	objects keyed.Memory[shownObject, struct{}]
}

func (s *shownSet) has(kind schema.GroupKind, key types.NamespacedName) bool {
	_, ok := s.objects.Get(shownObject{kind, key}, time.Time{})
	return ok
}

func (s *shownSet) add(kind schema.GroupKind, key types.NamespacedName) {
	s.objects.Put(shownObject{kind, key}, struct{}{}, time.Time{}, keyed.Forever)
}

func (s *shownSet) remove(kind schema.GroupKind, key types.NamespacedName) {
	s.objects.Forget(shownObject{kind, key})
}

// SweepUpgrades calls found with each object that has our condition, so that a condition goes whose
// annotation was removed while no process ran. It reads every Machine once: call it when the
// process starts to lead. found must have the object reconciled. A kind that cannot be listed does
// not stop the others. The error joins those of all kinds; found has been called for what was read
// before.
func (e *Engine) SweepUpgrades(ctx context.Context, found func(client.Object)) error {
	var problems []error
	for _, gvk := range []schema.GroupVersionKind{machineKind, deploymentKind, kubeadmControlPlaneKind} {
		problems = append(problems, e.eachWith(ctx, gvk, v1alpha1.InPlaceUpgradeCondition, func(object *unstructured.Unstructured) {
			e.shown.add(gvk.GroupKind(), client.ObjectKeyFromObject(object))
			found(object)
		}))
	}
	return errors.Join(problems...)
}

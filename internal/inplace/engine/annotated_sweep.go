package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/capi"
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
	mu      sync.Mutex
	objects map[shownObject]struct{}
}

func newShownSet() *shownSet { return &shownSet{objects: map[shownObject]struct{}{}} }

func (s *shownSet) has(kind schema.GroupKind, key types.NamespacedName) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.objects[shownObject{kind, key}]
	return ok
}

func (s *shownSet) add(kind schema.GroupKind, key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects[shownObject{kind, key}] = struct{}{}
}

func (s *shownSet) remove(kind schema.GroupKind, key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.objects, shownObject{kind, key})
}

// SweepUpgrades calls found with each object that has our condition, so that a condition goes whose
// annotation was removed while no process ran. It reads every Machine once: call it when the
// process starts to lead. found must have the object reconciled. A kind that cannot be listed does
// not stop the others. The error joins those of all kinds; found has been called for what was read
// before.
func (e *Engine) SweepUpgrades(ctx context.Context, found func(client.Object)) error {
	var problems []error
	for _, gvk := range []schema.GroupVersionKind{machineKind, deploymentKind, kubeadmControlPlaneKind} {
		problems = append(problems, e.sweepKind(ctx, gvk, found))
	}
	return errors.Join(problems...)
}

func (e *Engine) sweepKind(ctx context.Context, gvk schema.GroupVersionKind, found func(client.Object)) error {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(gvk)
	for more := true; more; more = list.GetContinue() != "" {
		err := e.Live.List(ctx, list, client.Limit(pageSize), client.Continue(list.GetContinue()))
		if meta.IsNoMatchError(err) {
			return nil // The API server does not serve KubeadmControlPlanes.
		}
		if err != nil {
			return fmt.Errorf("listing %ss: %w", gvk.Kind, err)
		}
		for i := range list.Items {
			object := &list.Items[i]
			if meta.FindStatusCondition(capi.Conditions(object), v1alpha1.InPlaceUpgradeCondition) == nil {
				continue
			}
			e.shown.add(gvk.GroupKind(), client.ObjectKeyFromObject(object))
			found(object)
		}
	}
	return nil
}

package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/capi"
)

// pageSize bounds what a list holds in memory at once.
const pageSize = 250

// blockedObject names an object with the UpdateBlocked condition: a MachineDeployment, a control plane
// object, or a control plane Machine. See owner.shownOn.
type blockedObject struct {
	kind schema.GroupVersionKind
	key  types.NamespacedName
}

// blockedSet is what this process knows to be blocked, and by which sources: the MachineSets, or control plane Machines, that
// were asked about. It is safe for concurrent use.
type blockedSet struct {
	mu      sync.Mutex
	objects map[blockedObject]map[string]struct{}
}

func newBlockedSet() *blockedSet {
	return &blockedSet{objects: map[blockedObject]map[string]struct{}{}}
}

func (s *blockedSet) add(o blockedObject, sources ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.objects[o] == nil {
		s.objects[o] = map[string]struct{}{}
	}
	for _, source := range sources {
		s.objects[o][source] = struct{}{}
	}
}

// has reports whether an object is known to be blocked by a source.
func (s *blockedSet) has(o blockedObject, source string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.objects[o][source]
	return ok
}

// lift takes a source away. It reports whether it was one, and whether the object is blocked by
// none any longer.
func (s *blockedSet) lift(o blockedObject, source string) (known, lifted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sources, blocked := s.objects[o]
	if !blocked {
		return false, false
	}
	_, known = sources[source]
	delete(sources, source)
	if len(sources) > 0 {
		return known, false
	}
	delete(s.objects, o)
	return known, true
}

func (s *blockedSet) remove(o blockedObject) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.objects, o)
}

func (s *blockedSet) list() []blockedObject {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]blockedObject, 0, len(s.objects))
	for o := range s.objects {
		list = append(list, o)
	}
	slices.SortFunc(list, func(a, b blockedObject) int { return strings.Compare(a.String(), b.String()) })
	return list
}

func (o blockedObject) isMachine() bool { return o.kind == machineKind }

// String names the object for people.
func (o blockedObject) String() string { return o.kind.Kind + " " + o.key.String() }

// FindBlocked reads which objects of these kinds have the UpdateBlocked condition, so that Unblock knows of those that an
// earlier process left. Kinds that the API server does not know are skipped. Of Machines, only those of
// control planes count.
func (e *Engine) FindBlocked(ctx context.Context, kinds []schema.GroupVersionKind) error {
	for _, kind := range kinds {
		var options []client.ListOption
		if kind == machineKind {
			options = append(options, client.HasLabels{clusterv1.MachineControlPlaneLabel})
		}
		err := e.eachWith(ctx, kind, v1alpha1.UpdateBlockedCondition, func(object *unstructured.Unstructured) {
			e.blocked.add(blockedObject{kind: kind, key: client.ObjectKeyFromObject(object)})
		}, options...)
		if err != nil {
			return err
		}
	}
	return nil
}

// eachWith calls found with each object of a kind that the watch filter selects and that has a condition; none
// where the API server does not know the kind.
func (e *Engine) eachWith(
	ctx context.Context, kind schema.GroupVersionKind, condition string,
	found func(*unstructured.Unstructured), options ...client.ListOption,
) error {
	newList := func() *unstructured.UnstructuredList {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		return list
	}
	err := eachPage(ctx, e.Live, newList, func(page *unstructured.UnstructuredList) {
		for i := range page.Items {
			if e.selects(&page.Items[i]) && capi.FindCondition(&page.Items[i], condition) != nil {
				found(&page.Items[i])
			}
		}
	}, options...)
	if err != nil && !meta.IsNoMatchError(err) {
		return fmt.Errorf("listing %ss: %w", kind.Kind, err)
	}
	return nil
}

// selects reports whether this process is responsible for an object, by the watch filter.
func (e *Engine) selects(object client.Object) bool {
	return e.WatchFilter == "" || object.GetLabels()[clusterv1.WatchLabel] == e.WatchFilter
}

// Unblock removes the UpdateBlocked condition from MachineDeployments and control plane objects whose machines are all up to
// date. Cluster API asks no hook when a user takes a change back that was not covered, so nothing else would. It looks at a
// bounded number of objects of each namespace, and logs what fails. The error is that of ctx.
func (e *Engine) Unblock(ctx context.Context) error {
	var tasks []task
	for _, o := range e.blocked.list() {
		tasks = append(tasks, task{o.key, func(ctx context.Context) error { return e.unblock(ctx, o) }})
	}
	e.unblocking.sweep(ctx, tasks)
	return ctx.Err()
}

func (e *Engine) unblock(ctx context.Context, o blockedObject) error {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(o.kind)
	if err := e.Live.Get(ctx, o.key, object); err != nil {
		if apierrors.IsNotFound(err) {
			e.blocked.remove(o)
			return nil
		}
		return fmt.Errorf("reading %s: %w", o, err)
	}
	if isBlocked(object) {
		if !upToDate(object) {
			return nil
		}
		if err := e.RemoveCondition(ctx, object, FieldOwner, v1alpha1.UpdateBlockedCondition); err != nil {
			return err
		}
		logFor(ctx).Info("Machines are up to date, nothing blocks them any longer", "kind", o.kind.Kind, "object", o.key.String())
	}
	e.forgetSaid(object.GetUID())
	e.blocked.remove(o)
	return nil
}

func isBlocked(object *unstructured.Unstructured) bool {
	return capi.FindCondition(object, v1alpha1.UpdateBlockedCondition) != nil
}

// upToDate reports whether an object's controller has seen its spec, and all replicas are what it asks for. The fields are
// those of Cluster API's contract. A Machine has a condition.
func upToDate(object *unstructured.Unstructured) bool {
	if object.GroupVersionKind() == machineKind {
		c := capi.FindCondition(object, clusterv1.MachineUpToDateCondition)
		return c != nil && c.Status == metav1.ConditionTrue
	}
	read := func(fields ...string) int64 {
		n, found, err := unstructured.NestedInt64(object.Object, fields...)
		if err != nil || !found {
			return 0
		}
		return n
	}
	replicas := read("spec", "replicas")
	return read("status", "observedGeneration") >= object.GetGeneration() &&
		read("status", "replicas") == replicas && read("status", "upToDateReplicas") == replicas
}

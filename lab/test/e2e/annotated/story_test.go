package annotated_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace/request"
)

// The kinds that a story is about.
const (
	kindMachine      = "Machine"
	kindGroup        = "MachineDeployment"
	kindControlPlane = "KubeadmControlPlane"
)

// state is one version of one object.
type state struct {
	// revision orders the versions of all objects: they are in one etcd, whose revisions count all of them.
	revision     int64
	kind         string
	key          types.NamespacedName
	uid          types.UID
	created      metav1.Time
	controlPlane bool
	// gone says that the object does not exist any more, or is about to go.
	gone  bool
	marks request.Marks
	// upgrade is the record of a Machine.
	upgrade *request.Upgrade
	// condition is that about upgrades in place; nil where there is none.
	condition *metav1.Condition
	// spec is the version that is asked for, kubelet what a Machine's node reports.
	spec, kubelet string
	// settled says of a Machine that its node is healthy and Cluster API does nothing to it; of a group that it has all its machines, and they are ready.
	settled bool
}

func (s state) String() string {
	text := fmt.Sprintf("%s %s: spec %s, kubelet %s, settled %t, marks %+v", s.kind, s.key, s.spec, s.kubelet, s.settled, s.marks)
	if s.upgrade != nil {
		text += fmt.Sprintf(", upgrade to %s", s.upgrade.Option)
		if s.upgrade.Progress != nil {
			text += fmt.Sprintf(" %+v", *s.upgrade.Progress)
		}
	}
	if s.condition != nil {
		text += fmt.Sprintf(", condition %s %s: %s", s.condition.Status, s.condition.Reason, s.condition.Message)
	}
	return text
}

// story has every version of every Machine and group since it began, and the Events, as watches show them. Nothing is polled.
type story struct {
	cache client.Reader

	mu sync.Mutex
	// changed is closed, and replaced, whenever something changes.
	changed chan struct{}
	states  []state
	latest  map[types.UID]state
	// heard is called with each state, one after another.
	heard func(state)
}

func follow(ctx context.Context, t *testing.T, config *rest.Config, scheme *runtime.Scheme) *story {
	t.Helper()
	c, err := cache.New(config, cache.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	s := &story{cache: c, changed: make(chan struct{}), latest: map[types.UID]state{}, heard: func(state) {}}
	for _, object := range []client.Object{&clusterv1.Machine{}, &clusterv1.MachineDeployment{}, &controlplanev1.KubeadmControlPlane{}, &corev1.ConfigMap{}, &eventsv1.Event{}} {
		informer, err := c.GetInformer(ctx, object, cache.BlockUntilSynced(false))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: func(o any) { s.see(o, false) }, UpdateFunc: func(_, o any) { s.see(o, false) }, DeleteFunc: func(o any) { s.see(o, true) },
		}); err != nil {
			t.Fatal(err)
		}
	}
	go func() { _ = c.Start(ctx) }() // It fails only when it is started twice.
	if !c.WaitForCacheSync(ctx) {
		t.Fatalf("waiting for the first objects: %v", context.Cause(ctx))
	}
	return s
}

func (s *story) see(object any, gone bool) {
	if tombstone, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
		object = tombstone.Obj
	}
	o, ok := object.(client.Object)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if seen, is := readState(o); is {
		seen.gone = seen.gone || gone
		s.states = append(s.states, seen)
		s.latest[seen.uid] = seen
		s.heard(seen)
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

func readState(o client.Object) (s state, is bool) {
	revision, _ := strconv.ParseInt(o.GetResourceVersion(), 10, 64) // it is a number, by etcd
	_, controlPlane := o.GetLabels()[clusterv1.MachineControlPlaneLabel]
	value := func(suffix string) string { return o.GetAnnotations()[v1alpha1.DefaultInPlaceUpgradePrefix+suffix] }
	s = state{
		revision: revision, key: client.ObjectKeyFromObject(o), uid: o.GetUID(), created: o.GetCreationTimestamp(), controlPlane: controlPlane, gone: o.GetDeletionTimestamp() != nil,
		marks: request.Marks{
			To: value(v1alpha1.InPlaceUpgradeTo), Status: request.Status(value(v1alpha1.InPlaceUpgradeStatus)), Release: value(v1alpha1.InPlaceUpgradeRelease),
			ChangeID: value(v1alpha1.InPlaceUpgradeChangeID), LastFailed: value(v1alpha1.InPlaceUpgradeLastFailedAttemptAt),
		},
	}
	var conditions []metav1.Condition
	switch o := o.(type) {
	case *clusterv1.Machine:
		s.kind, s.spec, conditions = kindMachine, o.Spec.Version, o.Status.Conditions
		if o.Status.NodeInfo != nil {
			s.kubelet = o.Status.NodeInfo.KubeletVersion
		}
		_, updating := o.Annotations[clusterv1.UpdateInProgressAnnotation]
		s.settled = !updating && meta.IsStatusConditionTrue(conditions, clusterv1.MachineNodeHealthyCondition) && meta.IsStatusConditionTrue(conditions, clusterv1.MachineReadyCondition)
		if text, recorded := o.Annotations[v1alpha1.InPlaceUpgradeAnnotation]; recorded {
			s.upgrade = &request.Upgrade{}
			if err := json.Unmarshal([]byte(text), s.upgrade); err != nil {
				s.upgrade.Message = "it cannot be read: " + err.Error()
			}
		}
	case *clusterv1.MachineDeployment:
		s.kind, s.spec, conditions = kindGroup, o.Spec.Template.Spec.Version, o.Status.Conditions
		s.settled = full(o.Spec.Replicas, o.Status.Replicas, o.Status.ReadyReplicas, o.Status.UpToDateReplicas)
	case *controlplanev1.KubeadmControlPlane:
		s.kind, s.spec, conditions = kindControlPlane, o.Spec.Version, o.Status.Conditions
		s.settled = full(o.Spec.Replicas, o.Status.Replicas, o.Status.ReadyReplicas, o.Status.UpToDateReplicas)
	default:
		return state{}, false
	}
	s.condition = meta.FindStatusCondition(conditions, v1alpha1.InPlaceUpgradeCondition)
	return s, true
}

// full reports whether all counts are what is wanted.
func full(wanted *int32, counts ...*int32) bool {
	return wanted != nil && !slices.ContainsFunc(counts, func(n *int32) bool { return n == nil || *n != *wanted })
}

// history returns all versions of a namespace's objects, in order.
func (s *story) history(namespace string) []state {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.DeleteFunc(slices.Clone(s.states), func(x state) bool { return x.key.Namespace != namespace })
	slices.SortStableFunc(all, func(a, b state) int { return cmp.Compare(a.revision, b.revision) })
	return all
}

// now returns the objects of a kind that there are in a namespace, by name.
func (s *story) now(namespace, kind string) []state {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.DeleteFunc(slices.Collect(maps.Values(s.latest)), func(x state) bool { return x.key.Namespace != namespace || x.kind != kind || x.gone })
	slices.SortFunc(all, func(a, b state) int { return strings.Compare(a.key.Name, b.key.Name) })
	return all
}

// machines returns the Machines of a control plane, or all others, by name.
func (s *story) machines(namespace string, controlPlane bool) []state {
	return slices.DeleteFunc(s.now(namespace, kindMachine), func(x state) bool { return x.controlPlane != controlPlane })
}

// one returns the object of a name; the zero state where there is none.
func (s *story) one(kind string, key types.NamespacedName) state {
	for _, x := range s.now(key.Namespace, kind) {
		if x.key == key {
			return x
		}
	}
	return state{}
}

// uids returns the Machines that there ever were in a namespace.
func (s *story) uids(namespace string) []types.UID {
	found := map[types.UID]bool{}
	for _, x := range s.history(namespace) {
		if x.kind == kindMachine {
			found[x.uid] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// onState has hear called with each further state. It must be quick.
func (s *story) onState(hear func(state)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard = hear
}

// await waits until check returns "", and otherwise says what is still missing when ctx ends. It checks after every change.
func (s *story) await(ctx context.Context, t *testing.T, what string, check func() (missing string)) {
	t.Helper()
	for {
		s.mu.Lock()
		changed := s.changed
		s.mu.Unlock()
		missing := check()
		if missing == "" {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("%s: %s (%v)", what, missing, context.Cause(ctx))
		}
	}
}

// events returns the Events about upgrades in place of an object, as "reason: note", with repetitions.
func (s *story) events(ctx context.Context, t *testing.T, kind string, key types.NamespacedName) []string {
	t.Helper()
	list := &eventsv1.EventList{}
	if err := s.cache.List(ctx, list, client.InNamespace(key.Namespace)); err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(list.Items, func(a, b eventsv1.Event) int { return a.EventTime.Compare(b.EventTime.Time) })
	var said []string
	for i := range list.Items {
		e := &list.Items[i]
		if e.Regarding.Kind != kind || e.Regarding.Name != key.Name || !strings.HasPrefix(e.Reason, "InPlaceUpgrade") {
			continue
		}
		times := 1
		if e.Series != nil {
			times = int(e.Series.Count)
		}
		for range times {
			said = append(said, e.Reason+": "+e.Note)
		}
	}
	return said
}

// awaitNoLock waits until nobody holds the lock of a Cluster's control plane.
func (s *story) awaitNoLock(ctx context.Context, t *testing.T, cluster types.NamespacedName) {
	t.Helper()
	key := types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Name + v1alpha1.InPlaceUpgradeLockSuffix}
	s.await(ctx, t, "waiting until the lock is released", func() string {
		lock := &corev1.ConfigMap{}
		err := s.cache.Get(ctx, key, lock)
		if apierrors.IsNotFound(err) {
			return ""
		}
		return fmt.Sprintf("%v, %v", lock.Data, err)
	})
}

// lines tells what there is, for people.
func (s *story) lines() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var lines []string
	for _, x := range s.latest {
		if !x.gone {
			lines = append(lines, x.String())
		}
	}
	slices.Sort(lines)
	return lines
}

package annotated_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace/request"
	"github.com/windlass-dev/windlass/lab/internal/history"
	"github.com/windlass-dev/windlass/lab/test/e2e/internal/rig"
)

// The kinds that a story is about.
const (
	kindMachine      = history.KindMachine
	kindGroup        = history.KindGroup
	kindControlPlane = history.KindControlPlane
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

// story reads the history of the plane as states.
type story struct{ rig.History }

func readState(f history.Fact) state {
	o := f.Object
	_, controlPlane := o.GetLabels()[clusterv1.MachineControlPlaneLabel]
	value := func(suffix string) string { return o.GetAnnotations()[v1alpha1.DefaultInPlaceUpgradePrefix+suffix] }
	s := state{
		revision: f.Revision, kind: f.Kind, key: client.ObjectKeyFromObject(o), uid: f.UID, created: o.GetCreationTimestamp(), controlPlane: controlPlane,
		gone: f.Deleting, spec: f.Version, condition: f.Condition(v1alpha1.InPlaceUpgradeCondition),
		marks: request.Marks{
			To: value(v1alpha1.InPlaceUpgradeTo), Status: request.Status(value(v1alpha1.InPlaceUpgradeStatus)), Release: value(v1alpha1.InPlaceUpgradeRelease),
			ChangeID: value(v1alpha1.InPlaceUpgradeChangeID), LastFailed: value(v1alpha1.InPlaceUpgradeLastFailedAttemptAt),
		},
	}
	switch o := o.(type) {
	case *clusterv1.Machine:
		s.kubelet = f.Reported
		_, updating := o.Annotations[clusterv1.UpdateInProgressAnnotation]
		s.settled = !updating && meta.IsStatusConditionTrue(o.Status.Conditions, clusterv1.MachineNodeHealthyCondition) && meta.IsStatusConditionTrue(o.Status.Conditions, clusterv1.MachineReadyCondition)
		if text, recorded := o.Annotations[v1alpha1.InPlaceUpgradeAnnotation]; recorded {
			s.upgrade = &request.Upgrade{}
			if err := json.Unmarshal([]byte(text), s.upgrade); err != nil {
				s.upgrade.Message = "it cannot be read: " + err.Error()
			}
		}
	case *clusterv1.MachineDeployment:
		s.settled = full(o.Spec.Replicas, o.Status.Replicas, o.Status.ReadyReplicas, o.Status.UpToDateReplicas)
	case *controlplanev1.KubeadmControlPlane:
		s.settled = full(o.Spec.Replicas, o.Status.Replicas, o.Status.ReadyReplicas, o.Status.UpToDateReplicas)
	}
	return s
}

// full reports whether all counts are what is wanted.
func full(wanted *int32, counts ...*int32) bool {
	return wanted != nil && !slices.ContainsFunc(counts, func(n *int32) bool { return n == nil || *n != *wanted })
}

// isState reports whether a fact is about a kind that stories are about.
func isState(f history.Fact) bool {
	return f.Kind == kindMachine || f.Kind == kindGroup || f.Kind == kindControlPlane
}

// states returns all versions of a namespace's objects, in order.
func (s story) states(namespace string) []state {
	var all []state
	for _, f := range s.Facts(func(f history.Fact) bool { return f.Cluster.Namespace == namespace && isState(f) }) {
		all = append(all, readState(f))
	}
	return all
}

// now returns the objects of a kind that there are in a namespace, by name.
func (s story) now(namespace, kind string) []state {
	o := s.Now(types.NamespacedName{Namespace: namespace, Name: namespace})
	var all []state
	for _, p := range []history.Part{o.Part(""), o.Part(namespace + sampleWorkers)} {
		for _, f := range append([]history.Fact{p.Fact}, p.Machines...) {
			if f.Kind == kind && !f.Deleting {
				all = append(all, readState(f))
			}
		}
	}
	slices.SortFunc(all, func(a, b state) int { return strings.Compare(a.key.Name, b.key.Name) })
	return all
}

// machines returns the Machines of a control plane, or all others, by name.
func (s story) machines(namespace string, controlPlane bool) []state {
	return slices.DeleteFunc(s.now(namespace, kindMachine), func(x state) bool { return x.controlPlane != controlPlane })
}

// one returns the object of a name; the zero state where there is none.
func (s story) one(kind string, key types.NamespacedName) state {
	for _, x := range s.now(key.Namespace, kind) {
		if x.key == key {
			return x
		}
	}
	return state{}
}

// uids returns the Machines that there ever were in a namespace.
func (s story) uids(namespace string) []types.UID {
	return slices.Sorted(maps.Keys(s.Machines(namespace)))
}

// events returns the Events about upgrades in place of an object, as "reason: note", with repetitions.
func (s story) events(ctx context.Context, t *testing.T, kind string, key types.NamespacedName) []string {
	t.Helper()
	list := &eventsv1.EventList{}
	if err := s.List(ctx, list, client.InNamespace(key.Namespace)); err != nil {
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
func (s story) awaitNoLock(ctx context.Context, t *testing.T, cluster types.NamespacedName) {
	t.Helper()
	key := types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Name + v1alpha1.InPlaceUpgradeLockSuffix}
	s.Await(ctx, t, "waiting until the lock is released", func() string {
		lock := &corev1.ConfigMap{}
		err := s.Get(ctx, key, lock)
		if apierrors.IsNotFound(err) {
			return ""
		}
		return fmt.Sprintf("%v, %v", lock.Data, err)
	})
}

// lines tells what there is, for people.
func (s story) lines(namespace string) []string {
	var lines []string
	for _, kind := range []string{kindControlPlane, kindGroup, kindMachine} {
		for _, x := range s.now(namespace, kind) {
			lines = append(lines, x.String())
		}
	}
	return lines
}

package objects

import (
	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/cluster-api/util/predicates"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// Changes lets an update pass if the facts that are taken from the object have changed, and
// everything that is not an update. It lets the periodic resync pass, which is an update without a
// change: Cluster API's builder lets it pass for some kinds only.
func Changes(facts func(client.Object) any) predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		if e.ObjectOld.GetResourceVersion() == e.ObjectNew.GetResourceVersion() {
			return true
		}
		return !equality.Semantic.DeepEqual(facts(e.ObjectOld), facts(e.ObjectNew))
	}}
}

// ClusterEvents lets events of a Cluster pass by which its groups are paused or resumed, as Cluster
// API's controllers do. With policies, an update of labels passes too: a policy may select a group
// by the labels of its Cluster.
func ClusterEvents(scheme *runtime.Scheme, log logr.Logger, policies bool) predicate.Predicate {
	paused := predicates.ClusterPausedTransitions(scheme, log)
	if !policies {
		return paused
	}
	return predicate.Or(paused, Updates(predicate.LabelChangedPredicate{}.Update))
}

// Updates lets nothing pass but the updates that accepts is true for.
func Updates(accepts func(event.UpdateEvent) bool) predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: never[event.CreateEvent], DeleteFunc: never[event.DeleteEvent],
		GenericFunc: never[event.GenericEvent], UpdateFunc: accepts,
	}
}

func never[E any](E) bool { return false }

// Metadata is what the controllers of pools read of the metadata of objects.
type Metadata struct {
	Generation          int64
	Labels, Annotations map[string]string
	Owners              []metav1.OwnerReference
	Finalizers          []string
	Deleting            bool
}

// MetadataOf returns the Metadata of an object. It shares maps and lists with the object.
func MetadataOf(o metav1.Object) Metadata {
	return Metadata{
		Generation: o.GetGeneration(), Labels: o.GetLabels(), Annotations: o.GetAnnotations(),
		Owners: o.GetOwnerReferences(), Finalizers: o.GetFinalizers(),
		Deleting: o.GetDeletionTimestamp() != nil,
	}
}

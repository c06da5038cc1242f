package objects

import (
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

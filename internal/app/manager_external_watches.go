package app

import (
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// externalFields are what Cluster API's Machine controller copies from an infrastructure machine or
// a bootstrap config to its Machine and its Node once the object is initialized. It reads none of
// them before.
var externalFields = [][]string{
	{"spec", "providerID"}, {"spec", "failureDomain"}, {"status", "failureDomain"},
	{"status", "addresses"}, {"status", "interruptible"}, {"status", "dataSecretName"},
}

// alwaysFields are what it reads of each object.
var alwaysFields = [][]string{
	{"status", "failureReason"}, {"status", "failureMessage"},
	{"metadata", "annotations", clusterv1.PausedAnnotation},
}

// externalUrgency is now for what isExternalUrgent finds, and soon for the rest of what the Machine
// controller reads or may pass on: words, marks, the spec, and fields of the status that this
// program does not know. It is never for the bookkeeping of others.
func externalUrgency(a, b *unstructured.Unstructured) urgency {
	switch {
	case isExternalUrgent(a, b):
		return now
	case equality.Semantic.DeepEqual(withoutBookkeeping(a), withoutBookkeeping(b)):
		return never
	}
	return soon
}

// withoutBookkeeping returns the spec, the status but for observed generations and conditions other
// than Ready, and those metadata that the controller reads.
func withoutBookkeeping(o *unstructured.Unstructured) []any {
	fields := []any{o.Object["spec"], statusWithoutBookkeeping(o.Object["status"])}
	for _, path := range [][]string{
		{"uid"}, {"deletionTimestamp"}, {"ownerReferences"}, {"labels", clusterv1.ClusterNameLabel},
		{"annotations", clusterv1.UpdateInProgressAnnotation},
		{"annotations", clusterv1.MachineCertificatesExpiryDateAnnotation},
	} {
		fields = append(fields, nested(o.Object, append([]string{"metadata"}, path...)...))
	}
	return fields
}

// statusWithoutBookkeeping is nil for a status that has nothing else. The contracts of Cluster API
// have conditions at three places.
func statusWithoutBookkeeping(status any) any {
	fields, ok := status.(map[string]any)
	if !ok {
		return status
	}
	out := make(map[string]any, len(fields))
	for key, value := range fields {
		switch key {
		case "conditions":
			value = readyWords(value)
		case "deprecated", "v1beta1", "v1beta2":
			value = statusWithoutBookkeeping(value)
		case "observedGeneration":
			value = nil
		}
		if value != nil {
			out[key] = value
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// readyWords returns what the Machine controller mirrors of the condition Ready.
func readyWords(conditions any) any {
	fields := ready(conditions)
	if fields == nil {
		return nil
	}
	return []any{
		fields["status"], fields["reason"], fields["message"], fields["severity"],
		fields["lastTransitionTime"],
	}
}

func ready(conditions any) map[string]any {
	list, _ := conditions.([]any)
	for _, c := range list {
		if fields, ok := c.(map[string]any); ok && fields["type"] == clusterv1.ReadyCondition {
			return fields
		}
	}
	return nil
}

// isExternalUrgent reports whether the update of an infrastructure machine or a bootstrap config
// can change what the Machine controller does. TestMachineControllerReads pins the functions of
// v1.14.2 from which this is taken:
//   - whether the object is initialized, and then externalFields and whether it is ready;
//   - alwaysFields. The controller gets no events of a paused object, so it waits for its end;
//   - whether the Machine owns it: the controller takes an object back. Its own write does not count.
//
// Labels and other annotations can change nothing, and neither can the rest of the spec, which an
// update in place reads after it has begun. The words of the condition Ready are only mirrored. For
// an object in deletion the controller waits until it is gone, which is no update.
func isExternalUrgent(a, b *unstructured.Unstructured) bool {
	changed := func(fields [][]string) bool {
		for _, path := range fields {
			if !equality.Semantic.DeepEqual(nested(a.Object, path...), nested(b.Object, path...)) {
				return true
			}
		}
		return false
	}
	initialized := isInitialized(b.Object)
	switch {
	case nested(b.Object, "metadata", "deletionTimestamp") != nil:
		return false
	case isOwnedByMachine(a) && !isOwnedByMachine(b), changed(alwaysFields),
		isInitialized(a.Object) != initialized:
		return true
	}
	return initialized && (changed(externalFields) || isReady(a.Object) != isReady(b.Object))
}

// isInitialized reports whether an infrastructure machine is provisioned, or the Secret of a
// bootstrap config is there. Before that the Machine controller only mirrors conditions.
func isInitialized(object map[string]any) bool {
	for _, path := range [][]string{
		{"status", "ready"}, // In the contract v1beta1.
		{"status", "initialization", "provisioned"},
		{"status", "initialization", "dataSecretCreated"},
	} {
		if is, _ := nested(object, path...).(bool); is {
			return true
		}
	}
	return false
}

// isReady reports whether the condition Ready is true, at each of the three places.
func isReady(object map[string]any) [3]bool {
	var are [3]bool
	for i, path := range [][]string{
		{"status", "conditions"}, {"status", "v1beta2", "conditions"},
		{"status", "deprecated", "v1beta1", "conditions"},
	} {
		condition := ready(nested(object, path...))
		are[i] = condition["status"] == string(metav1.ConditionTrue)
	}
	return are
}

// externalUpdateDelay is short for the mark of an update in place, without which the update does
// not begin.
func externalUpdateDelay(before any, b *unstructured.Unstructured) time.Duration {
	mark := func(o *unstructured.Unstructured) any {
		return nested(o.Object, "metadata", "annotations", clusterv1.UpdateInProgressAnnotation)
	}
	if a, ok := before.(*unstructured.Unstructured); ok && mark(a) == nil && mark(b) != nil {
		return rolloutDelay
	}
	return externalDelay
}

// nested returns a field of an object; nil if it has none.
func nested(object map[string]any, path ...string) any {
	value, found, err := unstructured.NestedFieldNoCopy(object, path...)
	if err != nil || !found {
		return nil
	}
	return value
}

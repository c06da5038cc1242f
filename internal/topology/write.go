package topology

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/core/reconcilers/topology/cluster/structuredmerge"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A Change is one object that was written.
type Change struct {
	Kind schema.GroupVersionKind
	Key  client.ObjectKey
	// ResourceVersion is the one that a cache must have reached to show the change. Empty for a deletion.
	ResourceVersion string
	Verb            Verb
}

// A Verb says what was done to an object.
type Verb string

// The verbs of a Change.
const (
	Created Verb = "Create"
	Updated Verb = "Update"
	Deleted Verb = "Delete"
)

// NotInPlaceReason is the reason of the Event on a MachinePool whose version or template changes:
// an UpdatePolicy does not apply to it.
const NotInPlaceReason = "NotUpdatedInPlace"

// Reasons of Events, as the stock manager has them.
var eventReasons = map[Verb]string{Created: "TopologyCreate", Updated: "TopologyUpdate", Deleted: "TopologyDelete"}

// applier writes the objects of one Cluster once.
type applier struct {
	*Objects
	cluster *clusterv1.Cluster
	changes []Change
}

// A target is one object and where it belongs.
type target struct {
	slot slot
	// current is nil when the object is to be created.
	current, desired client.Object
	ignore           structuredmerge.IgnorePaths
}

// An assessment says what applying a target would change.
type assessment struct {
	intent *unstructured.Unstructured
	// state is what to remember once the object is as intended.
	state                known
	changes, changesSpec bool
}

func (a *applier) key() client.ObjectKey { return client.ObjectKeyFromObject(a.cluster) }

// computeAssessment prepares an assessment, which says that everything changes.
func computeAssessment(scheme *runtime.Scheme, t target) (*assessment, error) {
	intent, err := computeIntent(scheme, t.desired, t.ignore)
	if err != nil {
		return nil, err
	}
	result := &assessment{intent: intent, changes: true, changesSpec: true}
	if result.state.intent, err = computeDigest(intent.Object); err != nil {
		return nil, err
	}
	if result.state.spec, err = computeDigest(intent.Object["spec"]); err != nil {
		return nil, err
	}
	if t.current != nil {
		if result.state.current, err = computeFingerprint(scheme, t.current); err != nil {
			return nil, err
		}
	}
	return result, nil
}

// assess finds out what an apply would change, by dry runs if what is known does not tell.
func (a *applier) assess(ctx context.Context, t target, template bool) (*assessment, error) {
	result, err := computeAssessment(a.client.Scheme(), t)
	if err != nil || t.current == nil {
		return result, err
	}
	last, ok := a.memory.get(a.key(), t.slot, result.state.current)
	switch {
	case ok && last.intent == result.state.intent:
		result.changes, result.changesSpec = false, false
		return result, nil
	case ok && last.spec == result.state.spec:
		result.changesSpec = false
		return result, nil
	case ok && !template:
		return result, nil
	}
	helper, err := structuredmerge.NewServerSidePatchHelper(ctx, t.current, t.desired, a.client, noRequestCache{}, t.ignore)
	if err != nil {
		return nil, fmt.Errorf("asking what applying %s %s would change: %w", result.intent.GetKind(), name(t.current), err)
	}
	result.changes, result.changesSpec = helper.HasChanges(), helper.HasSpecChanges()
	if !result.changes {
		a.memory.put(a.key(), t.slot, result.state)
	}
	return result, nil
}

// noRequestCache turns off the patch helper's own memory.
type noRequestCache struct{}

func (noRequestCache) Add(string) {}

func (noRequestCache) Has(string, string) bool { return false }

// write applies an assessed target, creating the object if there is none, and records what was done. note is added to the Event.
func (a *applier) write(ctx context.Context, t target, result *assessment, note string) error {
	intent := result.intent.DeepCopy()
	kind := intent.GroupVersionKind()
	verb := Created
	log := ctrl.LoggerFrom(ctx).WithValues("object", kind.Kind, "name", name(intent))
	if t.current != nil {
		verb = Updated
		// With a UID the API server refuses to create an object that was deleted meanwhile.
		intent.SetUID(t.current.GetUID())
	}
	if err := a.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(intent), client.FieldOwner(structuredmerge.TopologyManagerName), client.ForceOwnership); err != nil {
		if t.current == nil {
			log.Error(err, "Creating an object of the topology")
			return newCreateError(t.desired, kind.GroupKind(), err)
		}
		return fmt.Errorf("applying %s %s: %w", kind.Kind, name(t.desired), err)
	}
	if err := a.learn(t, result.state, intent); err != nil {
		return err
	}
	if t.current != nil && t.current.GetResourceVersion() == intent.GetResourceVersion() {
		return nil
	}
	if t.current != nil {
		if current, err := toUnstructured(a.client.Scheme(), t.current); err == nil {
			log = log.WithValues("fields", changedFields(current.Object, result.intent.Object))
		}
	}
	log.Info(string(verb) + " an object of the topology")
	a.record(verb, kind, client.ObjectKeyFromObject(intent), intent.GetResourceVersion(), note)
	return nil
}

// learn remembers that the object is now as intended.
func (a *applier) learn(t target, state known, written *unstructured.Unstructured) error {
	object, err := normalize(a.client.Scheme(), written, t.desired)
	if err != nil {
		return err
	}
	if state.current, err = computeFingerprint(a.client.Scheme(), object); err != nil {
		return err
	}
	a.memory.put(a.key(), t.slot, state)
	return nil
}

// apply brings an object to its desired state. note is added to the Event.
func (a *applier) apply(ctx context.Context, t target, note string) error {
	result, err := a.assess(ctx, t, false)
	if err != nil || !result.changes {
		return err
	}
	return a.write(ctx, t, result, note)
}

// A template is a target that is never changed in place, except for its metadata: a change of the spec makes a new object, so that a rollout is
// seen by a reference to another name.
type template struct {
	target
	// prefix begins the names of new templates.
	prefix string
	// revision is the MachineDeployment's: templates of the same content have other names in
	// another revision. Empty for control planes.
	revision string
	// missing is the name by which a MachineDeployment refers to a template that does not exist.
	// current is nil then.
	missing string
}

// applyTemplate creates, changes or rotates a template. It returns the object as it is now wanted, whose name is a new one after a rotation,
// and whether it was created by this call: one that an earlier attempt has created may be in use already.
func (a *applier) applyTemplate(ctx context.Context, t template) (*unstructured.Unstructured, bool, error) {
	result, err := a.assess(ctx, t.target, true)
	if err != nil {
		return nil, false, err
	}
	return a.writeTemplate(ctx, t, result)
}

// writeTemplate writes a template as its assessment requires. It returns what applyTemplate does.
func (a *applier) writeTemplate(
	ctx context.Context, t template, result *assessment,
) (*unstructured.Unstructured, bool, error) {
	switch {
	case t.missing != "":
		return a.rotate(ctx, t, result)
	case t.current == nil:
		return result.intent, true, a.write(ctx, t.target, result, "")
	case !result.changes:
		return result.intent, false, nil
	case !result.changesSpec:
		return result.intent, false, a.write(ctx, t.target, result, " (metadata only)")
	}
	return a.rotate(ctx, t, result)
}

// rotated returns the template that takes the place of t, which is not written yet.
func (t template) rotated(result *assessment) *unstructured.Unstructured {
	replaced := "missing " + t.missing
	if t.current != nil {
		replaced = string(t.current.GetUID())
	}
	rotated := result.intent.DeepCopy()
	rotated.SetName(computeTemplateName(t.prefix, replaced, t.revision, result.state.intent))
	return rotated
}

// rotate writes the template that takes the place of t. It returns what applyTemplate does.
func (a *applier) rotate(
	ctx context.Context, t template, result *assessment,
) (*unstructured.Unstructured, bool, error) {
	note, rotated := fmt.Sprintf(" in the place of %q, which is missing", t.missing), t.rotated(result)
	if t.current != nil {
		note = fmt.Sprintf(" in the place of %q", t.current.GetName())
	}
	t.current, t.desired = nil, rotated
	exists, err := a.existsLive(ctx, rotated)
	if err != nil {
		return nil, false, err
	}
	if result, err = a.assess(ctx, t.target, true); err != nil {
		return nil, false, err
	}
	if err := a.write(ctx, t.target, result, note); err != nil {
		return nil, false, err
	}
	return rotated, !exists, nil
}

// existsLive asks the API server itself whether there is such an object. What an earlier attempt came to, whose answer was lost, no cache need
// show yet.
func (a *applier) existsLive(ctx context.Context, object *unstructured.Unstructured) (bool, error) {
	found := &metav1.PartialObjectMetadata{}
	found.SetGroupVersionKind(object.GroupVersionKind())
	err := a.apiReader.Get(ctx, client.ObjectKeyFromObject(object), found)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("getting %s %s: %w", object.GetKind(), name(object), err)
	}
	return err == nil, nil
}

// cleanUp deletes templates that this attempt of a step that failed has created, as far as it can. The garbage collector gets the rest with the Cluster.
// The caller does not call it when the step's outcome is not known: it may have succeeded, and its object may refer to them.
func (a *applier) cleanUp(ctx context.Context, created []client.Object) {
	for _, object := range created {
		if err := a.client.Delete(ctx, object); err != nil && !apierrors.IsNotFound(err) {
			ctrl.LoggerFrom(ctx).Error(err, "Deleting a template that was created for nothing", "template", name(object))
		}
	}
}

// delete deletes an object. One that is gone, or is being deleted, is no error.
func (a *applier) delete(ctx context.Context, object client.Object) error {
	if !object.GetDeletionTimestamp().IsZero() {
		return nil
	}
	kind, err := a.client.GroupVersionKindFor(object)
	if err != nil {
		return fmt.Errorf("deleting %s: %w", name(object), err)
	}
	if err := a.client.Delete(ctx, object); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("deleting %s %s: %w", kind.Kind, name(object), err)
	}
	ctrl.LoggerFrom(ctx).Info("Delete an object of the topology", "object", kind.Kind, "name", name(object))
	a.record(Deleted, kind, client.ObjectKeyFromObject(object), "", "")
	return nil
}

// record notes a change, with an Event on the Cluster.
func (a *applier) record(verb Verb, kind schema.GroupVersionKind, key client.ObjectKey, resourceVersion, note string) {
	a.changes = append(a.changes, Change{Kind: kind, Key: key, ResourceVersion: resourceVersion, Verb: verb})
	var regarding runtime.Object = a.cluster
	a.recorder.Eventf(regarding, nil, corev1.EventTypeNormal, eventReasons[verb], string(verb), "%sd %s %q%s", verb, kind.Kind, key, note)
}

// versionNote words a change of version for an Event.
func versionNote(from, to string) string {
	if from == "" || to == "" || from == to {
		return ""
	}
	return fmt.Sprintf(" with version change from %s to %s", from, to)
}

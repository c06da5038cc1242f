package objects

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/windlass-dev/windlass/internal/keyed"
)

// Lifetime is how long an Applier remembers that an intent changes nothing. Each hit renews it. It
// is longer than the period of the manager's resync, so that a resync writes nothing.
const Lifetime = 30 * time.Minute

// Applier applies objects with server-side apply. It remembers which intents changed nothing, by
// object and field manager, and omits them while the object's part in the answer is the same. An
// Applier is safe for concurrent use, for one object by one caller at a time.
type Applier struct {
	client client.Client
	now    func() time.Time
	memory keyed.Memory[applied, settled]
}

// applied names the intent of one field manager for one object.
type applied struct {
	manager string
	kind    schema.GroupKind
	key     client.ObjectKey
}

// settled is an intent, and the object as it was after the intent was applied.
type settled struct {
	intent, object Digest
	uid            types.UID
	version        string
	// at is when the intent was applied.
	at time.Time
}

// NewApplier returns an Applier that remembers nothing. now is the clock by which it forgets.
func NewApplier(c client.Client, now func() time.Time) *Applier {
	return &Applier{client: c, now: now}
}

// Apply applies what desired says about metadata and spec, as a field manager, with force.
// Afterwards desired is the object as the API server returned it. Set its UID to prevent that an
// object that was deleted is created again. The error does not contain the name of the object: that
// of a new object is random, and a condition with the error would change with each attempt.
func (a *Applier) Apply(ctx context.Context, manager string, desired client.Object) error {
	intent, err := intentOf(a.client.Scheme(), desired)
	if err != nil {
		return err
	}
	wanted, err := intentDigest(intent)
	if err != nil {
		return err
	}
	return a.apply(ctx, manager, desired, intent, wanted)
}

// ApplyIfChanged is [Applier.Apply] for an object that exists. original is the object as the
// caller's cache has it. Where the intent would change nothing, because it was applied before and
// the object's part in the answer is the same, or because original is older than the answer and
// the cache may lag, it sends no request, and desired becomes a copy of original. If desired has a resourceVersion, the
// API server refuses the intent with a conflict unless the object has it still.
func (a *Applier) ApplyIfChanged(
	ctx context.Context, manager string, desired, original client.Object,
) error {
	c, err := a.compare(manager, desired, original)
	if err != nil {
		return err
	}
	if c.same {
		return replace(a.client.Scheme(), original, desired)
	}
	c.intent.SetResourceVersion(desired.GetResourceVersion())
	return a.apply(ctx, manager, desired, c.intent, c.wanted)
}

// ChangesNothing reports whether [Applier.ApplyIfChanged] would send no request.
func (a *Applier) ChangesNothing(manager string, desired, original client.Object) (bool, error) {
	c, err := a.compare(manager, desired, original)
	return c.same, err
}

// comparison is an intent beside what is remembered.
type comparison struct {
	intent *unstructured.Unstructured
	wanted Digest
	// same says that the intent would change nothing.
	same bool
}

func (a *Applier) compare(manager string, desired, original client.Object) (comparison, error) {
	scheme := a.client.Scheme()
	intent, err := intentOf(scheme, desired)
	if err != nil {
		return comparison{}, err
	}
	wanted, err := intentDigest(intent)
	if err != nil {
		return comparison{}, err
	}
	before, ok, err := fingerprint(scheme, original, manager, intent)
	if err != nil {
		return comparison{}, err
	}
	id, now := identify(manager, intent), a.now()
	known, remembered := a.memory.Get(id, now)
	if !ok || !remembered || known.intent != wanted {
		return comparison{intent, wanted, false}, nil
	}
	if known.object == before {
		a.memory.Put(id, known, now, Lifetime)
		return comparison{intent, wanted, true}, nil
	}
	// Otherwise the API server compares: if the cache is right after all, the intent was lost.
	return comparison{intent, wanted, keyed.Lags(known.at, now) && known.isNewerThan(original)}, nil
}

func identify(manager string, intent *unstructured.Unstructured) applied {
	return applied{manager, intent.GroupVersionKind().GroupKind(), client.ObjectKeyFromObject(intent)}
}

// apply sends an intent, makes desired what the API server returned, and remembers both.
func (a *Applier) apply(
	ctx context.Context, manager string, desired client.Object,
	intent *unstructured.Unstructured, wanted Digest,
) error {
	scheme, id, answer := a.client.Scheme(), identify(manager, intent), intent.DeepCopy()
	a.memory.Forget(id)
	err := a.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(answer),
		client.ForceOwnership, client.FieldOwner(manager))
	if err != nil {
		return fmt.Errorf("failed to apply %s: %w", intent.GetKind(), err)
	}
	if err := replace(scheme, answer, desired); err != nil {
		return err
	}
	after, ok, err := fingerprint(scheme, desired, manager, intent)
	if err == nil && ok {
		now := a.now()
		known := settled{wanted, after, desired.GetUID(), desired.GetResourceVersion(), now}
		a.memory.Put(id, known, now, Lifetime)
	}
	return err
}

// isNewerThan reports whether a cache does not show yet what was applied.
func (s settled) isNewerThan(original client.Object) bool {
	order, err := resourceversion.CompareResourceVersion(original.GetResourceVersion(), s.version)
	return err == nil && order < 0 && original.GetUID() == s.uid
}

// replace makes target a copy of object, which may have another Go type for the same kind.
func replace(scheme *runtime.Scheme, object, target client.Object) error {
	kind, err := apiutil.GVKForObject(object, scheme)
	if err != nil {
		return fmt.Errorf("finding the kind of %T: %w", object, err)
	}
	source, err := toUnstructured(scheme, object)
	if err != nil {
		return err
	}
	if u, ok := target.(*unstructured.Unstructured); ok {
		u.Object = source.DeepCopy().Object
		return nil
	}
	// An update of target in place would keep fields that the source does not have.
	fresh, err := scheme.New(kind)
	if err != nil {
		return fmt.Errorf("making a %s: %w", kind.Kind, err)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(source.Object, fresh); err != nil {
		return fmt.Errorf("reading %s %s: %w", kind.Kind, client.ObjectKeyFromObject(object), err)
	}
	if err := scheme.Convert(fresh, target, nil); err != nil {
		return fmt.Errorf("copying %s %s: %w", kind.Kind, client.ObjectKeyFromObject(object), err)
	}
	target.GetObjectKind().SetGroupVersionKind(kind)
	return nil
}

// toUnstructured returns the object itself if it is unstructured, else a conversion of it.
func toUnstructured(
	scheme *runtime.Scheme, object client.Object,
) (*unstructured.Unstructured, error) {
	if already, ok := object.(*unstructured.Unstructured); ok {
		return already, nil
	}
	converted := &unstructured.Unstructured{}
	if err := scheme.Convert(object, converted, nil); err != nil {
		return nil, fmt.Errorf("converting %T %s: %w", object, client.ObjectKeyFromObject(object), err)
	}
	return converted, nil
}

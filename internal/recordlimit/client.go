package recordlimit

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/internal/record"
)

// NewClient is client.New with a client that changes no annotation to a value beyond its limit: the
// error then wraps a *record.TooLongError. JSON patches are not looked at; Windlass changes managed fields with them.
func NewClient(config *rest.Config, options client.Options) (client.Client, error) {
	c, err := client.New(config, options)
	if err != nil {
		return nil, err //nolint:wrapcheck // It is this function.
	}
	return Bound(c), nil
}

// Bound returns a client that writes with c as NewClient's does.
func Bound(c client.Client) client.Client { return bounded{c} }

type bounded struct{ client.Client }

// Create creates an object.
func (b bounded) Create(ctx context.Context, object client.Object, options ...client.CreateOption) error {
	if err := check(object, object.GetAnnotations()); err != nil {
		return err
	}
	return b.Client.Create(ctx, object, options...) //nolint:wrapcheck // It is this method.
}

// Update updates an object.
func (b bounded) Update(ctx context.Context, object client.Object, options ...client.UpdateOption) error {
	if err := b.checkChanged(ctx, object); err != nil {
		return err
	}
	return b.Client.Update(ctx, object, options...) //nolint:wrapcheck // It is this method.
}

// Apply applies an intent.
func (b bounded) Apply(ctx context.Context, intent runtime.ApplyConfiguration, options ...client.ApplyOption) error {
	if annotated, ok := intent.(client.Object); ok {
		if err := b.checkChanged(ctx, annotated); err != nil {
			return err
		}
	}
	return b.Client.Apply(ctx, intent, options...) //nolint:wrapcheck // It is this method.
}

// Patch patches an object.
func (b bounded) Patch(ctx context.Context, object client.Object, patch client.Patch, options ...client.PatchOption) error {
	if patch.Type() == types.JSONPatchType {
		return b.Client.Patch(ctx, object, patch, options...) //nolint:wrapcheck // It is this method.
	}
	data, err := patch.Data(object)
	if err != nil {
		return fmt.Errorf("computing a patch of %T %s: %w", object, client.ObjectKeyFromObject(object), err)
	}
	if bytes.Contains(data, []byte(`"annotations"`)) {
		var written struct {
			Metadata struct {
				Annotations map[string]string `json:"annotations"`
			} `json:"metadata"`
		}
		if err := json.Unmarshal(data, &written); err != nil {
			return fmt.Errorf("reading a patch of %T %s: %w", object, client.ObjectKeyFromObject(object), err)
		}
		if err := check(object, written.Metadata.Annotations); err != nil {
			return err
		}
	}
	return b.Client.Patch(ctx, object, client.RawPatch(patch.Type(), data), options...) //nolint:wrapcheck // It is this method.
}

// checkChanged checks the annotations that a write of a whole object changes. It reads the stored
// object only if one is beyond its limit: an earlier release or a tenant may have written that.
func (b bounded) checkChanged(ctx context.Context, object client.Object) error {
	err := check(object, object.GetAnnotations())
	if err == nil {
		return nil
	}
	stored, ok := object.DeepCopyObject().(client.Object)
	if !ok {
		return err
	}
	stored.SetAnnotations(nil)
	if b.Get(ctx, client.ObjectKeyFromObject(object), stored) != nil {
		return err // It is not known to be stored.
	}
	before, changed := stored.GetAnnotations(), maps.Clone(object.GetAnnotations())
	maps.DeleteFunc(changed, func(key, value string) bool { return before[key] == value })
	return check(object, changed)
}

func check(object client.Object, annotations map[string]string) error {
	if err := record.Check(annotations); err != nil {
		kind := cmp.Or(object.GetObjectKind().GroupVersionKind().Kind, fmt.Sprintf("%T", object))
		return fmt.Errorf("writing %s %s: %w", kind, client.ObjectKeyFromObject(object), err)
	}
	return nil
}

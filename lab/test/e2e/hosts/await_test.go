//go:build linux

package hosts_test

import (
	"context"
	"encoding/json"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/lab/internal/setup"
)

// await watches objects until check returns "" for one of them, and returns that. When ctx ends first, it says what is still missing.
func await[T client.Object](ctx context.Context, t *testing.T, p *plane, what string, list client.ObjectList, check func(T) (missing string), options ...client.ListOption) T {
	t.Helper()
	object, err := setup.Await(ctx, p.client, list, check, options...)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	return object
}

// create creates objects, in order.
func (p *plane) create(ctx context.Context, t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		if err := p.client.Create(ctx, object); err != nil {
			t.Fatalf("creating %T %s: %v", object, object.GetName(), err)
		}
	}
}

// patch applies a JSON merge patch. It carries no resource version: controllers write at the same time.
func (p *plane) patch(ctx context.Context, t *testing.T, object client.Object, change any) {
	t.Helper()
	data, err := json.Marshal(change)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.client.Patch(ctx, object, client.RawPatch(types.MergePatchType, data)); err != nil {
		t.Fatalf("patching %T %s: %v", object, object.GetName(), err)
	}
}

// spec is a patch of a spec.
func spec(fields map[string]any) map[string]any { return map[string]any{"spec": fields} }

package contract

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

func TestReadError(t *testing.T) {
	t.Parallel()
	kind, key := schema.GroupKind{Group: "x.example.com", Kind: "Plane"}, types.NamespacedName{Namespace: "ns", Name: "p"}
	resource := schema.GroupResource{Group: kind.Group, Resource: "planes"}
	forbidden := apierrors.NewForbidden(resource, key.Name, errors.New("no rule"))
	for name, tt := range map[string]struct {
		err  error
		want []string
	}{
		"forbidden": {err: forbidden, want: []string{"Plane ns/p", "right to get", "group x.example.com", "Fix: ", AggregationLabel}},
		"not found": {err: apierrors.NewNotFound(resource, key.Name), want: []string{"Plane ns/p", "not found"}},
	} {
		err := ReadError(kind, key, tt.err)
		if !errors.Is(err, tt.err) {
			t.Errorf("%s: %v", name, err)
		}
		for _, part := range tt.want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: the error does not name %q: %v", name, part, err)
			}
		}
	}
	if err := ReadError(kind, key, nil); err != nil {
		t.Error(err)
	}
	w := NewWatchable(&lister{answer: func(context.Context) error { return forbidden }}, time.Now)
	if err := w.Check(t.Context(), kind.WithVersion("v1")); !strings.Contains(err.Error(), "right to get, list and watch") {
		t.Error(err)
	}
}

package contract

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// lister answers lists as a test says, and counts them.
type lister struct {
	client.Reader
	answer func(context.Context) error
	lists  int
}

func (l *lister) List(ctx context.Context, _ client.ObjectList, _ ...client.ListOption) error {
	l.lists++
	return l.answer(ctx)
}

func TestWatchable(t *testing.T) {
	t.Parallel()
	kind := schema.GroupVersionKind{Group: "x.example.com", Version: "v1", Kind: "Plane"}
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "planes"}, "", errors.New("no rights"))
	now := time.Unix(1000, 0)
	live := &lister{answer: func(context.Context) error { return forbidden }}
	w := NewWatchable(live, func() time.Time { return now })
	check := func(want error, lists int) {
		t.Helper()
		err := w.Check(t.Context(), kind)
		if !errors.Is(err, want) || live.lists != lists {
			t.Errorf("%v after %d lists, want %v after %d", err, live.lists, want, lists)
		}
		if _, ok := errors.AsType[*NotWatchableError](err); ok != (want != nil) {
			t.Errorf("the error is a %T", err)
		}
	}
	check(forbidden, 1)
	check(forbidden, 1)
	if err := w.Check(t.Context(), kind); !strings.Contains(err.Error(), "Plane.x.example.com") {
		t.Errorf("the error does not name the kind: %v", err)
	}
	now = now.Add(refusalExpiry)
	check(forbidden, 2)
	busy := errors.New("too many requests")
	live.answer = func(context.Context) error { return busy }
	now = now.Add(refusalExpiry)
	check(busy, 3)
	check(busy, 3)
	live.answer = func(context.Context) error { return nil }
	now = now.Add(faultExpiry)
	check(nil, 4)
	check(nil, 5)
}

// TestWatchableIsBounded in time, by the time of the caller and by a limit of its own, and in memory.
func TestWatchableIsBounded(t *testing.T) {
	t.Parallel()
	kind := schema.GroupVersionKind{Group: "x.example.com", Version: "v1", Kind: "Plane"}
	waits := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	live := &lister{answer: waits}
	w := NewWatchable(live, func() time.Time { return time.Unix(1000, 0) })
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.Check(over, kind); !errors.Is(err, context.Canceled) || w.refused.Len() != 0 {
		t.Errorf("%v, %d kinds are remembered", err, w.refused.Len())
	}
	if err := w.Check(t.Context(), kind); !errors.Is(err, context.DeadlineExceeded) || w.refused.Len() != 1 {
		t.Errorf("%v, %d kinds are remembered", err, w.refused.Len())
	}
	live.answer = func(context.Context) error { return errors.New("no") }
	for i := range 3 * maxRefusals {
		kind.Kind = fmt.Sprint("Plane", i)
		_ = w.Check(t.Context(), kind)
		if w.refused.Len() > maxRefusals {
			t.Fatalf("%d kinds are remembered", w.refused.Len())
		}
	}
}

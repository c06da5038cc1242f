package contract

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/internal/keyed"
)

const (
	// ReadTimeout bounds a live list, or a read from a cache, of a kind that a tenant chose.
	ReadTimeout = 2 * time.Second
	// refusalExpiry is how long a kind counts as one that cannot be watched, and faultExpiry is how long
	// where the API server said no such thing: it may be busy, or just starting.
	refusalExpiry, faultExpiry = time.Minute, 5 * time.Second
	// maxRefusals bounds how many such kinds are remembered.
	maxRefusals = 1000
)

// NotWatchableError reports that objects of a kind cannot be listed, so that a cache of them never
// syncs.
type NotWatchableError struct {
	Kind schema.GroupKind
	Err  error
}

// Error names the kind and the cause.
func (e *NotWatchableError) Error() string { return fmt.Sprintf("cannot watch %s: %v", e.Kind, e.Err) }

// Unwrap returns why the objects cannot be listed.
func (e *NotWatchableError) Unwrap() error { return e.Err }

// Watchable finds out which kinds can be watched. A tenant names the kind of a control plane. A
// cached read of a kind that cannot be listed blocks until its context ends, so [Watchable.Check]
// must return nil before such a kind is watched or read from a cache. It is safe for concurrent use.
type Watchable struct {
	live client.Reader
	now  func() time.Time

	refused keyed.Memory[schema.GroupVersionKind, *NotWatchableError]
}

// NewWatchable returns a Watchable. live reads from the API server, and now is the clock.
func NewWatchable(live client.Reader, now func() time.Time) *Watchable {
	return &Watchable{live: live, now: now, refused: keyed.Memory[schema.GroupVersionKind, *NotWatchableError]{Most: maxRefusals}}
}

// Check lists at most one object of a kind, within [ReadTimeout]. It returns a [*NotWatchableError]
// if that fails. It returns the same error without asking again: for a minute where rights or the kind
// are missing, for seconds otherwise.
func (w *Watchable) Check(ctx context.Context, gvk schema.GroupVersionKind) error {
	if refused, known := w.refused.Get(gvk, w.now()); known {
		return refused
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	bounded, cancel := context.WithTimeout(ctx, ReadTimeout)
	defer cancel()
	err := w.live.List(bounded, list, client.Limit(1))
	if err == nil {
		return nil
	}
	if apierrors.IsForbidden(err) {
		err = &RightsError{Kind: gvk.GroupKind(), Verbs: "get, list and watch", Err: err}
	}
	refused := &NotWatchableError{Kind: gvk.GroupKind(), Err: err}
	if ctx.Err() == nil { // Otherwise the caller's time was over, which tells nothing about the kind.
		expiry := faultExpiry
		if lasts(err) {
			expiry = refusalExpiry
		}
		w.refused.Put(gvk, refused, w.now(), expiry)
	}
	return refused
}

// lasts reports whether a list will fail until somebody changes rights or CustomResourceDefinitions.
func lasts(err error) bool {
	_, forbidden := errors.AsType[*RightsError](err)
	return forbidden || apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) || meta.IsNoMatchError(err)
}

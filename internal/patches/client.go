package patches

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"sync"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/windlass-dev/windlass/internal/keyed"
)

// Client is a client for one reconciler. Requests about other kinds than that of the reconciler,
// and requests outside a reconcile, pass unchanged.
type Client struct {
	client.Client
	kind reflect.Type
	// reconcile identifies the reconcile that a request belongs to; empty means none.
	reconcile func(context.Context) types.UID

	// newest has what reconciles have written last, until the cache shows it.
	newest keyed.Memory[client.ObjectKey, client.Object]

	mu       sync.Mutex
	sessions map[types.UID]*session
}

// session is what one reconcile has read and written of its object. Only the goroutine of the
// reconcile uses it.
type session struct {
	client *Client
	key    client.ObjectKey
	// object is what the reconciler reads first, and changes until it writes it. before is a copy as
	// it was read.
	object, before client.Object
	// written is the object as the API server returned it last; nil if the reconcile has not written
	// it, or if a write failed.
	written client.Object
}

// NewClient returns a client for a reconciler of objects like kind. Each reconcile must read its
// object before others of its kind, and keep its changes of status in that object.
func NewClient(c client.Client, kind client.Object) *Client {
	return New(c, kind, controller.ReconcileIDFromContext)
}

// New is [NewClient] where the caller identifies reconciles. An empty identity means that a request
// belongs to none.
func New(
	c client.Client, kind client.Object, reconcile func(context.Context) types.UID,
) *Client {
	return &Client{
		Client: c, kind: reflect.TypeOf(kind), reconcile: reconcile,
		sessions: map[types.UID]*session{},
	}
}

// Get reads an object. Where a reconcile has written a newer version, it returns that one.
func (c *Client) Get(
	ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption,
) error {
	err := c.Client.Get(ctx, key, object, options...)
	if reflect.TypeOf(object) != c.kind {
		return err //nolint:wrapcheck // It is this method.
	}
	if err != nil {
		if apierrors.IsNotFound(err) {
			c.newest.Forget(key)
		}
		return err //nolint:wrapcheck // It is this method.
	}
	if written, ok := c.newest.Get(key, time.Time{}); ok {
		if isOlder(object, written) {
			replace(object, written)
		} else {
			c.newest.Forget(key)
		}
	}
	c.begin(ctx, key, object)
	return nil
}

// begin returns the session of a reconcile. The first object that a reconcile reads begins it. The
// end of the context, which is that of the reconcile, ends it.
func (c *Client) begin(ctx context.Context, key client.ObjectKey, object client.Object) {
	id := c.reconcile(ctx)
	if id == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.sessions[id]; !ok {
		s := &session{client: c, key: key, object: object, before: copyOf(object)}
		c.sessions[id] = s
		context.AfterFunc(ctx, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			delete(c.sessions, id)
		})
	}
}

// sessionOf returns the session that an object belongs to; nil if there is none.
func (c *Client) sessionOf(ctx context.Context, object client.Object) *session {
	if reflect.TypeOf(object) != c.kind {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.sessions[c.reconcile(ctx)]
	if s == nil || s.key != client.ObjectKeyFromObject(object) {
		return nil
	}
	return s
}

// Patch patches metadata and spec, unless the patch would change nothing.
func (c *Client) Patch(
	ctx context.Context, object client.Object, patch client.Patch, options ...client.PatchOption,
) error {
	s := c.sessionOf(ctx, object)
	if s == nil || patch.Type() != types.MergePatchType {
		s.forget()
		return c.Client.Patch(ctx, object, patch, options...) //nolint:wrapcheck // It is this method.
	}
	data, err := patch.Data(object)
	if err != nil {
		return fmt.Errorf("computing a patch of %T %s: %w", object, s.key, err)
	}
	if len(options) == 0 && s.repeats(data) {
		replace(object, s.written)
		return nil
	}
	answer := s.empty()
	err = c.Client.Patch(ctx, answer, client.RawPatch(types.MergePatchType, data), options...)
	s.record(answer, object, err)
	return err //nolint:wrapcheck // It is this method.
}

// Apply forgets what was written before: the intent may be about the same object.
func (c *Client) Apply(
	ctx context.Context, intent runtime.ApplyConfiguration, options ...client.ApplyOption,
) error {
	c.mu.Lock()
	s := c.sessions[c.reconcile(ctx)]
	c.mu.Unlock()
	s.forget()
	return c.Client.Apply(ctx, intent, options...) //nolint:wrapcheck // It is this method.
}

// Update forgets what was written before, because it may replace it.
func (c *Client) Update(
	ctx context.Context, object client.Object, options ...client.UpdateOption,
) error {
	c.sessionOf(ctx, object).forget()
	return c.Client.Update(ctx, object, options...) //nolint:wrapcheck // It is this method.
}

// Delete forgets what was written before: the object has another version afterwards.
func (c *Client) Delete(
	ctx context.Context, object client.Object, options ...client.DeleteOption,
) error {
	c.sessionOf(ctx, object).forget()
	return c.Client.Delete(ctx, object, options...) //nolint:wrapcheck // It is this method.
}

// Status returns a writer of the status.
func (c *Client) Status() client.SubResourceWriter {
	return statusWriter{c.Client.Status(), c}
}

type statusWriter struct {
	client.SubResourceWriter
	client *Client
}

// Patch patches the status, unless the patch would change nothing. A patch that requires a version
// of the object is the helper's patch of conditions: it gets the rest of status, too.
func (w statusWriter) Patch(
	ctx context.Context, object client.Object, patch client.Patch,
	options ...client.SubResourcePatchOption,
) error {
	s := w.client.sessionOf(ctx, object)
	if s == nil || patch.Type() != types.MergePatchType {
		s.forget()
		//nolint:wrapcheck // It is this method.
		return w.SubResourceWriter.Patch(ctx, object, patch, options...)
	}
	data, err := patch.Data(object)
	if err == nil {
		data, err = s.withStatus(data)
	}
	if err != nil {
		return fmt.Errorf("computing a patch of the status of %T %s: %w", object, s.key, err)
	}
	if len(options) == 0 && s.repeats(data) {
		replace(object, s.written)
		return nil
	}
	answer := s.empty()
	err = w.SubResourceWriter.Patch(
		ctx, answer, client.RawPatch(types.MergePatchType, data), options...)
	s.record(answer, object, err)
	return err //nolint:wrapcheck // It is this method.
}

// Update forgets what was written before, because it may replace it.
func (w statusWriter) Update(
	ctx context.Context, object client.Object, options ...client.SubResourceUpdateOption,
) error {
	w.client.sessionOf(ctx, object).forget()
	//nolint:wrapcheck // It is this method.
	return w.SubResourceWriter.Update(ctx, object, options...)
}

// forget makes the next patch be sent, whatever it has.
func (s *session) forget() {
	if s != nil {
		s.written = nil
	}
}

// empty returns an object for an answer. In any other object, fields would stay that the answer does
// not have.
func (s *session) empty() client.Object {
	object := copyOf(s.before)
	reflect.ValueOf(object).Elem().SetZero()
	object.GetObjectKind().SetGroupVersionKind(s.before.GetObjectKind().GroupVersionKind())
	object.SetNamespace(s.key.Namespace)
	object.SetName(s.key.Name)
	return object
}

// record remembers the answer to a write, and copies it to the caller's object.
func (s *session) record(answer, object client.Object, err error) {
	s.written = nil
	if err == nil {
		s.written = answer
		s.client.newest.Put(s.key, answer, time.Time{}, keyed.Forever)
		replace(object, answer)
	}
}

// repeats reports whether a merge patch would change nothing in what the API server has returned to
// this reconcile.
func (s *session) repeats(patch []byte) bool {
	if s.written == nil {
		return false
	}
	current, err := json.Marshal(s.written)
	if err != nil {
		return false
	}
	changed, err := jsonpatch.MergePatch(current, patch)
	return err == nil && jsonpatch.Equal(current, changed)
}

// withStatus adds to a patch of conditions what the reconciler has changed in the rest of status.
// Any other patch is returned unchanged.
func (s *session) withStatus(patch []byte) ([]byte, error) {
	var conditions map[string]any
	if err := json.Unmarshal(patch, &conditions); err != nil {
		return nil, err //nolint:wrapcheck // The caller does.
	}
	metadata, _ := conditions["metadata"].(map[string]any)
	if metadata["resourceVersion"] == nil || conditions["status"] == nil {
		return patch, nil
	}
	data, err := client.MergeFrom(s.before).Data(s.object)
	if err != nil {
		return nil, err //nolint:wrapcheck // The caller does.
	}
	var changes map[string]any
	if err := json.Unmarshal(data, &changes); err != nil {
		return nil, err //nolint:wrapcheck // The caller does.
	}
	status, ok := changes["status"].(map[string]any)
	if !ok {
		return patch, nil
	}
	rest, err := json.Marshal(map[string]any{"status": withoutConditions(status)})
	if err != nil {
		return nil, err //nolint:wrapcheck // The caller does.
	}
	return jsonpatch.MergeMergePatches(rest, patch) //nolint:wrapcheck // The caller does.
}

// withoutConditions removes the conditions of both forms from a patch of a status. Their merged
// lists are in the helper's patch.
func withoutConditions(status map[string]any) map[string]any {
	delete(status, "conditions")
	deprecated, _ := status["deprecated"].(map[string]any)
	if old, ok := deprecated["v1beta1"].(map[string]any); ok {
		delete(old, "conditions")
		if len(old) == 0 {
			delete(status, "deprecated")
		}
	}
	return status
}

// isOlder reports whether an object is older than another version of it. Versions that cannot be
// compared are not.
func isOlder(object, than client.Object) bool {
	order, err := resourceversion.CompareResourceVersion(
		object.GetResourceVersion(), than.GetResourceVersion())
	return err == nil && order < 0 && object.GetUID() == than.GetUID()
}

// replace makes target a copy of an object of the same type.
func replace(target, object client.Object) {
	reflect.ValueOf(target).Elem().Set(reflect.ValueOf(copyOf(object)).Elem())
}

func copyOf(object client.Object) client.Object {
	copied, _ := object.DeepCopyObject().(client.Object) // Copies are of the same type.
	return copied
}

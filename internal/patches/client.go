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
	// live reads from the API server.
	live client.Reader
	kind reflect.Type
	// reconcile identifies the reconcile that a request belongs to; empty means none.
	reconcile func(context.Context) types.UID
	now       func() time.Time

	// newest has what reconciles have written last, until the cache shows it or may not lag any longer.
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
	// refused is set after a conflict: the cache has an older version than the API server.
	refused bool
}

// NewClient returns a client for a reconciler of objects like kind. Each reconcile must read its
// object before others of its kind, and keep its changes of status in that object. live reads from the
// API server.
func NewClient(c client.Client, live client.Reader, kind client.Object) *Client {
	return New(c, live, kind, controller.ReconcileIDFromContext, time.Now)
}

// New is [NewClient] where the caller identifies reconciles, and has a clock. An empty identity means
// that a request belongs to none.
func New(
	c client.Client, live client.Reader, kind client.Object,
	reconcile func(context.Context) types.UID, now func() time.Time,
) *Client {
	return &Client{
		Client: c, live: live, kind: reflect.TypeOf(kind), reconcile: reconcile, now: now,
		sessions: map[types.UID]*session{},
	}
}

// Get reads an object. Where a reconcile of this process has written a newer version than the cache
// has, it returns that one for keyed.CacheLag. After a conflict it reads from the API server: the helper tries again five
// times within a second, and each time the cache may still have the version that was refused.
func (c *Client) Get(
	ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption,
) error {
	ours := reflect.TypeOf(object) == c.kind
	if ours && c.wasRefused(ctx, key) {
		return c.live.Get(ctx, key, object, options...) //nolint:wrapcheck // It is this method.
	}
	err := c.Client.Get(ctx, key, object, options...)
	if ours {
		c.update(key, object, err)
	}
	if err != nil || !ours {
		return err //nolint:wrapcheck // It is this method.
	}
	c.begin(ctx, key, object)
	return nil
}

// wasRefused reports whether the last write of an object in this reconcile met a conflict.
func (c *Client) wasRefused(ctx context.Context, key client.ObjectKey) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.sessions[c.reconcile(ctx)]
	return s != nil && s.key == key && s.refused
}

// update makes an object of the cache a copy of the last answer to a write of it, if that is newer. It
// forgets an answer that the cache has.
func (c *Client) update(key client.ObjectKey, object client.Object, err error) {
	written, ok := c.newest.Get(key, c.now())
	switch {
	case !ok:
	case err == nil && isOlder(object, written):
		replace(object, written)
	case err == nil || apierrors.IsNotFound(err):
		c.newest.Forget(key)
	}
}

// begin begins the session of a reconcile with the first object that it reads. The end of the context,
// which is that of the reconcile, ends it.
func (c *Client) begin(ctx context.Context, key client.ObjectKey, object client.Object) {
	id := c.reconcile(ctx)
	if id == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.sessions[id]; ok {
		return
	}
	c.sessions[id] = &session{client: c, key: key, object: object, before: copyOf(object)}
	context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.sessions, id)
	})
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
	s.written, s.refused = nil, apierrors.IsConflict(err)
	if err != nil {
		return
	}
	s.written = answer
	s.client.newest.Put(s.key, answer, s.client.now(), keyed.CacheLag)
	replace(object, answer)
}

// repeats reports whether a merge patch would change nothing in what the API server has returned to
// this reconcile. It encodes only those fields of the object that the patch has.
func (s *session) repeats(patch []byte) bool {
	if s.written == nil {
		return false
	}
	var fields map[string]any
	if err := json.Unmarshal(patch, &fields); err != nil {
		return false
	}
	current := any(s.written)
	if status, ok := fields["status"]; ok && len(fields) == 1 {
		current = statusOf(s.written)
		fields, _ = status.(map[string]any)
	}
	encoded, err := json.Marshal(current)
	if err != nil || fields == nil {
		return false
	}
	var values map[string]any
	return json.Unmarshal(encoded, &values) == nil && has(values, fields)
}

// has reports whether a merge patch would change nothing in values.
func has(values, patch map[string]any) bool {
	for key, wanted := range patch {
		value, exists := values[key]
		switch fields, isObject := wanted.(map[string]any); {
		case wanted == nil && exists:
			return false
		case isObject:
			object, ok := value.(map[string]any)
			if !ok || !has(object, fields) {
				return false
			}
		case !reflect.DeepEqual(value, wanted):
			return false
		}
	}
	return true
}

// statusOf returns the status of a typed object.
func statusOf(object client.Object) any {
	return reflect.ValueOf(object).Elem().FieldByName("Status").Interface()
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
	status, err := s.statusChanges()
	if err != nil {
		return nil, err
	}
	if len(status) == 0 {
		return patch, nil
	}
	rest, err := json.Marshal(map[string]any{"status": withoutConditions(status)})
	if err != nil {
		return nil, err //nolint:wrapcheck // The caller does.
	}
	return jsonpatch.MergeMergePatches(rest, patch) //nolint:wrapcheck // The caller does.
}

// statusChanges returns a merge patch for the status, of what the reconciler has changed in it. Spec and
// metadata, which are most of an object, are not compared.
func (s *session) statusChanges() (changes map[string]any, err error) {
	var both [2][]byte
	for i, object := range []client.Object{s.before, s.object} {
		if both[i], err = json.Marshal(statusOf(object)); err != nil {
			return nil, err //nolint:wrapcheck // The caller does.
		}
	}
	data, err := jsonpatch.CreateMergePatch(both[0], both[1])
	if err != nil {
		return nil, err //nolint:wrapcheck // The caller does.
	}
	err = json.Unmarshal(data, &changes)
	return changes, err //nolint:wrapcheck // The caller does.
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

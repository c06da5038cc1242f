package fakeapi

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// Store is an API server that counts requests, with a cache that shows each write at once. It is for
// tests with thousands of objects, for which API is too slow: a write costs the same however many
// objects there are. It knows the requests that engines make, and has one client at a time.
type Store struct {
	tb     testing.TB
	scheme *runtime.Scheme
	kinds  map[schema.GroupKind]*stored
	// indexes are those of the cache: how to find the values of an object, by kind and name.
	indexes map[schema.GroupKind]map[string]client.IndexerFunc
	version int
	// Counts is what Client and Live were asked for.
	Counts Counts
	// ReadsOf are the reads of each kind. A client of an API server limits those of one kind.
	ReadsOf map[string]int
	// Changed, if there is one, is called after each change with the metadata before and after it.
	Changed func(before, after *metav1.PartialObjectMetadata)
}

// Counts is what was asked of a Store. Reads from the cache do not count.
type Counts struct {
	// Reads are requests, and Objects what they returned.
	Reads, Objects int
	Writes         int
	// ReadBytes are the answers to reads, WriteBytes the bodies of writes and the answers to them, and
	// WatchBytes the metadata of changed objects, as a watch sends them.
	ReadBytes, WriteBytes, WatchBytes int
}

// String names requests.
func (c Counts) String() string {
	return fmt.Sprintf("%d reads of %d objects, %d writes", c.Reads, c.Objects, c.Writes)
}

// Sub returns the difference.
func (c Counts) Sub(o Counts) Counts {
	return Counts{
		Reads: c.Reads - o.Reads, Objects: c.Objects - o.Objects, Writes: c.Writes - o.Writes,
		ReadBytes: c.ReadBytes - o.ReadBytes, WriteBytes: c.WriteBytes - o.WriteBytes, WatchBytes: c.WatchBytes - o.WatchBytes,
	}
}

// stored are the objects of a kind.
type stored struct {
	// keys are sorted, and have namespace and name.
	keys    []string
	objects map[string]*object
	// found are the keys by index and value.
	found map[string]map[string]map[string]struct{}
}

// object is one object, in the forms in which it is read. None is changed once it is stored.
type object struct {
	raw      []byte
	typed    client.Object
	metadata *metav1.PartialObjectMetadata
	// metadataBytes is the size of metadata.
	metadataBytes int
	// owned are the types of the conditions that each field owner has applied.
	owned map[string][]string
}

// NewStore returns a Store without objects.
func NewStore(tb testing.TB, scheme *runtime.Scheme) *Store {
	tb.Helper()
	return &Store{
		tb: tb, scheme: scheme, kinds: map[schema.GroupKind]*stored{}, indexes: map[schema.GroupKind]map[string]client.IndexerFunc{},
		ReadsOf: map[string]int{},
	}
}

// Index adds an index to the cache of a kind, before any object of it.
func (s *Store) Index(kind schema.GroupKind, name string, values client.IndexerFunc) {
	s.indexes[kind] = map[string]client.IndexerFunc{name: values}
}

// Put creates or replaces an object, as somebody else does. It is not counted.
func (s *Store) Put(o client.Object) {
	s.tb.Helper()
	gvk, err := s.kindOf(o)
	if err != nil {
		s.tb.Fatal(err)
	}
	o.GetObjectKind().SetGroupVersionKind(gvk)
	raw, err := json.Marshal(o)
	if err == nil {
		err = s.store(gvk, keyOf(o), raw, nil)
	}
	if err != nil {
		s.tb.Fatal(err)
	}
}

// Patch merges a patch into an object, as somebody else does. It is not counted.
func (s *Store) Patch(kind schema.GroupVersionKind, key client.ObjectKey, patch string) {
	s.tb.Helper()
	counts := s.Counts
	if _, err := s.patch(kind, key.String(), []byte(patch)); err != nil {
		s.tb.Fatal(err)
	}
	s.Counts.Writes, s.Counts.WriteBytes = counts.Writes, counts.WriteBytes
}

// Client writes, and reads from the cache.
func (s *Store) Client() client.Client { return storeClient{storeReader: storeReader{s, true}} }

// Live reads from the API server.
func (s *Store) Live() client.Reader { return storeReader{s, false} }

// Peek is a client whose reads are not counted, for the test itself.
func (s *Store) Peek() client.Reader { return storeReader{s, true} }

func keyOf(o client.Object) string { return client.ObjectKeyFromObject(o).String() }

func (s *Store) kindOf(o runtime.Object) (schema.GroupVersionKind, error) {
	return apiutil.GVKForObject(o, s.scheme)
}

func (s *Store) of(kind schema.GroupKind) *stored {
	if s.kinds[kind] == nil {
		s.kinds[kind] = &stored{objects: map[string]*object{}, found: map[string]map[string]map[string]struct{}{}}
	}
	return s.kinds[kind]
}

func (s *Store) get(gvk schema.GroupVersionKind, key string) (*object, error) {
	if found := s.of(gvk.GroupKind()).objects[key]; found != nil {
		return found, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Group: gvk.Group, Resource: gvk.Kind}, key)
}

// store stores JSON under the next resourceVersion.
func (s *Store) store(gvk schema.GroupVersionKind, key string, raw []byte, owned map[string][]string) error {
	s.version++
	raw, err := jsonpatch.MergePatch(raw, fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q}}`, strconv.Itoa(s.version)))
	if err != nil {
		return err
	}
	o := &object{raw: raw, owned: owned, metadata: &metav1.PartialObjectMetadata{}}
	if err := json.Unmarshal(raw, o.metadata); err != nil {
		return err
	}
	o.metadata.SetGroupVersionKind(gvk)
	small, err := json.Marshal(o.metadata)
	if err != nil {
		return err
	}
	o.metadataBytes = len(small)
	if o.typed, err = s.decode(gvk, raw); err != nil {
		return err
	}
	kind := s.of(gvk.GroupKind())
	before := kind.objects[key]
	kind.objects[key] = o
	if before == nil {
		at, _ := slices.BinarySearch(kind.keys, key)
		kind.keys = slices.Insert(kind.keys, at, key)
	}
	for name, values := range s.indexes[gvk.GroupKind()] {
		kind.index(name, key, before, o, values)
	}
	s.Counts.WatchBytes += o.metadataBytes
	if s.Changed != nil && before != nil {
		s.Changed(before.metadata, o.metadata)
	}
	return nil
}

func (s *Store) decode(gvk schema.GroupVersionKind, raw []byte) (client.Object, error) {
	made, err := s.scheme.New(gvk)
	if err != nil {
		made = &unstructured.Unstructured{} // It is of a provider.
	}
	o, ok := made.(client.Object)
	if !ok {
		return nil, fmt.Errorf("%T is no object", made)
	}
	return o, json.Unmarshal(raw, o)
}

// index changes where an object is found.
func (k *stored) index(name, key string, before, after *object, values client.IndexerFunc) {
	if k.found[name] == nil {
		k.found[name] = map[string]map[string]struct{}{}
	}
	if before != nil {
		for _, value := range values(before.metadata) {
			delete(k.found[name][value], key)
		}
	}
	for _, value := range values(after.metadata) {
		if k.found[name][value] == nil {
			k.found[name][value] = map[string]struct{}{}
		}
		k.found[name][value][key] = struct{}{}
	}
}

// patch merges a patch into an object, if it has the resourceVersion of the patch.
func (s *Store) patch(gvk schema.GroupVersionKind, key string, patch []byte) (*object, error) {
	before, err := s.get(gvk, key)
	if err != nil {
		return nil, err
	}
	var named metav1.PartialObjectMetadata
	if err := json.Unmarshal(patch, &named); err != nil {
		return nil, err
	}
	if v := named.ResourceVersion; v != "" && v != before.metadata.ResourceVersion {
		return nil, conflict(gvk, key)
	}
	raw, err := jsonpatch.MergePatch(before.raw, patch)
	if err != nil {
		return nil, err
	}
	return s.write(gvk, key, patch, raw, before.owned)
}

func conflict(gvk schema.GroupVersionKind, key string) error {
	return apierrors.NewConflict(schema.GroupResource{Group: gvk.Group, Resource: gvk.Kind}, key, fmt.Errorf("it was changed"))
}

func (s *Store) write(gvk schema.GroupVersionKind, key string, body, raw []byte, owned map[string][]string) (*object, error) {
	if err := s.store(gvk, key, raw, owned); err != nil {
		return nil, err
	}
	after, err := s.get(gvk, key)
	if err != nil {
		return nil, err
	}
	s.Counts.Writes++
	s.Counts.WriteBytes += len(body) + len(after.raw)
	return after, nil
}

// storeReader reads from the cache, or counts.
type storeReader struct {
	*Store
	cached bool
}

// Get returns an object. That of the cache is a copy.
func (r storeReader) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	gvk, err := r.kindOf(into)
	if err != nil {
		return err
	}
	r.countRead(gvk)
	found, err := r.get(gvk, key.String())
	if err != nil {
		return err
	}
	r.count(found, into)
	return found.into(into)
}

func (r storeReader) countRead(gvk schema.GroupVersionKind) {
	if !r.cached {
		r.Counts.Reads++
		r.ReadsOf[gvk.Kind]++
	}
}

// count counts an answer with an object.
func (r storeReader) count(o *object, form runtime.Object) {
	if r.cached {
		return
	}
	r.Counts.Objects++
	if _, small := form.(*metav1.PartialObjectMetadata); small {
		r.Counts.ReadBytes += o.metadataBytes
		return
	}
	r.Counts.ReadBytes += len(o.raw)
}

func (o *object) into(into client.Object) error {
	var from runtime.Object = o.typed
	switch into.(type) {
	case *metav1.PartialObjectMetadata:
		from = o.metadata
	case *unstructured.Unstructured:
		return json.Unmarshal(o.raw, into)
	}
	reflect.ValueOf(into).Elem().Set(reflect.ValueOf(from.DeepCopyObject()).Elem())
	return nil
}

// List returns objects in the order of their names. Those of the cache are its own.
func (r storeReader) List(_ context.Context, into client.ObjectList, opts ...client.ListOption) error {
	gvk, err := r.kindOf(into)
	if err != nil {
		return err
	}
	gvk.Kind = strings.TrimSuffix(gvk.Kind, "List")
	options := (&client.ListOptions{}).ApplyOptions(opts)
	kind := r.of(gvk.GroupKind())
	keys := kind.keys
	if options.FieldSelector != nil && r.cached {
		required := options.FieldSelector.Requirements()[0]
		keys = slices.Sorted(maps.Keys(kind.found[required.Field][required.Value]))
	}
	_, small := into.(*metav1.PartialObjectMetadataList)
	_, untyped := into.(*unstructured.UnstructuredList)
	var items []runtime.Object
	last, next := "", ""
	for _, key := range keys {
		o := kind.objects[key]
		if !selects(options, o.metadata) || key <= options.Continue {
			continue
		}
		if options.Limit > 0 && int64(len(items)) == options.Limit {
			next = last
			break
		}
		item := runtime.Object(o.typed)
		switch {
		case small:
			item = o.metadata
		case untyped:
			item = &unstructured.Unstructured{}
			if err := json.Unmarshal(o.raw, item); err != nil {
				return err
			}
		}
		r.count(o, item)
		items, last = append(items, item), key
	}
	r.countRead(gvk)
	into.SetContinue(next)
	return meta.SetList(into, items)
}

func selects(o *client.ListOptions, m *metav1.PartialObjectMetadata) bool {
	return (o.Namespace == "" || o.Namespace == m.Namespace) && (o.LabelSelector == nil || o.LabelSelector.Matches(labels.Set(m.Labels)))
}

// storeClient is a client.Client. Methods that engines do not call panic.
type storeClient struct {
	client.Client
	storeReader
}

func (c storeClient) Get(ctx context.Context, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	return c.storeReader.Get(ctx, key, into, opts...)
}

func (c storeClient) List(ctx context.Context, into client.ObjectList, opts ...client.ListOption) error {
	return c.storeReader.List(ctx, into, opts...)
}

func (c storeClient) GroupVersionKindFor(o runtime.Object) (schema.GroupVersionKind, error) {
	return c.kindOf(o)
}

func (c storeClient) Patch(_ context.Context, o client.Object, patch client.Patch, _ ...client.PatchOption) error {
	return c.patchObject(o, patch)
}

func (c storeClient) patchObject(o client.Object, patch client.Patch) error {
	gvk, err := c.kindOf(o)
	if err != nil {
		return err
	}
	data, err := patch.Data(o)
	if err != nil {
		return err
	}
	after, err := c.patch(gvk, keyOf(o), data)
	if err != nil {
		return err
	}
	return after.into(o)
}

func (c storeClient) Status() client.SubResourceWriter { return storeStatus{c: c} }

// storeStatus writes the status of objects.
type storeStatus struct {
	client.SubResourceWriter
	c storeClient
}

func (s storeStatus) Patch(_ context.Context, o client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
	return s.c.patchObject(o, patch)
}

// Apply applies conditions: those that the field owner has applied before, and does not any more, go.
func (s storeStatus) Apply(_ context.Context, configuration runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
	intent, ok := configuration.(client.Object)
	if !ok {
		return fmt.Errorf("%T is no object", configuration)
	}
	var applied struct {
		Status struct {
			Conditions []metav1.Condition `json:"conditions"`
		} `json:"status"`
	}
	body, err := json.Marshal(configuration)
	if err == nil {
		err = json.Unmarshal(body, &applied)
	}
	if err != nil {
		return err
	}
	gvk, key := intent.GetObjectKind().GroupVersionKind(), keyOf(intent)
	before, err := s.c.get(gvk, key)
	if err != nil {
		return err
	}
	if v := intent.GetResourceVersion(); v != "" && v != before.metadata.ResourceVersion {
		return conflict(gvk, key)
	}
	owner := (&client.SubResourceApplyOptions{}).ApplyOpts(opts).FieldManager
	raw, owned, err := before.withConditions(owner, applied.Status.Conditions)
	if err != nil {
		return err
	}
	after, err := s.c.write(gvk, key, body, raw, owned)
	if err != nil {
		return err
	}
	intent.SetResourceVersion(after.metadata.ResourceVersion)
	return nil
}

func (o *object) withConditions(owner string, conditions []metav1.Condition) (raw []byte, owned map[string][]string, err error) {
	var now struct {
		Status struct {
			Conditions []metav1.Condition `json:"conditions"`
		} `json:"status"`
	}
	if err := json.Unmarshal(o.raw, &now); err != nil {
		return nil, nil, err
	}
	all := slices.DeleteFunc(now.Status.Conditions, func(c metav1.Condition) bool { return slices.Contains(o.owned[owner], c.Type) })
	owned = maps.Clone(o.owned)
	if owned == nil {
		owned = map[string][]string{}
	}
	owned[owner] = nil
	for _, c := range conditions {
		meta.SetStatusCondition(&all, c)
		owned[owner] = append(owned[owner], c.Type)
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": all}})
	if err != nil {
		return nil, nil, err
	}
	raw, err = jsonpatch.MergePatch(o.raw, patch)
	return raw, owned, err
}

package hookclient_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	runtimecatalog "sigs.k8s.io/cluster-api/api/runtime/catalog"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/windlass-dev/windlass/internal/hookclient"
)

// A hook in two versions: the old one says First where the new one says Number.
type (
	oldRequest struct {
		metav1.TypeMeta `json:",inline"`
		runtimehooksv1.CommonRequest
		First int `json:"first"`
	}
	oldResponse struct {
		metav1.TypeMeta `json:",inline"`
		runtimehooksv1.CommonRetryResponse
		First int `json:"first"`
	}
	newRequest struct {
		metav1.TypeMeta `json:",inline"`
		runtimehooksv1.CommonRequest
		Number int `json:"number"`
	}
	newResponse struct {
		metav1.TypeMeta `json:",inline"`
		runtimehooksv1.CommonRetryResponse
		Number int `json:"number"`
	}
)

func (r *oldRequest) DeepCopyObject() runtime.Object  { c := *r; return &c }
func (r *oldResponse) DeepCopyObject() runtime.Object { c := *r; return &c }
func (r *newRequest) DeepCopyObject() runtime.Object  { c := *r; return &c }
func (r *newResponse) DeepCopyObject() runtime.Object { c := *r; return &c }

// A hook's name is that of its function, so that two versions need two functions of one name.
type (
	oldHooks struct{}
	newHooks struct{}
)

func (oldHooks) Example(*oldRequest, *oldResponse) {}
func (newHooks) Example(*newRequest, *newResponse) {}

func twoVersions(t *testing.T) *runtimecatalog.Catalog {
	t.Helper()
	catalog := runtimecatalog.New()
	before := runtimecatalog.Builder{GroupVersion: schema.GroupVersion{Group: "example.test", Version: "v1"}}
	before.RegisterHook(oldHooks{}.Example, &runtimecatalog.HookMeta{})
	now := runtimecatalog.Builder{GroupVersion: schema.GroupVersion{Group: "example.test", Version: "v2"}}
	now.RegisterHook(newHooks{}.Example, &runtimecatalog.HookMeta{})
	now.Register(func(s *runtime.Scheme) error {
		if err := s.AddConversionFunc((*newRequest)(nil), (*oldRequest)(nil), func(a, b any, _ conversion.Scope) error {
			in, out := as[*newRequest](t, a), as[*oldRequest](t, b)
			out.CommonRequest, out.First = in.CommonRequest, in.Number
			return nil
		}); err != nil {
			return err
		}
		return s.AddConversionFunc((*oldResponse)(nil), (*newResponse)(nil), func(a, b any, _ conversion.Scope) error {
			in, out := as[*oldResponse](t, a), as[*newResponse](t, b)
			out.CommonRetryResponse, out.Number = in.CommonRetryResponse, in.First
			return nil
		})
	})
	for _, builder := range []*runtimecatalog.Builder{&before, &now} {
		if err := builder.AddToCatalog(catalog); err != nil {
			t.Fatal(err)
		}
	}
	return catalog
}

// An extension that serves an older version of a hook is asked in that one, at its path, and its answer is understood.
func TestVersions(t *testing.T) {
	t.Parallel()
	catalog := twoVersions(t)
	gvh, err := catalog.GroupVersionHook(newHooks{}.Example)
	if err != nil {
		t.Fatal(err)
	}
	e := serve(t, answer(`{"status":"Success","message":"m","retryAfterSeconds":3,"first":2,"number":9}`))
	c := newClient(t, func(o *hookclient.Options) { o.Catalog = catalog })
	config := e.config("x", gvh.Hook+"/old", gvh.Hook+"/unknown", gvh.Hook+"/current")
	config.Status.Handlers[0].RequestHook.APIVersion = "example.test/v1"
	config.Status.Handlers[1].RequestHook.APIVersion = "example.test/v0"
	config.Status.Handlers[2].RequestHook.APIVersion = "example.test/v2"
	config.Spec.Settings = map[string]string{"k": "v"}
	warm(t, c, config)
	for _, tt := range []struct {
		name   string
		path   string
		body   map[string]any
		number int
	}{
		{"old.x", "/example.test/v1/example-fm/old", map[string]any{"apiVersion": "example.test/v1", "kind": "oldRequest", "first": 1., "settings": map[string]any{"k": "v"}}, 2},
		{"current.x", "/example.test/v2/example-fm/current", map[string]any{"apiVersion": "example.test/v2", "kind": "newRequest", "number": 1., "settings": map[string]any{"k": "v"}}, 9},
	} {
		response := &newResponse{}
		if err := c.CallExtension(t.Context(), newHooks{}.Example, cluster("default"), tt.name, &newRequest{Number: 1}, response); err != nil {
			t.Fatal(err)
		}
		if response.Number != tt.number || response.Message != "m" || response.RetryAfterSeconds != 3 {
			t.Errorf("%s: response is %+v", tt.name, response)
		}
		got := e.received()
		last := got[len(got)-1]
		if diff := cmp.Diff(tt.body, last.body); diff != "" || last.path != tt.path {
			t.Errorf("%s: path %s\n%s", tt.name, last.path, diff)
		}
	}
	if err := c.CallExtension(t.Context(), newHooks{}.Example, cluster("default"), "unknown.x", &newRequest{}, &newResponse{}); err == nil {
		t.Error("a version that nobody knows was called")
	}
	if names, err := c.GetAllExtensions(t.Context(), newHooks{}.Example, cluster("default")); err != nil || len(names) != 3 {
		t.Errorf("extensions are %v, %v", names, err)
	}
}

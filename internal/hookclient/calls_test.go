package hookclient_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	runtimeclient "sigs.k8s.io/cluster-api/exp/runtime/client"
	"sigs.k8s.io/cluster-api/util/cache"

	"github.com/windlass-dev/windlass/internal/hookclient"
)

func TestAnswersAreAggregated(t *testing.T) {
	t.Parallel()
	const pass, block = `{"status":"Success","message":%q,"retryAfterSeconds":0}`, `{"status":"Success","message":%q,"retryAfterSeconds":%d}`
	for name, tt := range map[string]struct {
		bodies map[string]string
		want   runtimehooksv1.CommonRetryResponse
		asked  []string
		failed string
	}{
		"all pass": {
			bodies: map[string]string{"a": fmt.Sprintf(pass, "one"), "b": fmt.Sprintf(pass, ""), "c": fmt.Sprintf(pass, "three")},
			want:   runtimehooksv1.CommonRetryResponse{CommonResponse: runtimehooksv1.CommonResponse{Status: "Success", Message: "one, three"}},
			asked:  []string{"a", "b", "c"},
		},
		"the lowest retryAfterSeconds but 0": {
			bodies: map[string]string{"a": fmt.Sprintf(block, "one", 30), "b": fmt.Sprintf(pass, "two"), "c": fmt.Sprintf(block, "three", 5)},
			want: runtimehooksv1.CommonRetryResponse{
				CommonResponse: runtimehooksv1.CommonResponse{Status: "Success", Message: "one, two, three"}, RetryAfterSeconds: 5,
			},
			asked: []string{"a", "b", "c"},
		},
		"one fails": {
			bodies: map[string]string{"a": fmt.Sprintf(block, "one", 30), "b": `{"status":"Failure","message":"no"}`, "c": fmt.Sprintf(pass, "")},
			want:   runtimehooksv1.CommonRetryResponse{CommonResponse: runtimehooksv1.CommonResponse{Message: "untouched"}},
			asked:  []string{"a", "b"}, failed: "b.x",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, c := serve(t, answers(tt.bodies)), newClient(t)
			warm(t, c, e.config("x", "BeforeClusterUpgrade/c", "BeforeClusterUpgrade/a", "BeforeClusterUpgrade/b", "AfterClusterUpgrade/d"))
			response := &runtimehooksv1.BeforeClusterUpgradeResponse{}
			response.Message = "untouched"
			err := c.CallAllExtensions(t.Context(), runtimehooksv1.BeforeClusterUpgrade, cluster("default"), &runtimehooksv1.BeforeClusterUpgradeRequest{}, response)
			refused, isRefused := errors.AsType[*hookclient.RefusedError](err)
			if (tt.failed == "") != (err == nil) || (tt.failed != "") != isRefused || isRefused && refused.Extension() != tt.failed {
				t.Fatalf("error is %v", err)
			}
			var asked []string
			for _, r := range e.received() {
				asked = append(asked, r.path[len(r.path)-1:])
			}
			if diff := cmp.Diff(tt.want, response.CommonRetryResponse) + cmp.Diff(tt.asked, asked); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestNobodyIsRegistered(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	warm(t, c)
	names, err := c.GetAllExtensions(t.Context(), runtimehooksv1.BeforeClusterUpgrade, cluster("default"))
	if err != nil || names == nil || len(names) != 0 {
		t.Errorf("extensions are %#v, %v", names, err)
	}
	response, err := callUpgrade(t.Context(), c, "default")
	if err != nil || response.Status != runtimehooksv1.ResponseStatusSuccess || response.RetryAfterSeconds != 0 {
		t.Errorf("response is %+v, %v", response, err)
	}
}

// What goes over the wire: the path, the time limit, the type and the settings, of which the request's go first. Nothing of the caller's changes.
func TestRequest(t *testing.T) {
	t.Parallel()
	e, c := serve(t, answer(`{"status":"Success"}`)), newClient(t)
	config := e.config("x", "GeneratePatches/Mixed-Case")
	config.Spec.ClientConfig.URL += "/below/"
	config.Spec.Settings = map[string]string{"both": "config", "config": "1"}
	warm(t, c, config)
	request := &runtimehooksv1.GeneratePatchesRequest{CommonRequest: runtimehooksv1.CommonRequest{Settings: map[string]string{"both": "request", "request": "2"}}}
	before := request.DeepCopy()
	if err := c.CallExtension(t.Context(), runtimehooksv1.GeneratePatches, cluster("default"), "Mixed-Case.x", request, &runtimehooksv1.GeneratePatchesResponse{}); err != nil {
		t.Fatal(err)
	}
	want := []received{{
		path: "/below/hooks.runtime.cluster.x-k8s.io/v1alpha1/generatepatches/mixed-case", query: "timeout=20s", contentType: "application/json",
		body: map[string]any{
			"apiVersion": hooksV1, "kind": "GeneratePatchesRequest", "items": nil,
			"settings": map[string]any{"both": "request", "request": "2", "config": "1"},
		},
	}}
	if diff := cmp.Diff(want, e.received(), cmp.AllowUnexported(received{})) + cmp.Diff(before, request); diff != "" {
		t.Error(diff)
	}
}

func TestNamespaceSelectors(t *testing.T) {
	t.Parallel()
	e, c := serve(t, answer(`{"status":"Success","message":"m"}`)), newClient(t)
	everywhere, empty, prod := e.config("everywhere", "BeforeClusterUpgrade/a"), e.config("empty", "BeforeClusterUpgrade/b"), e.config("prod", "BeforeClusterUpgrade/c")
	empty.Spec.NamespaceSelector = &metav1.LabelSelector{}
	prod.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "prod"}}
	warm(t, c, prod, everywhere, empty)
	for namespace, want := range map[string][]string{
		"default": {"a.everywhere", "b.empty"},
		"prod":    {"a.everywhere", "b.empty", "c.prod"},
	} {
		names, err := c.GetAllExtensions(t.Context(), runtimehooksv1.BeforeClusterUpgrade, cluster(namespace))
		if diff := cmp.Diff(want, names); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", namespace, err, diff)
		}
		response, err := callUpgrade(t.Context(), c, namespace)
		if err != nil || len(response.Message) != len("m")+len(", m")*(len(want)-1) {
			t.Errorf("%s: %q, %v", namespace, response.Message, err)
		}
	}
	call := func(namespace string) error {
		return c.CallExtension(t.Context(), runtimehooksv1.BeforeClusterUpgrade, cluster(namespace), "c.prod",
			&runtimehooksv1.BeforeClusterUpgradeRequest{}, &runtimehooksv1.BeforeClusterUpgradeResponse{})
	}
	if err := call("prod"); err != nil {
		t.Error(err)
	}
	if _, ok := errors.AsType[*hookclient.NotRegisteredError](call("default")); !ok {
		t.Error("an extension for another namespace was called")
	}
	// Whether it is selected is not known: that is not "no".
	if _, err := c.GetAllExtensions(t.Context(), runtimehooksv1.BeforeClusterUpgrade, cluster("gone")); err == nil {
		t.Error("a namespace that cannot be read counted as not selected")
	}
}

func TestCallsThatNobodyServes(t *testing.T) {
	t.Parallel()
	e, c := serve(t, answer(`{"status":"Success"}`)), newClient(t)
	call := func(name string) error {
		return c.CallExtension(t.Context(), runtimehooksv1.BeforeClusterUpgrade, cluster("default"), name,
			&runtimehooksv1.BeforeClusterUpgradeRequest{}, &runtimehooksv1.BeforeClusterUpgradeResponse{})
	}
	_, all := callUpgrade(t.Context(), c, "default")
	for doing, err := range map[string]error{
		"call": call("a.x"), "call all": all, "register": c.Register(e.config("x", "BeforeClusterUpgrade/a")), "unregister": c.Unregister(e.config("x")),
	} {
		if _, ok := errors.AsType[*hookclient.NotReadyError](err); !ok || c.IsReady() {
			t.Errorf("%s before WarmUp: %v", doing, err)
		}
	}
	warm(t, c, e.config("x", "BeforeClusterUpgrade/a", "AfterClusterUpgrade/b"))
	if !c.IsReady() || c.WarmUp(&runtimev1.ExtensionConfigList{}) == nil {
		t.Error("it is not ready, or was warmed up twice")
	}
	for name, want := range map[string]string{
		"a.y":   `hook BeforeClusterUpgrade, handler "a" of ExtensionConfig "y": no such extension is registered; see whether this ExtensionConfig is there, whether its condition Discovered is True, and which handlers its status lists`,
		"c.x":   `hook BeforeClusterUpgrade, handler "c" of ExtensionConfig "x": no such extension is registered; see whether this ExtensionConfig is there, whether its condition Discovered is True, and which handlers its status lists`,
		"b.x":   `hook BeforeClusterUpgrade, handler "b" of ExtensionConfig "x": this handler serves hook AfterClusterUpgrade; name one that serves this hook; the status of the ExtensionConfig lists them`,
		"a":     `hook BeforeClusterUpgrade, handler "a" of ExtensionConfig "": no such extension is registered; see whether this ExtensionConfig is there, whether its condition Discovered is True, and which handlers its status lists`,
		"a.x.x": `hook BeforeClusterUpgrade, handler "a" of ExtensionConfig "x.x": no such extension is registered; see whether this ExtensionConfig is there, whether its condition Discovered is True, and which handlers its status lists`,
	} {
		err := call(name)
		if _, ok := errors.AsType[*hookclient.NotRegisteredError](err); !ok || err.Error() != want {
			t.Errorf("%s: %v", name, err)
		}
	}
	for what, err := range map[string]error{
		"a request of another hook": c.CallExtension(t.Context(), runtimehooksv1.BeforeClusterUpgrade, cluster("default"), "a.x",
			&runtimehooksv1.AfterClusterUpgradeRequest{}, &runtimehooksv1.BeforeClusterUpgradeResponse{}),
		"a response of another hook": c.CallAllExtensions(t.Context(), runtimehooksv1.BeforeClusterUpgrade, cluster("default"),
			&runtimehooksv1.BeforeClusterUpgradeRequest{}, &runtimehooksv1.AfterClusterUpgradeResponse{}),
		"no hook of the catalog": c.CallAllExtensions(t.Context(), func(*clusterv1.Cluster, *clusterv1.Cluster) {}, cluster("default"),
			&runtimehooksv1.BeforeClusterUpgradeRequest{}, &runtimehooksv1.BeforeClusterUpgradeResponse{}),
	} {
		if err == nil {
			t.Errorf("%s was accepted", what)
		}
	}
	if got := e.received(); len(got) != 0 {
		t.Errorf("the extension was asked: %v", got)
	}
}

func TestRefusal(t *testing.T) {
	t.Parallel()
	e, c := serve(t, answer(`{"status":"Failure","message":"etcd member c1-2\nis unhealthy"}`)), newClient(t)
	// A failure policy is for answers that do not come.
	warm(t, c, e.config("x", "BeforeClusterUpgrade/a/Ignore"))
	response := &runtimehooksv1.BeforeClusterUpgradeResponse{}
	err := c.CallExtension(t.Context(), runtimehooksv1.BeforeClusterUpgrade, cluster("default"), "a.x", &runtimehooksv1.BeforeClusterUpgradeRequest{}, response)
	want := `hook BeforeClusterUpgrade, handler "a" of ExtensionConfig "x": the extension answered Failure: etcd member c1-2 is unhealthy`
	if _, ok := errors.AsType[*hookclient.RefusedError](err); !ok || err.Error() != want || response.Status != runtimehooksv1.ResponseStatusFailure {
		t.Errorf("response %+v, error %v", response, err)
	}
}

func TestCaching(t *testing.T) {
	t.Parallel()
	bodies := map[string]string{
		"variables": `{"status":"Success","variables":[{"name":"v","required":true,"schema":{"openAPIV3Schema":{"type":"string"}}}]}`,
		"blocking":  `{"status":"Success","retryAfterSeconds":5}`,
		"failing":   `{"status":"Failure"}`,
		"broken":    `{`,
	}
	e, c := serve(t, answers(bodies)), newClient(t)
	config := e.config("x", "DiscoverVariables/variables", "BeforeClusterUpgrade/blocking", "BeforeClusterUpgrade/failing", "BeforeClusterUpgrade/broken/Ignore")
	config.Spec.Settings = map[string]string{"k": "v"}
	warm(t, c, config)
	entries := cache.New[runtimeclient.CallExtensionCacheEntry](t.Context(), cache.DefaultTTL)
	var keys []string
	caching := runtimeclient.WithCaching{Cache: entries, CacheKeyFunc: func(name, version string, request runtimehooksv1.RequestObject) string {
		keys = append(keys, fmt.Sprintf("%s %s %v", name, version, request.GetSettings()))
		return keys[len(keys)-1]
	}}
	for range 3 {
		response := &runtimehooksv1.DiscoverVariablesResponse{}
		err := c.CallExtension(t.Context(), runtimehooksv1.DiscoverVariables, cluster("default"), "variables.x", &runtimehooksv1.DiscoverVariablesRequest{}, response, caching)
		if err != nil || len(response.Variables) != 1 || response.Variables[0].Name != "v" || response.Variables[0].Required == nil {
			t.Fatalf("response is %+v, %v", response, err)
		}
		// What a caller does with its response is not seen by the next.
		response.Variables[0].Name, *response.Variables[0].Required = "changed", false
	}
	if got := e.received(); len(got) != 1 || keys[0] != "variables.x 7 map[k:v]" {
		t.Errorf("%d requests, want 1; keys %q", len(got), keys)
	}
	for _, name := range []string{"blocking.x", "failing.x", "broken.x"} {
		before := len(e.received())
		for range 2 {
			_ = c.CallExtension(t.Context(), runtimehooksv1.BeforeClusterUpgrade, cluster("default"), name,
				&runtimehooksv1.BeforeClusterUpgradeRequest{}, &runtimehooksv1.BeforeClusterUpgradeResponse{}, caching)
		}
		if got := len(e.received()) - before; got != 2 {
			t.Errorf("%s: %d requests, want 2", name, got)
		}
	}
	// Another response in the cache is an error.
	shared := runtimeclient.WithCaching{Cache: entries, CacheKeyFunc: func(string, string, runtimehooksv1.RequestObject) string { return keys[0] }}
	if err := c.CallExtension(t.Context(), runtimehooksv1.BeforeClusterUpgrade, cluster("default"), "blocking.x",
		&runtimehooksv1.BeforeClusterUpgradeRequest{}, &runtimehooksv1.BeforeClusterUpgradeResponse{}, shared); err == nil {
		t.Error("a response of another type came out of the cache")
	}
}

func TestConflicts(t *testing.T) {
	t.Parallel()
	prod := func(c *runtimev1.ExtensionConfig) *runtimev1.ExtensionConfig {
		c.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "prod"}}
		return c
	}
	notProd := func(c *runtimev1.ExtensionConfig) *runtimev1.ExtensionConfig {
		c.Spec.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "tier", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"prod"}}}}
		return c
	}
	e := serve(t, answer(""))
	for name, tt := range map[string]struct {
		configs []*runtimev1.ExtensionConfig
		want    []hookclient.Conflict
	}{
		"one each": {configs: []*runtimev1.ExtensionConfig{
			e.config("x", "CanUpdateMachine/a", "CanUpdateMachineSet/b", "UpdateMachine/c", "BeforeClusterUpgrade/d"), e.config("y", "BeforeClusterUpgrade/d"),
		}},
		"two": {
			configs: []*runtimev1.ExtensionConfig{e.config("y", "UpdateMachine/a", "CanUpdateMachine/a"), e.config("x", "UpdateMachine/b", "CanUpdateMachine/b")},
			want: []hookclient.Conflict{
				{Hook: "CanUpdateMachine", Extensions: []string{"a.y", "b.x"}}, {Hook: "UpdateMachine", Extensions: []string{"a.y", "b.x"}},
			},
		},
		"for different namespaces": {configs: []*runtimev1.ExtensionConfig{prod(e.config("x", "UpdateMachine/a")), notProd(e.config("y", "UpdateMachine/a"))}},
		"two of three": {
			configs: []*runtimev1.ExtensionConfig{prod(e.config("x", "CanUpdateMachineSet/a")), prod(e.config("z", "CanUpdateMachineSet/a")), notProd(e.config("y", "CanUpdateMachineSet/a"))},
			want:    []hookclient.Conflict{{Hook: "CanUpdateMachineSet", Extensions: []string{"a.x", "a.z"}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newClient(t)
			if _, err := c.Conflicts(t.Context()); err == nil {
				t.Error("conflicts are known before WarmUp")
			}
			warm(t, c, tt.configs...)
			got, err := c.Conflicts(t.Context())
			if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
				t.Errorf("%v\n%s", err, diff)
			}
		})
	}
	want := "hook UpdateMachine has 2 extensions (a.x, b.y), and Cluster API uses only one. Fix: keep one of them, and register the others as Updater objects"
	if got := (hookclient.Conflict{Hook: "UpdateMachine", Extensions: []string{"a.x", "b.y"}}).String(); got != want {
		t.Error(got)
	}
}

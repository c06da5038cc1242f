package hookclient_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/windlass-dev/windlass/internal/hookclient"
)

func announce(handlers ...string) http.HandlerFunc {
	return answer(`{"status":"Success","handlers":[` + strings.Join(handlers, ",") + `]}`)
}

func handler(name, hook, more string) string {
	return fmt.Sprintf(`{"name":%q,"requestHook":{"apiVersion":%q,"hook":%q}%s}`, name, hooksV1, hook, more)
}

func TestDiscover(t *testing.T) {
	t.Parallel()
	e := serve(t, announce(
		handler("wait", "BeforeClusterUpgrade", `,"timeoutSeconds":30,"failurePolicy":"Ignore"`),
		handler("do", "UpdateMachine", `,"timeoutSeconds":0,"failurePolicy":"Ignore"`),
		handler("ask", "BeforeClusterUpgrade", ``),
	))
	// Discovery works before WarmUp, for which it finds the handlers.
	c := newClient(t)
	config := extensionConfig("x", "UpdateMachine/gone")
	config.Spec.ClientConfig = runtimev1.ClientConfig{URL: e.URL, CABundle: e.ca()}
	config.Status.Conditions = []metav1.Condition{{Type: "Paused"}}
	before := config.DeepCopy()
	ctx, lines := record(t.Context())
	got, err := c.Discover(ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	hook := func(name string) runtimev1.GroupVersionHook {
		return runtimev1.GroupVersionHook{APIVersion: hooksV1, Hook: name}
	}
	want := before.DeepCopy()
	want.Status.Handlers = []runtimev1.ExtensionHandler{
		{Name: "ask.x", RequestHook: hook("BeforeClusterUpgrade"), TimeoutSeconds: 10, FailurePolicy: "Fail"},
		// Who reads the status must not ignore it either.
		{Name: "do.x", RequestHook: hook("UpdateMachine"), TimeoutSeconds: 0, FailurePolicy: "Fail"},
		{Name: "wait.x", RequestHook: hook("BeforeClusterUpgrade"), TimeoutSeconds: 30, FailurePolicy: "Ignore"},
	}
	if diff := cmp.Diff(want, got) + cmp.Diff(before, config); diff != "" {
		t.Error(diff)
	}
	if r := e.received()[0]; r.path != "/hooks.runtime.cluster.x-k8s.io/v1alpha1/discovery" || r.query != "timeout=10s" || r.body["kind"] != "DiscoveryRequest" {
		t.Errorf("request is %+v", r)
	}
	// That Ignore does not hold is said until the status says it.
	for range 2 {
		if got, err = c.Discover(ctx, got); err != nil {
			t.Fatal(err)
		}
	}
	if len(lines()) != 1 || !strings.Contains(lines()[0], "Ignore does not apply") {
		t.Errorf("lines are %q", lines())
	}
	warm(t, c, got)
}

func TestDiscoverRefuses(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		handlers []string
		want     []string
	}{
		"two with one name": {
			handlers: []string{handler("a", "BeforeClusterUpgrade", ""), handler("a", "AfterClusterUpgrade", "")},
			want:     []string{`two handlers have the name "a"`},
		},
		"names that are none": {
			handlers: []string{handler("", "BeforeClusterUpgrade", ""), handler("a.b", "BeforeClusterUpgrade", ""), handler("A", "BeforeClusterUpgrade", "")},
			want: []string{
				`handler "" has a name that is no DNS label`, `handler "a.b" has a name that is no DNS label`, `handler "A" has a name that is no DNS label`,
			},
		},
		"a time that is too long": {handlers: []string{handler("a", "BeforeClusterUpgrade", `,"timeoutSeconds":31`)}, want: []string{`handler "a" has timeoutSeconds 31`}},
		"a negative time":         {handlers: []string{handler("a", "BeforeClusterUpgrade", `,"timeoutSeconds":-1`)}, want: []string{`handler "a" has timeoutSeconds -1`}},
		"another policy":          {handlers: []string{handler("a", "BeforeClusterUpgrade", `,"failurePolicy":"Retry"`)}, want: []string{`handler "a" has the failurePolicy "Retry"`}},
		"an unknown hook":         {handlers: []string{handler("a", "BeforeLunch", "")}, want: []string{`handler "a" serves hook "BeforeLunch" of "` + hooksV1 + `"`}},
		"an unknown version": {
			handlers: []string{`{"name":"a","requestHook":{"apiVersion":"hooks.runtime.cluster.x-k8s.io/v9","hook":"UpdateMachine"}}`},
			want:     []string{`handler "a" serves hook "UpdateMachine" of "hooks.runtime.cluster.x-k8s.io/v9"`},
		},
		"no version": {
			handlers: []string{`{"name":"a","requestHook":{"apiVersion":"a/b/c","hook":"UpdateMachine"}}`},
			want:     []string{`handler "a" has the apiVersion "a/b/c", which is none`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := serve(t, announce(tt.handlers...))
			got, err := newClient(t).Discover(t.Context(), e.config("x"))
			bad, ok := errors.AsType[*hookclient.BadResponseError](err)
			if !ok || got != nil {
				t.Fatalf("%+v, %v", got, err)
			}
			if n := strings.Count(bad.Detail, "; "); n < len(tt.want)-1 {
				t.Errorf("not every fault is named: %v", err)
			}
			for _, want := range append(tt.want, `hook Discovery of ExtensionConfig "x": `) {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is not in: %v", want, err)
				}
			}
		})
	}
}

func TestDiscoverFails(t *testing.T) {
	t.Parallel()
	failing := serve(t, answer(`{"status":"Failure","message":"not yet"}`))
	_, err := newClient(t).Discover(t.Context(), failing.config("x"))
	if want := `hook Discovery of ExtensionConfig "x": the extension answered Failure: not yet`; err == nil || err.Error() != want {
		t.Errorf("error is %v, want %s", err, want)
	}
	for name, tt := range faults(t) {
		if tt.want.fault == hookclient.FaultTimeout || strings.HasPrefix(name, "a list") || strings.HasPrefix(name, "a negative") {
			// It takes 10 s; it is another type; it is no field of this hook.
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := extensionConfig("x")
			config.Spec.ClientConfig = tt.config
			_, err := newClient(t).Discover(t.Context(), config)
			checkFault(t, err, tt.want)
		})
	}
}

func TestMisconfigured(t *testing.T) {
	t.Parallel()
	service := runtimev1.ServiceReference{Name: "ext", Namespace: "ns"}
	for name, tt := range map[string]struct {
		config runtimev1.ClientConfig
		want   string
	}{
		"nothing":       {want: "spec.clientConfig has neither url nor service"},
		"http":          {runtimev1.ClientConfig{URL: "http://secret"}, "spec.clientConfig has a url whose scheme is not https"},
		"no host":       {runtimev1.ClientConfig{URL: "https:///secret"}, "spec.clientConfig has a url without a host"},
		"malformed":     {runtimev1.ClientConfig{URL: "https://secret:%zz@x/"}, "spec.clientConfig has a malformed url"},
		"credentials":   {runtimev1.ClientConfig{URL: "https://user:secret@host/"}, "spec.clientConfig has a url with credentials"},
		"a query":       {runtimev1.ClientConfig{URL: "https://host/?token=secret"}, "spec.clientConfig has a url with a query or a fragment"},
		"a fragment":    {runtimev1.ClientConfig{URL: "https://host/#secret"}, "spec.clientConfig has a url with a query or a fragment"},
		"no PEM":        {runtimev1.ClientConfig{Service: service, CABundle: []byte("secret")}, "spec.clientConfig.caBundle holds no certificate"},
		"also with url": {runtimev1.ClientConfig{URL: "https://host", CABundle: []byte("secret")}, "spec.clientConfig.caBundle holds no certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := extensionConfig("x", "BeforeClusterUpgrade/a/Ignore")
			config.Spec.ClientConfig = tt.config
			c := newClient(t)
			_, discover := c.Discover(t.Context(), config)
			warmUp := c.WarmUp(&runtimev1.ExtensionConfigList{Items: []runtimev1.ExtensionConfig{*config}})
			if c.IsReady() {
				t.Error("it is ready")
			}
			warm(t, c)
			for _, err := range []error{discover, warmUp, c.Register(config)} {
				if _, ok := errors.AsType[*hookclient.MisconfiguredError](err); !ok || !strings.Contains(err.Error(), `ExtensionConfig "x": `+tt.want+". Fix: ") || strings.Contains(err.Error(), "secret") {
					t.Errorf("error is %v", err)
				}
			}
		})
	}
}

// What cannot be registered does not take away what was: no extension would mean that nobody objects.
func TestRegisterKeepsWhatItCannotReplace(t *testing.T) {
	t.Parallel()
	e, c := serve(t, answer(`{"status":"Failure","message":"never"}`)), newClient(t)
	warm(t, c, e.config("x", "BeforeClusterUpgrade/a"))
	wrongSelector, wrongName, wrongVersion := e.config("x", "BeforeClusterUpgrade/b"), e.config("x", "BeforeClusterUpgrade/b"), e.config("x", "BeforeClusterUpgrade/b")
	wrongSelector.Spec.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Maybe"}}}
	wrongName.Status.Handlers[0].Name = "b.y"
	wrongVersion.Status.Handlers[0].RequestHook.APIVersion = "a/b/c"
	for _, config := range []*runtimev1.ExtensionConfig{wrongSelector, wrongName, wrongVersion, extensionConfig("x")} {
		err := c.Register(config)
		if _, ok := errors.AsType[*hookclient.MisconfiguredError](err); !ok {
			t.Errorf("error is %v", err)
		}
	}
	if c.Register(nil) == nil || c.Unregister(nil) == nil || newClient(t).WarmUp(nil) == nil {
		t.Error("nil was accepted")
	}
	if _, err := callUpgrade(t.Context(), c, "default"); err == nil || !strings.Contains(err.Error(), `handler "a"`) {
		t.Errorf("error is %v", err)
	}
	// What can does.
	if err := c.Register(e.config("x", "BeforeClusterUpgrade/b")); err != nil {
		t.Fatal(err)
	}
	if _, err := callUpgrade(t.Context(), c, "default"); err == nil || !strings.Contains(err.Error(), `handler "b"`) {
		t.Errorf("error is %v", err)
	}
	for range 2 {
		if err := c.Unregister(extensionConfig("x")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := callUpgrade(t.Context(), c, "default"); err != nil {
		t.Errorf("nobody is registered, and the call gives %v", err)
	}
}

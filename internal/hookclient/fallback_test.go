package hookclient_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/cluster-api/exp/runtime/server"

	"github.com/windlass-dev/windlass/internal/hookclient"
)

// fallbackHandler answers UpdateMachine with what answer sets.
func fallbackHandler(answer func(*runtimehooksv1.UpdateMachineResponse)) server.ExtensionHandler {
	seconds := int32(30)
	return server.ExtensionHandler{
		Hook: runtimehooksv1.UpdateMachine, Name: "update-machine", TimeoutSeconds: &seconds,
		HandlerFunc: func(
			_ context.Context, _ *runtimehooksv1.UpdateMachineRequest, response *runtimehooksv1.UpdateMachineResponse,
		) {
			answer(response)
		},
	}
}

func withFallback(answer func(*runtimehooksv1.UpdateMachineResponse)) func(*hookclient.Options) {
	return func(o *hookclient.Options) { o.Fallback = []server.ExtensionHandler{fallbackHandler(answer)} }
}

// inProgress is the answer of a fallback at work.
func inProgress(response *runtimehooksv1.UpdateMachineResponse) {
	response.Status, response.Message, response.RetryAfterSeconds = runtimehooksv1.ResponseStatusSuccess, "by the fallback", 7
}

// callUpdate asks and calls as Cluster API's Machine controller does.
func callUpdate(ctx context.Context, c *hookclient.Client, namespace string) ([]string, *runtimehooksv1.UpdateMachineResponse, error) {
	machine := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "m"}}
	names, err := c.GetAllExtensions(ctx, runtimehooksv1.UpdateMachine, machine)
	if err != nil {
		return nil, nil, err
	}
	response := &runtimehooksv1.UpdateMachineResponse{}
	request := &runtimehooksv1.UpdateMachineRequest{}
	return names, response, c.CallAllExtensions(ctx, runtimehooksv1.UpdateMachine, machine, request, response)
}

// TestFallback: a registered extension that is for the namespace goes before the fallback, and there is
// always exactly one of them.
func TestFallback(t *testing.T) {
	t.Parallel()
	e := serve(t, answer(`{"status":"Success","message":"by the extension","retryAfterSeconds":9}`))
	everywhere, prod := e.config("x", "UpdateMachine/a"), e.config("prod", "UpdateMachine/b", "BeforeClusterUpgrade/c")
	prod.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "prod"}}
	c := newClient(t, withFallback(inProgress))
	if _, _, err := callUpdate(t.Context(), c, "default"); !isNotReady(err) {
		t.Errorf("before the extensions are known: %v", err)
	}
	warm(t, c)
	type served struct {
		Names   []string
		Message string
		Retry   int32
	}
	own := served{Names: []string{"update-machine"}, Message: "by the fallback", Retry: 7}
	check := func(when string, want map[string]served) {
		t.Helper()
		for namespace, want := range want {
			names, response, err := callUpdate(t.Context(), c, namespace)
			if err != nil {
				t.Fatalf("%s, %s: %v", when, namespace, err)
			}
			got := served{Names: names, Message: response.Message, Retry: response.RetryAfterSeconds}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s, %s:\n%s", when, namespace, diff)
			}
		}
	}
	check("nothing registered", map[string]served{"default": own, "prod": own})
	if err := c.Register(prod); err != nil {
		t.Fatal(err)
	}
	theirs := served{Names: []string{"b.prod"}, Message: "by the extension", Retry: 9}
	check("registered for a namespace", map[string]served{"default": own, "prod": theirs})
	if found, err := c.Conflicts(t.Context()); err != nil || len(found) != 0 {
		t.Errorf("conflicts with the fallback: %v, %v", found, err)
	}
	if err := errors.Join(c.Unregister(prod), c.Register(everywhere)); err != nil {
		t.Fatal(err)
	}
	theirs.Names = []string{"a.x"}
	check("registered for all", map[string]served{"default": theirs, "prod": theirs})
	if err := c.Unregister(everywhere); err != nil {
		t.Fatal(err)
	}
	check("unregistered", map[string]served{"default": own, "prod": own})
}

func isNotReady(err error) bool {
	_, ok := errors.AsType[*hookclient.NotReadyError](err)
	return ok
}

// TestFallbackByName: CallExtension calls the fallback where GetAllExtensions names it, and nowhere else.
func TestFallbackByName(t *testing.T) {
	t.Parallel()
	e, c := serve(t, answer(`{"status":"Success"}`)), newClient(t, withFallback(inProgress))
	prod := e.config("x", "UpdateMachine/a")
	prod.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "prod"}}
	warm(t, c, prod)
	call := func(namespace, name string) (*runtimehooksv1.UpdateMachineResponse, error) {
		response := &runtimehooksv1.UpdateMachineResponse{}
		return response, c.CallExtension(t.Context(), runtimehooksv1.UpdateMachine, cluster(namespace), name, &runtimehooksv1.UpdateMachineRequest{}, response)
	}
	if response, err := call("default", "update-machine"); err != nil || response.Message != "by the fallback" {
		t.Errorf("%q, %v", response.Message, err)
	}
	_, err := call("prod", "update-machine")
	want := `hook UpdateMachine, handler "update-machine" of this process: extension "a.x" serves namespace "prod"; call that one`
	if _, ok := errors.AsType[*hookclient.NotRegisteredError](err); !ok || err.Error() != want {
		t.Errorf("beside an extension: %v", err)
	}
	if _, err := call("gone", "update-machine"); err == nil {
		t.Error("a namespace that cannot be read counted as not selected")
	}
	// It serves no other hook.
	names, err := c.GetAllExtensions(t.Context(), runtimehooksv1.CanUpdateMachine, cluster("default"))
	if err != nil || len(names) != 0 {
		t.Errorf("CanUpdateMachine is served by %v, %v", names, err)
	}
	if len(e.received()) != 0 {
		t.Errorf("the extension was called: %v", e.received())
	}
}

// TestFallbackFails: a refusal, no answer and a panic of the fallback are errors, so nobody takes the
// update for done.
func TestFallbackFails(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		answer func(*runtimehooksv1.UpdateMachineResponse)
		err    string
	}{
		"refusal": {
			answer: func(r *runtimehooksv1.UpdateMachineResponse) {
				r.Status, r.Message = runtimehooksv1.ResponseStatusFailure, "no updater. Fix: add one"
			},
			err: `hook UpdateMachine, handler "update-machine" of this process: the extension answered Failure: no updater. Fix: add one`,
		},
		"no answer": {
			answer: func(*runtimehooksv1.UpdateMachineResponse) {},
			err:    "its status is",
		},
		"panic": {
			answer: func(*runtimehooksv1.UpdateMachineResponse) { panicWith("broken") },
			err:    "the handler in this process panicked: broken",
		},
	} {
		c := newClient(t, withFallback(tt.answer))
		warm(t, c)
		if _, _, err := callUpdate(t.Context(), c, "default"); err == nil || !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestFallbackHandlersThatAreNone refuses handlers that cannot be called, and two for one hook.
func TestFallbackHandlersThatAreNone(t *testing.T) {
	t.Parallel()
	good, other := fallbackHandler(inProgress), fallbackHandler(inProgress)
	other.Name = "b"
	bad := good
	bad.Hook = runtimehooksv1.CanUpdateMachine
	for name, tt := range map[string]struct {
		handlers []server.ExtensionHandler
		err      string
	}{
		"two for one hook": {[]server.ExtensionHandler{good, other}, `handlers "update-machine" and "b" both serve hook UpdateMachine`},
		"of another hook":  {[]server.ExtensionHandler{bad}, `handler "update-machine"`},
	} {
		_, err := hookclient.New(hookclient.Options{Catalog: newCatalog(t), Fallback: tt.handlers})
		if err == nil || !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

package hookclient_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	runtimecatalog "sigs.k8s.io/cluster-api/api/runtime/catalog"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/windlass-dev/windlass/internal/hookclient"
)

// What a fault should look like: an *UnreachableError with a Fault, or a *BadResponseError where there is none.
type wantFault struct {
	fault  hookclient.Fault
	detail string
	// never says that no failure policy ignores it.
	never bool
}

// faults are extensions that give no answer, and what is said about each. The URL of every one holds a path that nobody should see.
func faults(t *testing.T) map[string]struct {
	config runtimev1.ClientConfig
	want   wantFault
} {
	t.Helper()
	at := func(e *extension) runtimev1.ClientConfig {
		return runtimev1.ClientConfig{URL: e.URL + "/secret-path", CABundle: e.ca()}
	}
	ok := serve(t, answer(`{"status":"Success"}`))
	ca := newAuthority(t)
	certificate := func(until time.Time) func(*tls.Config) {
		return func(c *tls.Config) { c.Certificates = []tls.Certificate{ca.pair(t, 2, until)} }
	}
	trusting := func(e *extension) runtimev1.ClientConfig {
		return runtimev1.ClientConfig{URL: e.URL + "/secret-path", CABundle: ca.PEM}
	}
	plain := httptest.NewServer(answer(`{"status":"Success"}`))
	t.Cleanup(plain.Close)
	// Nobody gets this port, unlike that of a server which was closed.
	gone := runtimev1.ClientConfig{URL: "https://127.0.0.1:1/secret-path", CABundle: ca.PEM}
	h1 := func(c *tls.Config) { c.NextProtos = []string{"http/1.1"} }
	breaksOff := func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"status":"Success",`)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	const early = "the connection ended before the answer was complete"
	type row = struct {
		config runtimev1.ClientConfig
		want   wantFault
	}
	return map[string]row{
		"connection refused": {gone, wantFault{fault: hookclient.FaultConnection, detail: "connection refused"}},
		"breaks off":         {at(serve(t, breaksOff)), wantFault{fault: hookclient.FaultConnection, detail: early}},
		"breaks off, HTTP/1": {at(serve(t, breaksOff, h1)), wantFault{fault: hookclient.FaultConnection, detail: early}},
		"ends at once":       {at(serve(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, h1)), wantFault{fault: hookclient.FaultConnection, detail: early}},
		"never answers": {at(serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })),
			wantFault{fault: hookclient.FaultTimeout, detail: "none within 1s"}},
		"never ends its answer": {at(serve(t, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, `{"status":"Success"`)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		})), wantFault{fault: hookclient.FaultTimeout, detail: "none within 1s"}},
		"another CA": {runtimev1.ClientConfig{URL: ok.URL + "/secret-path", CABundle: ca.PEM},
			wantFault{fault: hookclient.FaultTLS, detail: "its certificate is not accepted: x509: certificate signed by unknown authority"}},
		"no CA but the system's": {runtimev1.ClientConfig{URL: ok.URL + "/secret-path"},
			wantFault{fault: hookclient.FaultTLS, detail: "its certificate is not accepted: x509: certificate signed by unknown authority"}},
		"a certificate for another host": {runtimev1.ClientConfig{URL: strings.Replace(ok.URL, "127.0.0.1", "localhost", 1) + "/secret-path", CABundle: ok.ca()},
			wantFault{fault: hookclient.FaultTLS, detail: "its certificate is not accepted: x509: certificate is valid for example.com, *.example.com, not localhost"}},
		"a certificate that has expired": {trusting(serve(t, answer(`{"status":"Success"}`), certificate(time.Now().Add(-time.Hour)))),
			wantFault{fault: hookclient.FaultTLS, detail: "its certificate has expired or is not valid yet"}},
		"no TLS": {runtimev1.ClientConfig{URL: strings.Replace(plain.URL, "http:", "https:", 1) + "/secret-path"},
			wantFault{fault: hookclient.FaultTLS, detail: "it does not speak TLS"}},
		"wants a client certificate": {at(serve(t, answer(`{"status":"Success"}`), func(c *tls.Config) {
			// With TLS 1.3 its alert may be overtaken by the end of the connection.
			c.ClientAuth, c.ClientCAs, c.MaxVersion = tls.RequireAndVerifyClientCert, ca.Pool(), tls.VersionTLS12
		})), wantFault{fault: hookclient.FaultTLS, detail: "it ended the connection: tls: "}},
		"status 500": {at(serve(t, func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "boom\nand more", http.StatusInternalServerError)
		})),
			wantFault{detail: `HTTP status 500 instead of 200, with "boom and more"`}},
		"status 204": {at(serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })),
			wantFault{detail: `HTTP status 204 instead of 200, with ""`}},
		"a long page of an error": {at(serve(t, func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, strings.Repeat("x", 1<<20), http.StatusBadGateway)
		})),
			wantFault{detail: `HTTP status 502 instead of 200, with "` + strings.Repeat("x", 509) + `..."`}},
		"redirects": {at(serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", ok.URL)
			w.WriteHeader(http.StatusTemporaryRedirect)
		})), wantFault{detail: `HTTP status 307 instead of 200, with ""`}},
		"no JSON":        {at(serve(t, answer("hello"))), wantFault{detail: "it does not decode: invalid character 'h' looking for beginning of value"}},
		"nothing":        {at(serve(t, answer(""))), wantFault{detail: "it does not decode: unexpected end of JSON input"}},
		"a list":         {at(serve(t, answer("[]"))), wantFault{detail: "it does not decode: json: cannot unmarshal array into Go value of type v1alpha1."}},
		"half an answer": {at(serve(t, answer(`{"status":"Success"`))), wantFault{detail: "it does not decode: unexpected end of JSON input"}},
		"two answers":    {at(serve(t, answer(`{"status":"Success"}{}`))), wantFault{detail: "it does not decode: invalid character '{' after top-level value"}},
		"a huge answer": {at(serve(t, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"status":"Success","message":"`)
			for chunk := strings.Repeat("x", 1<<20); ; {
				if _, err := io.WriteString(w, chunk); err != nil {
					return
				}
			}
		})), wantFault{detail: "it has more than 20 MiB"}},
		"another status": {at(serve(t, answer(`{"status":"Maybe","message":"later"}`))),
			wantFault{detail: `its status is "Maybe", neither Success nor Failure; it says "later"`, never: true}},
		"a negative retryAfterSeconds": {at(serve(t, answer(`{"status":"Success","retryAfterSeconds":-1}`))),
			wantFault{detail: "retryAfterSeconds is -1", never: true}},
		"no status": {at(serve(t, answer(`{}`))), wantFault{detail: `its status is "", neither Success nor Failure; it says ""`, never: true}},
	}
}

// call calls one extension for a hook.
func call(ctx context.Context, t *testing.T, c *hookclient.Client, hook runtimecatalog.Hook, name string) (runtimehooksv1.ResponseObject, error) {
	t.Helper()
	catalog := newCatalog(t)
	gvh, err := catalog.GroupVersionHook(hook)
	if err != nil {
		t.Fatal(err)
	}
	request, err := catalog.NewRequest(gvh)
	if err != nil {
		t.Fatal(err)
	}
	response, err := catalog.NewResponse(gvh)
	if err != nil {
		t.Fatal(err)
	}
	out := as[runtimehooksv1.ResponseObject](t, response)
	return out, c.CallExtension(ctx, hook, cluster("default"), name, as[runtimehooksv1.RequestObject](t, request), out)
}

func TestFaults(t *testing.T) {
	t.Parallel()
	for name, tt := range faults(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newClient(t)
			config := extensionConfig("x", "BeforeClusterUpgrade/fail", "BeforeClusterUpgrade/ignore/Ignore", "UpdateMachine/update/Ignore")
			config.Spec.ClientConfig = tt.config
			config.Spec.Settings = map[string]string{"password": "secret-setting"}
			for i := range config.Status.Handlers {
				config.Status.Handlers[i].TimeoutSeconds = 30
				if tt.want.fault == hookclient.FaultTimeout {
					config.Status.Handlers[i].TimeoutSeconds = 1
				}
			}
			warm(t, c, config)
			for _, attempt := range []struct {
				hook    runtimecatalog.Hook
				name    string
				ignored bool
			}{
				{runtimehooksv1.BeforeClusterUpgrade, "fail.x", false},
				{runtimehooksv1.BeforeClusterUpgrade, "ignore.x", !tt.want.never},
				// An update is never done because nobody could be asked to do it.
				{runtimehooksv1.UpdateMachine, "update.x", false},
			} {
				response, err := call(t.Context(), t, c, attempt.hook, attempt.name)
				if attempt.ignored {
					want := &runtimehooksv1.BeforeClusterUpgradeResponse{}
					want.Status = runtimehooksv1.ResponseStatusSuccess
					if diff := cmp.Diff(runtimehooksv1.ResponseObject(want), response); err != nil || diff != "" {
						t.Errorf("%s: %v\n%s", attempt.name, err, diff)
					}
					continue
				}
				checkFault(t, err, tt.want)
				if response.GetStatus() != "" {
					t.Errorf("%s: the response is %+v", attempt.name, response)
				}
			}
		})
	}
}

func checkFault(t *testing.T, err error, want wantFault) {
	t.Helper()
	got, detail := hookclient.Fault(""), ""
	if unreachable, ok := errors.AsType[*hookclient.UnreachableError](err); ok {
		got, detail = unreachable.Fault, unreachable.Detail
		if !strings.Contains(err.Error(), unreachable.Host) {
			t.Errorf("it does not say where: %v", err)
		}
	} else if bad, ok := errors.AsType[*hookclient.BadResponseError](err); ok {
		detail = bad.Detail
	}
	if got != want.fault || !strings.HasPrefix(detail, want.detail) || detail == "" {
		t.Errorf("fault %q: %q, want %q: %q; error %v", got, detail, want.fault, want.detail, err)
	}
	if err == nil {
		return
	}
	for _, part := range []string{`of ExtensionConfig "x": `, ". Fix: "} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in: %v", part, err)
		}
	}
	for _, secret := range []string{"secret", "\n"} {
		if strings.Contains(err.Error(), secret) {
			t.Errorf("%q is in: %v", secret, err)
		}
	}
}

// A caller that does not wait gets its own error, whatever the failure policy: an answer was neither given nor refused.
func TestCallerGivesUp(t *testing.T) {
	t.Parallel()
	stopped := errors.New("the manager stops")
	ctx, cancel := context.WithCancelCause(t.Context())
	e, c := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		cancel(stopped)
		<-r.Context().Done()
	}), newClient(t)
	warm(t, c, e.config("x", "BeforeClusterUpgrade/a/Ignore"))
	if _, err := callUpgrade(ctx, c, "default"); !errors.Is(err, stopped) {
		t.Errorf("error is %v", err)
	}
}

// The same fault has the same words each time: they become a condition's message.
func TestFaultsAreStable(t *testing.T) {
	t.Parallel()
	e := serve(t, nil)
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	}()
	c := newClient(t)
	refused, closed := e.config("refused", "BeforeClusterUpgrade/a"), e.config("closed", "BeforeClusterUpgrade/a")
	refused.Spec.ClientConfig.URL = "https://127.0.0.1:1" // Nobody gets this port.
	closed.Spec.ClientConfig.URL = "https://" + listener.Addr().String()
	warm(t, c, refused, closed)
	for _, name := range []string{"a.refused", "a.closed"} {
		words := map[string]bool{}
		for range 20 {
			_, err := call(t.Context(), t, c, runtimehooksv1.BeforeClusterUpgrade, name)
			words[err.Error()] = true
		}
		if len(words) != 1 {
			t.Errorf("%s: %d different errors: %v", name, len(words), words)
		}
	}
}

// Of the hooks, those whose answer says what happens to objects are never ignored. Every hook of the catalog is in the table.
func TestIgnoreByHook(t *testing.T) {
	t.Parallel()
	hooks := map[runtimecatalog.GroupVersionHook]struct {
		hook    runtimecatalog.Hook
		ignored bool
	}{}
	catalog := newCatalog(t)
	add := func(ignored bool, functions ...runtimecatalog.Hook) {
		for _, f := range functions {
			gvh, err := catalog.GroupVersionHook(f)
			if err != nil {
				t.Fatal(err)
			}
			hooks[gvh] = struct {
				hook    runtimecatalog.Hook
				ignored bool
			}{f, ignored}
		}
	}
	add(true, runtimehooksv1.BeforeClusterCreate, runtimehooksv1.AfterControlPlaneInitialized, runtimehooksv1.BeforeClusterUpgrade,
		runtimehooksv1.BeforeControlPlaneUpgrade, runtimehooksv1.AfterControlPlaneUpgrade, runtimehooksv1.BeforeWorkersUpgrade,
		runtimehooksv1.AfterWorkersUpgrade, runtimehooksv1.AfterClusterUpgrade, runtimehooksv1.BeforeClusterDelete, runtimehooksv1.ValidateTopology)
	add(false, runtimehooksv1.GeneratePatches, runtimehooksv1.DiscoverVariables, runtimehooksv1.GenerateUpgradePlan,
		runtimehooksv1.CanUpdateMachine, runtimehooksv1.CanUpdateMachineSet, runtimehooksv1.UpdateMachine)
	e, c := serve(t, nil), newClient(t)
	e.Close()
	warm(t, c)
	for gvh := range catalog.AllKnownHooks() {
		tt, ok := hooks[gvh]
		if !ok {
			if gvh.Hook != "Discovery" {
				t.Errorf("%s is not in the table", gvh)
			}
			continue
		}
		if err := c.Register(e.config("x", gvh.Hook+"/a/Ignore")); err != nil {
			t.Fatal(err)
		}
		_, err := call(t.Context(), t, c, tt.hook, "a.x")
		if _, unreachable := errors.AsType[*hookclient.UnreachableError](err); tt.ignored != (err == nil) || unreachable == tt.ignored {
			t.Errorf("%s: ignored %t, want %t: %v", gvh.Hook, err == nil, tt.ignored, err)
		}
	}
}

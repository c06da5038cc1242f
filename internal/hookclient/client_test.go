package hookclient_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/windlass-dev/windlass/internal/hookclient"
	"github.com/windlass-dev/windlass/test/loopback"
)

const success = `{"status":"Success"}`

// Connections are kept for further calls and for discovery, until the ExtensionConfig changes or goes.
func TestConnectionsAreKept(t *testing.T) {
	t.Parallel()
	e := serve(t, announce())
	c := newClient(t)
	warm(t, c)
	register := func(config *runtimev1.ExtensionConfig) {
		t.Helper()
		if _, err := c.Discover(t.Context(), config); err != nil {
			t.Fatal(err)
		}
		if err := c.Register(config); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if _, err := call(t.Context(), t, c, runtimehooksv1.BeforeClusterUpgrade, "a.x"); err != nil {
				t.Fatal(err)
			}
		}
	}
	config := e.config("x", "BeforeClusterUpgrade/a")
	for range 3 {
		register(config)
	}
	if got := e.connections.Load(); got != 1 {
		t.Errorf("%d connections, want 1", got)
	}
	config.Spec.ClientConfig.URL += "/below"
	register(config)
	if got := e.connections.Load(); got != 2 {
		t.Errorf("%d connections after a change, want 2", got)
	}
	if err := c.Unregister(config); err != nil {
		t.Fatal(err)
	}
	register(config)
	if got := e.connections.Load(); got != 3 {
		t.Errorf("%d connections after it was gone, want 3", got)
	}
}

// An extension that restarts closes the connections that were kept; the next call does not fail of that. (HTTP/2 says that it closes one.)
func TestRestartOfAnExtension(t *testing.T) {
	t.Parallel()
	e, c := serve(t, answer(success), func(c *tls.Config) { c.NextProtos = []string{"http/1.1"} }), newClient(t)
	warm(t, c, e.config("x", "BeforeClusterUpgrade/a"))
	for range 100 {
		if _, err := call(t.Context(), t, c, runtimehooksv1.BeforeClusterUpgrade, "a.x"); err != nil {
			t.Fatal(err)
		}
		e.CloseClientConnections()
	}
}

func TestClientCertificate(t *testing.T) {
	t.Parallel()
	ca, dir := newAuthority(t), t.TempDir()
	ca.install(t, dir, 7)
	e := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, `{"status":"Success","message":"%d"}`, r.TLS.PeerCertificates[0].SerialNumber)
	}, func(c *tls.Config) { c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, ca.Pool() })
	c := newClient(t, func(o *hookclient.Options) {
		o.CertFile, o.KeyFile = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Start ended with %v", err)
		}
	})
	warm(t, c, e.config("x", "BeforeClusterUpgrade/a"))
	shown := func() string {
		response, err := callUpgrade(t.Context(), c, "default")
		if err != nil {
			t.Fatal(err)
		}
		return response.Message
	}
	if got := shown(); got != "7" {
		t.Fatalf("it shows certificate %s, want 7", got)
	}
	// The connection that is there was made with the old one; it is not used any more.
	ca.install(t, dir, 8)
	loopback.Eventually(t, "the new certificate is shown", func() bool { return shown() == "8" })
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "missing")
	for name, o := range map[string]hookclient.Options{
		"a certificate without a key": {CertFile: missing},
		"a key without a certificate": {KeyFile: missing},
		"files that are not there":    {CertFile: missing, KeyFile: missing},
	} {
		if _, err := hookclient.New(o); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	registry := prometheus.NewRegistry()
	for i, want := range []bool{true, false} {
		if _, err := hookclient.New(hookclient.Options{Metrics: registry}); (err == nil) != want {
			t.Errorf("metrics registered %d times: %v", i+1, err)
		}
	}
	c := newClient(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Start(ctx); err != nil || c.NeedLeaderElection() {
		t.Errorf("Start: %v", err)
	}
}

// Everything at once: calls never fail, and never see half of an ExtensionConfig, while it is registered again and another comes and goes.
func TestConcurrency(t *testing.T) {
	t.Parallel()
	e := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/discovery") {
			announce(handler("a", "BeforeClusterUpgrade", ""), handler("b", "BeforeClusterUpgrade", ""))(w, r)
			return
		}
		_, _ = io.WriteString(w, `{"status":"Success","message":"`+r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]+`"}`)
	})
	c := newClient(t)
	stays, comes := e.config("stays", "BeforeClusterUpgrade/a", "BeforeClusterUpgrade/b"), e.config("comes", "BeforeClusterUpgrade/c")
	warm(t, c, stays)
	var group sync.WaitGroup
	stop := make(chan struct{})
	repeat := func(step func(i int) error) {
		group.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				if err := step(i); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	repeat(func(i int) error {
		config := stays.DeepCopy()
		// Every other time it is reached elsewhere.
		if i%2 == 1 {
			config.Spec.ClientConfig.URL += "/below"
		}
		discovered, err := c.Discover(t.Context(), config)
		if err != nil {
			return err
		}
		return c.Register(discovered)
	})
	repeat(func(int) error { return errors.Join(c.Register(comes), c.Unregister(comes)) })
	repeat(func(int) error {
		_, err := c.Conflicts(t.Context())
		return err
	})
	var calls sync.WaitGroup
	for range 4 {
		calls.Go(func() {
			for range 100 {
				response, err := callUpgrade(t.Context(), c, "default")
				if err != nil || response.Message != "a, b" && response.Message != "a, b, c" {
					t.Errorf("message is %q, %v", response.Message, err)
					return
				}
			}
		})
	}
	calls.Wait()
	close(stop)
	group.Wait()
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	bodies := map[string]string{"pass": success, "block": `{"status":"Success","retryAfterSeconds":5}`, "refuse": `{"status":"Failure"}`, "bad": `{`, "ignore": `{`}
	e, registry := serve(t, answers(bodies)), prometheus.NewRegistry()
	gone := serve(t, nil)
	gone.Close()
	c := newClient(t, func(o *hookclient.Options) { o.Metrics = registry })
	warm(t, c, gone.config("gone", "BeforeClusterUpgrade/a"),
		e.config("x", "BeforeClusterUpgrade/pass", "BeforeClusterUpgrade/block", "BeforeClusterUpgrade/refuse", "BeforeClusterUpgrade/bad", "BeforeClusterUpgrade/ignore/Ignore"))
	for _, name := range []string{"pass.x", "pass.x", "block.x", "refuse.x", "bad.x", "ignore.x", "a.gone", "unknown.x"} {
		_, _ = call(t.Context(), t, c, runtimehooksv1.BeforeClusterUpgrade, name)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	_, _ = call(cancelled, t, c, runtimehooksv1.BeforeClusterUpgrade, "pass.x")
	requests, timed := gather(t, registry)
	want := map[string]float64{
		"BeforeClusterUpgrade pass.x x success": 2, "BeforeClusterUpgrade block.x x blocked": 1, "BeforeClusterUpgrade refuse.x x failure": 1,
		"BeforeClusterUpgrade bad.x x bad_response": 1, "BeforeClusterUpgrade ignore.x x ignored": 1,
		"BeforeClusterUpgrade a.gone gone unreachable": 1, "BeforeClusterUpgrade pass.x x other": 1,
	}
	if diff := cmp.Diff(want, requests); diff != "" || timed["BeforeClusterUpgrade pass.x x"] != 3 {
		t.Errorf("timed %v, requests:\n%s", timed, diff)
	}
	if err := c.Unregister(extensionConfig("x")); err != nil {
		t.Fatal(err)
	}
	requests, timed = gather(t, registry)
	if diff := cmp.Diff(map[string]float64{"BeforeClusterUpgrade a.gone gone unreachable": 1}, requests); diff != "" || len(timed) != 1 {
		t.Errorf("after it was unregistered: timed %v, requests:\n%s", timed, diff)
	}
}

// gather returns how many requests there were and how many were timed, by hook, extension, ExtensionConfig and result.
func gather(t *testing.T, registry *prometheus.Registry) (requests map[string]float64, timed map[string]uint64) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	requests, timed = map[string]float64{}, map[string]uint64{}
	for _, family := range families {
		if strings.HasPrefix(family.GetName(), "capi_runtime_sdk_") {
			continue
		}
		for _, metric := range family.GetMetric() {
			values := map[string]string{}
			for _, label := range metric.GetLabel() {
				values[label.GetName()] = label.GetValue()
			}
			key := values["hook"] + " " + values["extension"] + " " + values["extension_config"]
			switch family.GetName() {
			case "windlass_hook_requests_total":
				requests[key+" "+values["result"]] = metric.GetCounter().GetValue()
			case "windlass_hook_request_duration_seconds":
				timed[key] = metric.GetHistogram().GetSampleCount()
			default:
				t.Errorf("there is a metric %s", family.GetName())
			}
		}
	}
	return requests, timed
}

// The log says when an extension stops to answer and when it begins again, not once per call.
func TestLog(t *testing.T) {
	t.Parallel()
	body := atomic.Pointer[string]{}
	e, c := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, *body.Load()) }), newClient(t)
	warm(t, c, e.config("x", "BeforeClusterUpgrade/a/Ignore"))
	ctx, lines := record(t.Context())
	for _, tt := range []struct {
		body string
		want []string
	}{
		{success, nil},
		{`{"status":"Failure"}`, nil},
		{`{`, []string{"ERROR Extension does not answer"}},
		{`[`, nil},
		{`{"status":"Failure"}`, []string{"Extension answers again"}},
		{`{`, []string{"ERROR Extension does not answer"}},
		{success, []string{"Extension answers again"}},
	} {
		body.Store(&tt.body)
		before := len(lines())
		for range 3 {
			_, _ = callUpgrade(ctx, c, "default")
		}
		if diff := cmp.Diff(tt.want, lines()[before:]); diff != "" && (len(tt.want) > 0 || len(lines()) > before) {
			t.Errorf("%s:\n%s", tt.body, diff)
		}
	}
	// What was wrong with an ExtensionConfig that went is not known of the next one with its name.
	bad := `{`
	body.Store(&bad)
	_, _ = callUpgrade(ctx, c, "default")
	before := len(lines())
	if err := c.Unregister(extensionConfig("x")); err != nil {
		t.Fatal(err)
	}
	if err := c.Register(e.config("x", "BeforeClusterUpgrade/a")); err != nil {
		t.Fatal(err)
	}
	_, _ = callUpgrade(ctx, c, "default")
	if got := lines()[before:]; len(got) != 1 {
		t.Errorf("lines are %q", got)
	}
}

// The time that a status names is bounded, by whomever it was written.
func TestTimeouts(t *testing.T) {
	t.Parallel()
	e, c := serve(t, answer(success)), newClient(t)
	warm(t, c)
	for seconds, want := range map[int32]time.Duration{0: 10 * time.Second, -5: 10 * time.Second, 1: time.Second, 30: 30 * time.Second, 31: 30 * time.Second, 1 << 30: 30 * time.Second} {
		config := e.config("x", "BeforeClusterUpgrade/a")
		config.Status.Handlers[0].TimeoutSeconds = seconds
		if err := c.Register(config); err != nil {
			t.Fatal(err)
		}
		if _, err := callUpgrade(t.Context(), c, "default"); err != nil {
			t.Fatal(err)
		}
		if got := e.received(); got[len(got)-1].query != "timeout="+want.String() {
			t.Errorf("%d: %s, want %s", seconds, got[len(got)-1].query, want)
		}
	}
}

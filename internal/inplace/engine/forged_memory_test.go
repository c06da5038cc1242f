package engine

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/windlass-dev/windlass/internal/hookserver"
	"github.com/windlass-dev/windlass/test/loopback"
)

// serveEngine serves the hooks of an engine over TLS, as the extension does, and returns a function
// that sends a request to one of them.
func serveEngine(t *testing.T, e *Engine) func(hook, handler string, body []byte) (code int, answer []byte) {
	t.Helper()
	ca, dir, port := loopback.NewAuthority(t, "test CA"), t.TempDir(), loopback.FreePort(t)
	ca.Issue(t, "server", time.Now().Add(time.Hour)).WriteTo(t, dir)
	server, err := hookserver.New(hookserver.Options{
		Endpoint: hookserver.Endpoint{BindAddress: "127.0.0.1", Port: port, CertDir: dir}, Updates: e,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- server.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the server ended with %v", err)
		}
	})
	loopback.Eventually(t, "the server is ready", func() bool { return server.Ready(nil) == nil })
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: ca.Pool(), MinVersion: tls.VersionTLS13}, DisableKeepAlives: true}}
	return func(hook, handler string, body []byte) (int, []byte) {
		url := fmt.Sprintf("https://127.0.0.1:%d/hooks.runtime.cluster.x-k8s.io/v1alpha1/%s/%s?timeout=10s", port, strings.ToLower(hook), handler)
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		response, err := c.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = response.Body.Close() }()
		answer, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, answer
	}
}

// forgedSpec returns the fields of a spec whose n leaves have long keys above them.
func forgedSpec(levels, n int) string {
	var b strings.Builder
	for range levels {
		fmt.Fprintf(&b, `{"%s":`, strings.Repeat("k", 500))
	}
	b.WriteString("{")
	for i := range n {
		fmt.Fprintf(&b, `"%x":1,`, i)
	}
	return `"x":` + b.String() + `"z":1}` + strings.Repeat("}", levels)
}

// TestForgedHooksTakeBoundedMemory sends forged requests over HTTPS. Each is refused, and the process
// allocates at most so many times as many bytes as the request has. It is not parallel, because it
// counts allocations.
func TestForgedHooksTakeBoundedMemory(t *testing.T) {
	const maxGrowth = 400
	w, _ := newControlPlane(t)
	send := serveEngine(t, w.engine)
	forge := func(spec string) string {
		return strings.Replace(infrastructureMachine, `"spec":{`, `"spec":{`+spec+`,`, 1)
	}
	wide, deep := forge(forgedSpec(20, 18_000)), forge(`"x":[`+strings.Repeat(strings.Repeat(`{"a":`, 100)+"1"+strings.Repeat("}", 100)+",", 150)+"1]")
	beyond := forge(`"x":[` + strings.Repeat(`{"a":1},`, 15_000) + "1]")
	for name, tt := range map[string]struct {
		raw     string
		desired bool
		code    int
		want    string
	}{
		"current, many fields":     {wide, false, http.StatusOK, CurrentDiffers},
		"current, many levels":     {deep, false, http.StatusOK, CurrentDiffers},
		"current, beyond limits":   {beyond, false, http.StatusOK, "20000 values"},
		"desired, many fields":     {wide, true, http.StatusOK, DesiredDiffers},
		"desired, many levels":     {deep, true, http.StatusOK, DesiredDiffers},
		"desired, beyond limits":   {beyond, true, http.StatusOK, "20000 values"},
		"too much to be read":      {forge(`"x":[` + strings.Repeat(strings.Repeat(`{"a":`, 100)+"1"+strings.Repeat("}", 100)+",", 1_000) + "1]"), false, http.StatusRequestEntityTooLarge, "too many values"},
		"many, too much to parse":  {forge(`"x":[` + strings.Repeat("0,", 120_000) + "1]"), false, http.StatusRequestEntityTooLarge, "too many values"},
		"levels beyond all bounds": {forge(`"x":` + strings.Repeat("[", 5_000) + strings.Repeat("]", 5_000)), false, http.StatusRequestEntityTooLarge, "levels"},
	} {
		request := canUpdateMachine(controlPlaneMachine("cp", from), controlPlaneMachine("cp", to))
		part := &request.Current.InfrastructureMachine
		if tt.desired {
			part = &request.Desired.InfrastructureMachine
		}
		part.Raw = []byte(tt.raw)
		request.SetGroupVersionKind(runtimehooksv1.GroupVersion.WithKind("CanUpdateMachineRequest"))
		body, err := json.Marshal(request)
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		code, answer := send("CanUpdateMachine", hookserver.CanUpdateMachineHandler, body)
		runtime.ReadMemStats(&after)
		got := int(after.TotalAlloc - before.TotalAlloc)
		if code != tt.code || !bytes.Contains(answer, []byte(tt.want)) {
			t.Errorf("%s: status %d, %.300s, want %d and %q", name, code, answer, tt.code, tt.want)
		}
		if bytes.Contains(answer, []byte(`"status":"Success"`)) || len(answer) > 4<<10 {
			t.Errorf("%s: the answer has %d bytes: %.300s", name, len(answer), answer)
		}
		if got > maxGrowth*len(body)+4<<20 {
			t.Errorf("%s: a request of %d KiB, and the process allocates %d KiB", name, len(body)>>10, got>>10)
		}
	}
}

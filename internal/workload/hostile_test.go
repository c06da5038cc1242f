package workload_test

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windlass-dev/windlass/internal/workload"
)

// serve answers every request as given, whoever asks.
func (w *world) serve(serve http.HandlerFunc) { w.server.Config.Handler = serve }

func jsonAnswer(body string) http.HandlerFunc {
	return func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		_, _ = rw.Write([]byte(body))
	}
}

// Nothing of an answer is shown but a bounded Status.
func TestHostileAnswersAreNotShown(t *testing.T) {
	t.Parallel()
	const marked = "internal-secret"
	plain := func(kind string, code int) http.HandlerFunc {
		return func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Type", kind)
			rw.WriteHeader(code)
			_, _ = rw.Write([]byte(marked))
		}
	}
	for name, test := range map[string]struct {
		serve http.HandlerFunc
		want  string
	}{
		"text, 200":        {plain("text/plain", 200), "the answer is not JSON"},
		"no JSON, 200":     {plain("application/json", 200), "the answer is not one of an API server"},
		"protobuf, 200":    {plain("application/vnd.kubernetes.protobuf", 200), "the answer is not JSON"},
		"no kind":          {jsonAnswer(`{"key":"` + marked + `"}`), "the answer is about another object"},
		"another kind":     {jsonAnswer(`{"kind":"` + marked + `","apiVersion":"v1"}`), "the answer is not one of an API server"},
		"another type":     {jsonAnswer(`{"kind":"Node","apiVersion":"v1","metadata":{"name":["` + marked + `"]}}`), "the answer is not one of an API server"},
		"another Node":     {jsonAnswer(`{"kind":"Node","apiVersion":"v1","metadata":{"name":"` + marked + `"}}`), "the answer is about another object"},
		"text, 403":        {plain("text/plain", 403), "reading Node n:"},
		"text, 500":        {plain("text/plain", 500), "reading Node n:"},
		"JSON, 500":        {plain("application/json", 500), "reading Node n:"},
		"text, 401":        {plain("text/plain", 401), "reading Node n:"},
		"a redirect":       {plain("text/plain", 302), "the answer is a redirect (HTTP status 302)"},
		"too many objects": {jsonAnswer(`{"kind":"Node","apiVersion":"v1","x":[` + strings.Repeat(`[{}],`, 19_000) + strings.Repeat(`{"a":[{},{},{},{},{},{},{},{},{},{}]},`, 10_000) + `{}]}`), "the answer has more than"},
		"a long list":      {jsonAnswer(`{"kind":"Node","apiVersion":"v1","x":[` + strings.Repeat(`0,`, 30_000) + `0]}`), "the answer has more than"},
		"nested":           {jsonAnswer(`{"kind":"Node","x":` + strings.Repeat(`[`, 100_000)), "the answer has more than"},
		"Status with secret": {func(rw http.ResponseWriter, _ *http.Request) {
			rw.WriteHeader(http.StatusInternalServerError)
			_, _ = fmt.Fprintf(rw, `{"kind":"Status","message":"%s%s"}`, strings.Repeat("y", 600), marked)
		}, "yyy"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.serve(test.serve)
			told := w.nodes.Node(t.Context(), cluster, "n").Unknown
			if !strings.HasPrefix(told, "Cluster default/c cannot be asked: ") || !strings.Contains(told, test.want) {
				t.Errorf("told %q, want %q", told, test.want)
			}
			if strings.Contains(told, marked) || len(told) > 1<<10 {
				t.Errorf("the answer is shown: %.2000q", told)
			}
		})
	}
}

// What is decoded of the most expensive answers stays far below the 512 MiB that the manifest
// allows. Measured on an idle machine: about 60 MiB for one answer.
func TestHostileAnswersAreBounded(t *testing.T) {
	const bound = 200 << 20
	node := `{"kind":"Node","apiVersion":"v1","metadata":{"name":"n","annotations":{"a":"`
	list := `{"kind":"NodeList","apiVersion":"v1","metadata":{"continue":"more"},"items":[`
	for name, serve := range map[string]http.HandlerFunc{
		"an endless string": endless(node, strings.Repeat("x", 1<<20)),
		"endless items":     endless(list, strings.Repeat("{},", 1<<16)),
		"endless pages":     jsonAnswer(list + strings.TrimSuffix(strings.Repeat("{},", 19_000), ",") + "]}"),
		"items with lists":  jsonAnswer(list + strings.TrimSuffix(strings.Repeat(`{"status":{"conditions":[{},{},{},{}]}},`, 15_000), ",") + "]}"),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.serve(serve)
			facts := workload.NewFacts(w.management, func() time.Time { return w.now })
			peak := watchHeap(t)
			if node := w.nodes.Node(t.Context(), cluster, "n"); node.Unknown == "" {
				t.Errorf("the Node is %+v", node)
			}
			if nodes, err := facts.Nodes(t.Context(), cluster); err == nil {
				t.Errorf("%d Nodes", len(nodes))
			}
			if nodes, err := facts.ControlPlaneNodes(t.Context(), cluster); err == nil {
				t.Errorf("%d Nodes of the control plane", len(nodes))
			}
			if peak := peak(); peak > bound {
				t.Errorf("the heap had %d MiB, want at most %d", peak>>20, bound>>20)
			} else {
				t.Logf("the heap had %d MiB", peak>>20)
			}
		})
	}
}

// endless answers with 400 MiB of JSON.
func endless(start, piece string) http.HandlerFunc {
	return func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		_, err := rw.Write([]byte(start))
		for sent := 0; sent < 400<<20 && err == nil; sent += len(piece) {
			_, err = rw.Write([]byte(piece))
		}
	}
}

// watchHeap returns a function that stops watching and returns the largest heap that was seen.
func watchHeap(t *testing.T) func() uint64 {
	t.Helper()
	runtime.GC()
	var peak atomic.Uint64
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		ticks := time.NewTicker(10 * time.Millisecond)
		defer ticks.Stop()
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			peak.Store(max(peak.Load(), m.HeapAlloc))
			select {
			case <-stop:
				return
			case <-ticks.C:
			}
		}
	}()
	return func() uint64 { close(stop); <-stopped; return peak.Load() }
}

// Requests that this process holds back tell nothing about the cluster: their caller asks again,
// and others ask at once.
func TestThrottledIsNotUnreachable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.serve(jsonAnswer(`{"kind":"Node","apiVersion":"v1","metadata":{"name":"n"},"status":{"nodeInfo":{"kubeletVersion":"v1.31.1"},"conditions":[{"type":"Ready","status":"True"}]}}`))
	const want = "Cluster default/c was not asked yet: Windlass sends at most 20 requests per second"
	// The limiter allows another request after 50 ms, and the caller's time is short: a busy machine
	// may take a few attempts.
	for throttled := false; !throttled; {
		if err := w.nodes.Exhaust(t.Context(), cluster); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		told := w.nodes.Node(ctx, cluster, "n").Unknown
		throttled = strings.HasPrefix(told, want)
		if !throttled && told != "" && ctx.Err() == nil {
			t.Fatalf("told %q, want %q", told, want)
		}
		cancel()
	}
	if node := w.nodes.Node(t.Context(), cluster, "n"); node.Unknown != "" {
		t.Errorf("another caller is told %q about a healthy cluster", node.Unknown)
	}
}

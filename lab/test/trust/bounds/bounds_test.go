// Package bounds shows that each handler of `windlass extension` keeps the limits of the process,
// whatever a tenant stores or a caller sends. What is registered is read from the process: a new
// hook, webhook or reconciler fails TestLargestObjects until a table below has an entry for it.
package bounds

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windlass-dev/windlass/lab/test/wire"
	"github.com/windlass-dev/windlass/test/loopback"
)

func TestMain(m *testing.M) { wire.Main(m) }

const (
	// storedBytes is how much of Windlass' own objects the first tenant stores in its namespace.
	// SECURITY.md states this number.
	storedBytes = 16 << 20
	// callers is how many requests are sent at once.
	callers = 16
	// maxRounds bounds how often all callers send, until a bound is hit.
	maxRounds = 20
	// maxAnswer bounds the answer to any request. The largest is a refusal with its reasons.
	maxAnswer = 64 << 10
	// maxBody is a body that is longer than what a port reads.
	maxBody = 10 << 20
)

// TestLargestObjects: one tenant stores the largest objects that the API server accepts, and a
// caller sends the largest requests about them, many at once, to each handler. Requests beyond the
// bounds get a refusal. The process stays within the memory of its manifest, and serves another
// tenant throughout.
func TestLargestObjects(t *testing.T) {
	plane := wire.Start(t)
	w := newWorld(t, plane)
	w.extension = plane.Run(t, "--insecure-diagnostics")
	paths, reconcilers := registered(t, w.extension)
	for _, name := range reconcilers {
		served, known := reconciled[name]
		if !known {
			t.Errorf("the reconciler %q has no entry: which objects hit its bound?", name)
			continue
		}
		served(t, w)
	}
	for _, path := range paths {
		request, known := requests[path]
		if !known {
			t.Errorf("the handler at %s has no entry: what is its largest request?", path)
			continue
		}
		t.Run(path[strings.LastIndex(path, "/")+1:], func(t *testing.T) { flood(t, w, path, request(t, w)) })
	}
	memory, limit := w.extension.Memory(t), wire.MemoryLimit(t)
	t.Logf("the process had %d of %d MiB", memory>>20, limit>>20)
	if w.extension.Ended() || memory > limit {
		t.Errorf("the process had %d MiB of %d MiB; ended: %t", memory>>20, limit>>20, w.extension.Ended())
	}
}

// registered returns the paths of hooks and webhooks, and the names of reconcilers, as the process
// has them.
func registered(t *testing.T, e *wire.Process) (paths, reconcilers []string) {
	t.Helper()
	loopback.Eventually(t, "the process has started its reconcilers", func() bool {
		served := wire.Scrape(t, http.DefaultClient, "http://"+e.Diagnostics)
		paths = values(served, "controller_runtime_webhook_requests_in_flight", "webhook")
		reconcilers = values(served, "controller_runtime_active_workers", "controller")
		return len(paths) > 0 && len(reconcilers) > 0
	})
	return paths, reconcilers
}

// values returns the values of a label of a family, sorted.
func values(served wire.Families, family, label string) []string {
	var all []string
	for _, m := range served[family].GetMetric() {
		for _, pair := range m.GetLabel() {
			if pair.GetName() == label {
				all = append(all, pair.GetValue())
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// flood sends the largest request to one handler, callers at once, until one of them was refused for
// lack of room or all rounds are over, and one that is too long. Meanwhile the other tenant asks.
func flood(t *testing.T, w *world, path string, largest any) {
	t.Helper()
	url := w.extension.Hooks + path
	if !strings.HasPrefix(path, "/hooks.") {
		url = w.extension.Guard + path
	}
	client := w.extension.Client(t, nil)
	var sent, answered, refused atomic.Int64
	for range maxRounds {
		var wait sync.WaitGroup
		for range callers {
			wait.Go(func() {
				sent.Add(1)
				code, body, err := w.extension.Post(t.Context(), client, url, largest)
				if err != nil {
					t.Errorf("the process did not answer: %v", err)
					return
				}
				answered.Add(1)
				if isRefusal(code) {
					refused.Add(1)
				}
				if len(body) > maxAnswer {
					t.Errorf("an answer has %d bytes", len(body))
				}
			})
		}
		w.askAsOther(t)
		wait.Wait()
		if refused.Load() > 0 {
			break
		}
	}
	code, _, err := w.extension.Post(t.Context(), client, url, map[string]string{"x": strings.Repeat("x", maxBody)})
	// The server may end the connection of a body that is too long while it is sent.
	if err == nil && code != http.StatusRequestEntityTooLarge {
		t.Errorf("a body of %d bytes is answered %d", maxBody, code)
	}
	t.Logf("%d of %d requests refused", refused.Load(), sent.Load())
	if answered.Load() != sent.Load() {
		t.Errorf("%d of %d requests were answered", answered.Load(), sent.Load())
	}
	if refused.Load() == 0 {
		t.Error("no bound was hit: no request was refused")
	}
}

// isRefusal reports whether the intake of a port refused a request for lack of room, or a handler
// did: the guard answers 429.
func isRefusal(code int) bool {
	return code == http.StatusServiceUnavailable || code == http.StatusTooManyRequests
}

// filler returns a value of about so many bytes.
func filler(bytes int) string { return strings.Repeat("x", bytes) }

func encodedSize(t *testing.T, value any) int {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return len(data)
}

// patience bounds each wait; all end by events.
const patience = 2 * time.Minute

func name(format string, i int) string { return fmt.Sprintf(format, i) }

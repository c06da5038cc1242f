// Package bounds shows that each handler of `windlass extension` and `windlass manager` keeps the
// limits of the process, whatever a tenant stores or a caller sends. What is registered is read from
// the process: a new hook, webhook or reconciler fails TestLargestObjects until a table of the program
// has an entry for it. A reconciler that multiplies requests to the API server, their bytes, or copies
// fails it, too. Nothing here is a number of seconds.
package bounds

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"

	"github.com/windlass-dev/windlass/lab/test/wire"
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

// program is one of the programs, with an entry for each of its handlers.
type program struct {
	process *wire.Process
	meter   *meter
	// at returns where the handler of a path is served.
	at func(path string) string
	// requests returns the largest request of each handler of a path.
	requests map[string]func(*testing.T, *world) any
	// denied returns a review that the handler of a path must deny.
	denied map[string]func(*testing.T, *world) any
	// reconcilers are all that the program has.
	reconcilers map[string]reconciler
	// sends is what its reconcilers may send to the API server.
	sends map[string]sent
	// copies is how many bytes it may allocate for each byte that it sends to the API server and reads
	// from it: requests are encoded, answers are decoded, converted and kept. More means that objects
	// are copied again and again.
	copies float64
	// asOther asks for the other tenant, and returns the code of the answer.
	asOther func(context.Context) (int, []byte, error)
}

// reconciler is what a reconciler does with the largest objects.
type reconciler struct {
	// least is how often it reconciles at least: it must look at that many objects. most is how often
	// at most, with all retries of errors, until nothing is left to do; 0 means that it looks again
	// and again.
	least, most float64
	// written waits until it has written about all of them; nil if it writes nothing.
	written func(*testing.T, *world)
}

// TestLargestObjects: one tenant stores the largest objects that the API server accepts, and a
// caller sends the largest requests about them, many at once, to each handler of both programs.
// Requests beyond the bounds get a refusal. The process stays within the memory of the manifest,
// serves another tenant throughout, and its reconcilers send a bounded number of requests and bytes.
func TestLargestObjects(t *testing.T) {
	plane := wire.Start(t)
	// The extension reads what the manager leaves, too. The manager is not for its objects.
	t.Run("manager", func(t *testing.T) {
		w := newWorld(t, plane,
			size{groups: managed, rivals: managed, annotated: managed / 2, stored: managed})
		w.addForManager(t)
		runManager(t, w).test(t, w)
	})
	t.Run("extension", func(t *testing.T) {
		w := newWorld(t, plane,
			size{groups: groups, rivals: rivals, annotated: annotated, stored: stored})
		if w.bytes < storedBytes {
			t.Fatalf("the largest objects have %d bytes, want %d", w.bytes, storedBytes)
		}
		runExtension(t, w).test(t, w)
	})
}

func (p *program) test(t *testing.T, w *world) {
	t.Helper()
	paths, reconcilers := p.registered(t)
	for name := range p.reconcilers {
		if !slices.Contains(reconcilers, name) {
			t.Errorf("there is no reconciler %q", name)
		}
	}
	for _, name := range reconcilers {
		p.reconcile(t, w, name)
	}
	p.checkSent(t)
	for _, path := range paths {
		request, known := p.requests[path]
		if !known {
			t.Errorf("the handler at %s has no entry: what is its largest request?", path)
			continue
		}
		t.Run(path[strings.LastIndex(path, "/")+1:], func(t *testing.T) {
			p.flood(t, path, request(t, w))
			if review := p.denied[path]; review != nil {
				p.deny(t, path, review(t, w))
			}
		})
	}
	memory, limit := p.process.Memory(t), wire.MemoryLimit(t)
	t.Logf("the process had %d of %d MiB", memory>>20, limit>>20)
	if p.process.Ended() || memory > limit {
		t.Errorf("the process had %d MiB of %d MiB; ended: %t",
			memory>>20, limit>>20, p.process.Ended())
	}
}

// registered returns the paths of hooks and webhooks, and the names of reconcilers, as the process
// has them once all that are known have started.
func (p *program) registered(t *testing.T) (paths, reconcilers []string) {
	t.Helper()
	p.await(t, "its reconcilers have started", func(served wire.Families) bool {
		paths = values(served, "controller_runtime_webhook_requests_in_flight", "webhook")
		reconcilers = values(served, "controller_runtime_active_workers", "controller")
		missing := false
		for name := range p.reconcilers {
			missing = missing || !slices.Contains(reconcilers, name)
		}
		return len(paths) > 0 && !missing
	})
	return paths, reconcilers
}

// await looks at the metrics until they show something. A look allocates in the process, so there are
// few: what is allocated would depend on how fast the machine is.
func (p *program) await(t *testing.T, what string, seen func(wire.Families) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	looks := time.NewTicker(pollEvery)
	defer looks.Stop()
	for !seen(p.scrape(t)) {
		select {
		case <-looks.C:
		case <-ctx.Done():
			t.Fatalf("waiting %s until %s", patience, what)
		}
	}
}

// reconcile waits until a reconciler has looked at the largest objects of its kinds and is idle, and
// checks how often it reconciled.
func (p *program) reconcile(t *testing.T, w *world, name string) {
	t.Helper()
	r, known := p.reconcilers[name]
	if !known {
		t.Errorf("the reconciler %q has no entry: which objects hit its bound?", name)
		return
	}
	if r.written != nil {
		r.written(t, w)
	}
	p.await(t, name+" has looked at its objects and is idle", func(served wire.Families) bool {
		return value(served, reconciles, name) >= r.least && (r.most == 0 ||
			value(served, "controller_runtime_active_workers", name) == 0 &&
				value(served, "workqueue_depth", name) == 0)
	})
	got := p.value(t, reconciles, name)
	t.Logf("%-30s reconciled %.0f times", name, got)
	if r.most > 0 && got > r.most {
		t.Errorf("%s reconciled %.0f times, want at most %.0f", name, got, r.most)
	}
}

// checkSent compares what the process has sent to the API server with what its reconcilers may send. A
// kind of request without an entry fails.
func (p *program) checkSent(t *testing.T) {
	t.Helper()
	counted := p.meter.counted()
	var total int64
	for _, kind := range slices.Sorted(maps.Keys(counted)) {
		got, may := counted[kind], p.sends[kind]
		requests, size := may.once, may.size
		for _, name := range may.by {
			requests += may.per * p.value(t, reconciles, name)
		}
		for _, other := range may.with {
			requests += float64(counted[other].requests)
		}
		if resource, watches := strings.CutPrefix(kind, "watch "); watches {
			// What is written arrives again.
			for _, verb := range []string{"post ", "patch ", "put "} {
				size += counted[verb+resource].bytes + counted[verb+resource+"/status"].bytes
			}
		}
		t.Logf("%-40s %5d requests of %8d bytes", kind, got.requests, got.bytes/got.requests)
		if float64(got.requests) > requests || got.bytes/got.requests > size {
			t.Errorf("%s: %d requests of %d bytes each, want at most %.0f of %d",
				kind, got.requests, got.bytes/got.requests, requests, size)
		}
		total += got.bytes
	}
	allocated := p.value(t, "go_memstats_alloc_bytes_total", "")
	t.Logf("%d MiB to and from the API server, %.0f MiB allocated", total>>20, allocated/(1<<20))
	if allocated > p.copies*float64(total) {
		t.Errorf("the process has allocated %.0f bytes, want at most %g for each of %d",
			allocated, p.copies, total)
	}
}

// reconciles is the family that counts the reconciles of each controller.
const reconciles = "controller_runtime_reconcile_time_seconds"

func (p *program) scrape(t *testing.T) wire.Families {
	t.Helper()
	return wire.Scrape(t, http.DefaultClient, "http://"+p.process.Diagnostics)
}

// value returns the sum of all series of a family that a controller has, or that have no labels.
func (p *program) value(t *testing.T, family, controller string) float64 {
	t.Helper()
	return value(p.scrape(t), family, controller)
}

func value(served wire.Families, family, controller string) (sum float64) {
	for _, m := range served[family].GetMetric() {
		of := ""
		for _, pair := range m.GetLabel() {
			if pair.GetName() == "controller" {
				of = pair.GetValue()
			}
		}
		if of == controller {
			sum += m.GetGauge().GetValue() + m.GetCounter().GetValue() +
				float64(m.GetHistogram().GetSampleCount())
		}
	}
	return sum
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
func (p *program) flood(t *testing.T, path string, largest any) {
	t.Helper()
	url, client := p.at(path), p.process.Client(t, nil)
	body := json.RawMessage(encoded(t, largest))
	var sent, answered, refused atomic.Int64
	for range maxRounds {
		var wait sync.WaitGroup
		for range callers {
			wait.Go(func() {
				sent.Add(1)
				code, body, err := p.process.Post(t.Context(), client, url, body)
				if err != nil {
					t.Errorf("the process did not answer: %v", err)
					return
				}
				answered.Add(1)
				if isRefusal(code) {
					refused.Add(1)
				}
				if len(body) > maxAnswer && path != "/convert" {
					t.Errorf("an answer has %d bytes", len(body))
				}
			})
		}
		p.askAsOther(t)
		wait.Wait()
		if refused.Load() > 0 {
			break
		}
	}
	code, _, err := p.process.Post(t.Context(), client, url,
		json.RawMessage(`{"x":"`+filler(maxBody)+`"}`))
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

// askAsOther fails if the other tenant is not served, however full the process is.
func (p *program) askAsOther(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if code, body, err := p.asOther(ctx); err != nil || code != http.StatusOK {
		t.Errorf("the other tenant is not served: %d %s %v", code, body, err)
	}
}

// deny sends a review that the handler must deny.
func (p *program) deny(t *testing.T, path string, review any) {
	t.Helper()
	code, body, err := p.process.Post(t.Context(), p.process.Client(t, nil), p.at(path), review)
	var answer admissionv1.AdmissionReview
	if err == nil {
		err = json.Unmarshal(body, &answer)
	}
	if err != nil || code != http.StatusOK || answer.Response.Allowed {
		t.Errorf("a review that must be denied is answered %d: %.1000s %v", code, body, err)
	}
}

// isRefusal reports whether the intake of a port refused a request for lack of room, or a handler
// did: the guard answers 429.
func isRefusal(code int) bool {
	return code == http.StatusServiceUnavailable || code == http.StatusTooManyRequests
}

// filler returns a value of about so many bytes.
func filler(bytes int) string { return strings.Repeat("x", bytes) }

func encoded(t *testing.T, value any) []byte {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// patience bounds each wait; all end by events, or by what metrics show, which is read every pollEvery.
const patience, pollEvery = 2 * time.Minute, 500 * time.Millisecond

func name(format string, i int) string { return fmt.Sprintf(format, i) }

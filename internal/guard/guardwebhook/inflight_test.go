package guardwebhook_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/guard/guardwebhook"
)

// patience is the longest that a request waits for others: the API server waits for 10 s.
const patience = 4 * time.Second

func (w *world) create(object client.Object) {
	w.t.Helper()
	if err := w.client.Create(w.t.Context(), object); err != nil {
		w.t.Fatal(err)
	}
}

// A request that depends on one in flight waits until that one shows. One that never shows, because it failed later or was forged, changes
// no answer.
func TestRequestsInFlight(t *testing.T) {
	second := func() *clusterv1.Machine { return machine("w-newer", deploymentLabels, machineSet("ms-new", nil)) }
	released := func(w *world, name string) *clusterv1.Machine {
		m := w.machine(name)
		m.Annotations = map[string]string{v1alpha1.AllowReplacementAnnotation: ""}
		return m
	}
	for name, test := range map[string]struct {
		replicas int32
		first    func(*world) (admissionv1.Operation, any)
		// lands does what the first request asks for.
		lands  func(*world)
		second func(*world) (admissionv1.Operation, any)
		// Whether the second request is allowed if the first one lands, and if it never does.
		landed, never bool
		// atOnce: the answer does not depend on the first one.
		atOnce bool
	}{
		"two creates": {
			replicas: 4,
			first:    func(*world) (admissionv1.Operation, any) { return admissionv1.Create, newWorker() },
			lands:    func(w *world) { w.create(newWorker()) },
			second:   func(*world) (admissionv1.Operation, any) { return admissionv1.Create, second() },
			landed:   false, never: true,
		},
		"two creates with room for both": {
			replicas: 5,
			first:    func(*world) (admissionv1.Operation, any) { return admissionv1.Create, newWorker() },
			lands:    func(w *world) { w.create(newWorker()) },
			second:   func(*world) (admissionv1.Operation, any) { return admissionv1.Create, second() },
			landed:   true, never: true, atOnce: true,
		},
		"a create, then a delete": {
			replicas: 3,
			first: func(w *world) (admissionv1.Operation, any) {
				w.scale(4)
				return admissionv1.Create, newWorker()
			},
			lands: func(w *world) { w.create(newWorker()) },
			second: func(w *world) (admissionv1.Operation, any) {
				w.scale(3)
				return admissionv1.Delete, w.machine("w-0")
			},
			landed: true, never: false,
		},
		"two deletes": {
			replicas: 2,
			first:    func(w *world) (admissionv1.Operation, any) { return admissionv1.Delete, w.machine("w-0") },
			lands:    func(w *world) { w.remove(w.machine("w-0")) },
			second:   func(w *world) (admissionv1.Operation, any) { return admissionv1.Delete, w.machine("w-1") },
			landed:   false, never: true,
		},
		"one delete, twice": {
			replicas: 2,
			first:    func(w *world) (admissionv1.Operation, any) { return admissionv1.Delete, w.machine("w-0") },
			lands:    func(*world) {},
			second:   func(w *world) (admissionv1.Operation, any) { return admissionv1.Delete, w.machine("w-0") },
			landed:   true, never: true, atOnce: true,
		},
		"a delete that needs no count, then one that does": {
			replicas: 2,
			first:    func(w *world) (admissionv1.Operation, any) { return admissionv1.Delete, released(w, "w-0") },
			lands:    func(w *world) { w.remove(w.machine("w-0")) },
			second:   func(w *world) (admissionv1.Operation, any) { return admissionv1.Delete, w.machine("w-1") },
			landed:   false, never: true,
		},
		"a delete, then a create": {
			replicas: 3,
			first:    func(w *world) (admissionv1.Operation, any) { return admissionv1.Delete, released(w, "w-0") },
			lands:    func(w *world) { w.remove(w.machine("w-0")) },
			second:   func(*world) (admissionv1.Operation, any) { return admissionv1.Create, newWorker() },
			landed:   true, never: false,
		},
		"a delete of a Machine that does not exist": {
			replicas: 2,
			first: func(w *world) (admissionv1.Operation, any) {
				m := released(w, "w-0")
				m.UID = "forged"
				return admissionv1.Delete, m
			},
			lands:  func(*world) {},
			second: func(w *world) (admissionv1.Operation, any) { return admissionv1.Delete, w.machine("w-0") },
			landed: true, never: true, atOnce: true,
		},
	} {
		for happens, want := range map[string]bool{"lands": test.landed, "never lands": test.never} {
			t.Run(name+" that "+happens, func(t *testing.T) {
				w := newWorld(t)
				w.scale(test.replicas)
				operation, object := test.first(w)
				if !w.ask(operation, object).Allowed {
					t.Fatal("the first request is refused")
				}
				operation, object = test.second(w)
				if happens == "lands" {
					var once sync.Once
					w.pause = func() { once.Do(func() { test.lands(w) }) }
				}
				response := w.ask(operation, object)
				if response.Allowed != want {
					t.Errorf("allowed %t, %s; want %t", response.Allowed, response.Result.Message, want)
				}
				switch {
				case test.atOnce && w.slept != 0:
					t.Errorf("the answer came after %s", w.slept)
				case !test.atOnce && (w.slept == 0 || w.slept > patience):
					t.Errorf("the guard waited for %s", w.slept)
				}
			})
		}
	}
}

// A dry run leaves nothing in flight.
func TestDryRunIsNotInFlight(t *testing.T) {
	w := newWorld(t)
	w.scale(4)
	expect(t, w.ask(admissionv1.Create, newWorker(), dryRun), true, "Missing")
	expect(t, w.ask(admissionv1.Create, machine("w-newer", deploymentLabels, machineSet("ms-new", nil))), true, "Missing")
	if w.slept != 0 {
		t.Errorf("the second request waited for %s", w.slept)
	}
}

// Of many requests at the same time, as many are allowed as there is room for, if each lands.
func TestManyAtOnce(t *testing.T) {
	w := realTime(newWorld(t))
	w.scale(5)
	var wait sync.WaitGroup
	allowed := make(chan string, 20)
	for i := range 20 {
		m := newWorker()
		m.Name, m.UID = fmt.Sprintf("w-%d", 10+i), types.UID(fmt.Sprint(i))
		wait.Go(func() {
			if w.ask(admissionv1.Create, m).Allowed {
				w.create(m)
				allowed <- m.Name
			}
		})
	}
	wait.Wait()
	if len(allowed) != 2 {
		t.Errorf("%d creates were allowed, want 2", len(allowed))
	}
}

// TestBurst has 16 deletions wait for one that was admitted, where one Machine is to go. The next one is to be
// tried again, and does not pass; another group is not affected. One Machine goes, whether the first one does or not.
func TestBurst(t *testing.T) {
	for name, lands := range map[string]bool{"that lands": true, "that never lands": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testBurst(t, lands) })
		})
	}
}

func testBurst(t *testing.T, lands bool) {
	t.Helper()
	const waiting = 16
	w := realTime(scaled(t, waiting+2))
	w.scale(waiting + 1)
	plane := controlPlane()
	w.update(plane, func() { plane.Spec.Replicas = new(int32(2)) })
	for _, name := range []string{"n-0000", "p-0"} {
		expect(t, w.ask(admissionv1.Delete, w.machine(name)), true, "Surplus")
	}
	allowed := make(chan string, waiting)
	var wait sync.WaitGroup
	for i := range waiting {
		m := numbered(i + 1)
		wait.Go(func() {
			if w.ask(admissionv1.Delete, m).Allowed {
				w.remove(m)
				allowed <- m.Name
			}
		})
	}
	synctest.Wait()
	busy := w.ask(admissionv1.Delete, numbered(waiting+1))
	expectBusy(t, busy)
	other := make(chan admission.Response, 1)
	second := w.machine("p-1")
	go func() { other <- w.ask(admissionv1.Delete, second) }()
	synctest.Wait()
	if len(other) > 0 {
		t.Error("a request about another group does not wait")
	}
	if lands {
		w.remove(numbered(0))
		w.remove(w.machine("p-0"))
	}
	wait.Wait()
	gone := len(allowed)
	if lands {
		gone++
	}
	if gone != 1 {
		t.Errorf("%d Machines go, want 1", gone)
	}
	expect(t, <-other, !lands, "")
}

// expectBusy expects an answer that makes a controller try again after its own backoff. With
// retryAfterSeconds, client-go repeats the request itself, and the controller's worker waits.
func expectBusy(t *testing.T, got admission.Response) {
	t.Helper()
	expect(t, got, false, "Fix: try again")
	r := got.Result
	if r.Code != http.StatusTooManyRequests || r.Details != nil && r.Details.RetryAfterSeconds != 0 {
		t.Errorf("the answer is %+v", r)
	}
}

// TestWaitingRequests has more requests wait than there is room for, about many groups of one
// namespace. The others are answered at once, and a group of another namespace is served.
func TestWaitingRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const groups, each, most = 20, 8, 32
		extra := []client.Object{
			&clusterv1.Cluster{ObjectMeta: meta("c", nil, nil)}, deployment(), newPolicy("keep", nil),
		}
		for _, object := range extra {
			object.SetNamespace("elsewhere")
			object.SetUID(types.UID("elsewhere-" + object.GetName()))
		}
		for i := range groups {
			md := deployment()
			md.Name, md.UID = fmt.Sprint("md-", i), types.UID(fmt.Sprint("md-", i))
			md.Spec.Replicas = new(int32(1))
			extra = append(extra, md)
		}
		w := realTime(newWorld(t, extra...))
		create := func(group, i int) admission.Response {
			m := newWorker()
			m.Labels = map[string]string{clusterv1.MachineDeploymentNameLabel: fmt.Sprint("md-", group)}
			m.UID = types.UID(fmt.Sprintf("m-%d-%d", group, i))
			return w.ask(admissionv1.Create, m)
		}
		var waiting atomic.Int64
		var wait sync.WaitGroup
		for group := range groups {
			expect(t, create(group, 0), true, "")
			for i := range each {
				waiting.Add(1)
				wait.Go(func() {
					create(group, i+1)
					waiting.Add(-1)
				})
			}
		}
		synctest.Wait()
		if n := waiting.Load(); n != most {
			t.Errorf("%d requests wait, want %d", n, most)
		}
		expectBusy(t, create(0, each+1))
		began := time.Now()
		for range 4 {
			m := newWorker()
			m.UID = types.UID(rand.Text())
			inNamespace := func(r *admission.Request) { r.Namespace = "elsewhere" }
			expect(t, w.ask(admissionv1.Create, m, inNamespace), true, "Missing")
			if time.Since(began) > 0 {
				break
			}
		}
		if time.Since(began) == 0 {
			t.Error("no request of another namespace waits")
		}
		wait.Wait()
	})
}

// TestControllerIsNotHeld has a tenant that repeats creations which the API server refuses after the
// guard has admitted them. A request of a controller about the same group is answered in one try.
func TestControllerIsNotHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := realTime(newWorld(t))
		w.scale(4)
		var ended atomic.Bool
		var wait sync.WaitGroup
		for i := range 62 {
			wait.Go(func() {
				m := newWorker()
				guardwebhook.Sleep(t.Context(), time.Duration(i)*97*time.Millisecond)
				for n := 0; !ended.Load(); n++ {
					m.UID = types.UID(fmt.Sprintf("refused-%d-%d", i, n))
					w.ask(admissionv1.Create, m)
					guardwebhook.Sleep(t.Context(), 50*time.Millisecond)
				}
			})
		}
		guardwebhook.Sleep(t.Context(), 7*time.Second)
		began := time.Now()
		got := w.ask(admissionv1.Create, newWorker())
		if held := time.Since(began); held > patience {
			t.Errorf("the controller waited for %s", held)
		}
		if !got.Allowed {
			expectBusy(t, got)
		}
		ended.Store(true)
		wait.Wait()
	})
}

// TestBurstOfCreations asks for more creations at once than a group has room for, before any of them shows.
func TestBurstOfCreations(t *testing.T) {
	for _, room := range []int{20, 250} {
		synctest.Test(t, func(t *testing.T) {
			w := realTime(scaled(t, 0))
			w.scale(int32(room))
			allowed := make(chan *clusterv1.Machine, 2*room)
			var wait sync.WaitGroup
			for i := range 2 * room {
				m := numbered(i)
				wait.Go(func() {
					if w.ask(admissionv1.Create, m).Allowed {
						allowed <- m
					}
				})
			}
			synctest.Wait()
			admitted := len(allowed)
			for range admitted {
				w.create(<-allowed)
			}
			wait.Wait()
			if most := admitted + len(allowed); most > room {
				t.Errorf("%d creations were allowed, with room for %d", most, room)
			}
		})
	}
}

// realTime gives the guard the clock of the process.
func realTime(w *world) *world {
	w.options.Now, w.options.Sleep = time.Now, guardwebhook.Sleep
	w.guard = guardwebhook.NewGuard(w.options)
	return w
}

// However many requests are forged, of any kind, the next real one gets the answer that it would have got without them.
func TestForgedRequests(t *testing.T) {
	w := newWorld(t)
	rapid.Check(t, func(rt *rapid.T) {
		w.guard = guardwebhook.NewGuard(w.options)
		replicas := rapid.Int32Range(1, 5).Draw(rt, "replicas")
		w.scale(replicas)
		ask := func(w *world, kind, name string) bool {
			switch kind {
			case "create":
				m := newWorker()
				m.Name, m.UID = name, types.UID(name)
				return w.ask(admissionv1.Create, m).Allowed
			case "released":
				m := w.machine(name)
				m.Annotations = map[string]string{v1alpha1.AllowReplacementAnnotation: ""}
				return w.ask(admissionv1.Delete, m).Allowed
			default:
				return w.ask(admissionv1.Delete, w.machine(name)).Allowed
			}
		}
		machines := rapid.SampledFrom([]string{"w-0", "w-1", "w-2"})
		for i := range rapid.IntRange(1, 40).Draw(rt, "forged") {
			if kind := rapid.SampledFrom([]string{"create", "delete", "released"}).Draw(rt, "kind"); kind == "create" {
				ask(w, kind, fmt.Sprint("forged-", i))
			} else {
				ask(w, kind, machines.Draw(rt, "machine"))
			}
		}
		kind, name := rapid.SampledFrom([]string{"create", "delete"}).Draw(rt, "asked"), "w-9"
		if kind == "delete" {
			name = machines.Draw(rt, "machine")
		}
		want := map[string]bool{"create": replicas > 3, "delete": replicas < 3}[kind]
		before := w.slept
		if got := ask(w, kind, name); got != want {
			rt.Fatalf("%s %s with %d replicas: allowed %t, want %t", kind, name, replicas, got, want)
		}
		if waited := w.slept - before; waited > patience {
			rt.Fatalf("the answer took %s", waited)
		}
	})
}

// A caller that is not the API server makes the guard write no Event about a Machine that does not exist, since Events about different
// Machines do not become one.
func TestNoEventAboutForgedMachines(t *testing.T) {
	w := newWorld(t)
	for i := range 3 {
		m := w.machine("w-0")
		m.Name, m.UID = fmt.Sprint("forged-", i), types.UID(fmt.Sprint(i))
		expect(t, w.ask(admissionv1.Delete, m), false, "would replace")
	}
	for _, event := range w.recorder.events {
		if event != "MachineDeployment c-md, -, Warning, WouldReplace, GuardMachine" {
			t.Errorf("there is an Event %q", event)
		}
	}
}

// A context that ends, as it does when the API server has given up, ends the wait.
func TestWaitEndsWithTheRequest(t *testing.T) {
	w := newWorld(t)
	w.scale(4)
	ctx, cancel := context.WithCancel(t.Context())
	w.ctx = ctx
	expect(t, w.ask(admissionv1.Create, newWorker()), true, "Missing")
	w.pause = cancel
	expect(t, w.ask(admissionv1.Create, machine("w-newer", deploymentLabels, machineSet("ms-new", nil))), false, "waiting for other requests")
}

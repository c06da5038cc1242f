package lease

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

var times = Times{Duration: 12 * time.Second, RenewDeadline: 8 * time.Second, RenewEvery: 2 * time.Second}

// world is an API server with one Lease, and replicas that elect a leader with it.
type world struct {
	client *fake.Clientset
	// away has the verbs of requests that fail. failed is called then, unless it is nil.
	away   sync.Map
	failed func()
	// ends has watches end at once.
	ends bool

	// writing protects version, the resourceVersion of the last update.
	writing sync.Mutex
	version int
}

func newWorld() *world {
	w := &world{client: fake.NewClientset()}
	fail := func(action clienttesting.Action) error {
		if _, away := w.away.Load(action.GetVerb()); away {
			if w.failed != nil {
				w.failed()
			}
			return errors.New("the API server is away")
		}
		return nil
	}
	w.client.PrependReactor("update", "leases", w.update)
	w.client.PrependReactor("*", "leases", func(action clienttesting.Action) (bool, runtime.Object, error) {
		err := fail(action)
		return err != nil, nil, err
	})
	w.client.PrependWatchReactor("leases", func(action clienttesting.Action) (bool, watch.Interface, error) {
		err := fail(action)
		if err == nil && w.ends {
			ended := watch.NewFake()
			ended.Stop()
			return true, ended, nil
		}
		return err != nil, nil, err
	})
	return w
}

// update refuses a write that does not know the last one, as an API server does.
func (w *world) update(action clienttesting.Action) (bool, runtime.Object, error) {
	write, ok := action.(clienttesting.UpdateAction)
	if !ok {
		return false, nil, nil
	}
	lease, ok := write.GetObject().(*coordinationv1.Lease)
	if !ok {
		return false, nil, nil
	}
	w.writing.Lock()
	defer w.writing.Unlock()
	object, err := w.client.Tracker().Get(action.GetResource(), lease.Namespace, lease.Name)
	if err != nil {
		return true, nil, err
	}
	if stored, ok := object.(*coordinationv1.Lease); !ok || stored.ResourceVersion != lease.ResourceVersion {
		return true, nil, apierrors.NewConflict(action.GetResource().GroupResource(), lease.Name, errors.New("it has changed"))
	}
	w.version++
	lease = lease.DeepCopy()
	lease.ResourceVersion = strconv.Itoa(w.version)
	return true, lease, w.client.Tracker().Update(action.GetResource(), lease, lease.Namespace)
}

// replica is one candidate.
type replica struct {
	lock    *Lock
	leads   chan struct{}
	release context.CancelFunc
	done    chan struct{}
}

func (w *world) replica(t *testing.T, identity string) *replica {
	t.Helper()
	return w.replicaWith(t, identity, func(*Lock) {})
}

// replicaWith is replica with a lock that was changed.
func (w *world) replicaWith(t *testing.T, identity string, change func(*Lock)) *replica {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r := &replica{
		lock:  newLock(w.client.CoordinationV1(), "windlass-system", "extension.windlass.dev", identity, times),
		leads: make(chan struct{}), release: cancel, done: make(chan struct{}),
	}
	change(r.lock)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: r.lock, LeaseDuration: times.Duration, RenewDeadline: times.RenewDeadline, RetryPeriod: RetryPeriod, ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) { close(r.leads) }, OnStoppedLeading: func() {}},
	})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(r.done)
		elector.Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-r.done })
	return r
}

// stop has a replica vanish without a release.
func (r *replica) stop(t *testing.T) {
	t.Helper()
	r.lock.renewed.Store(nil) // It releases only what it holds.
	r.release()
	<-r.done
}

// requests counts the requests since the last call.
func (w *world) requests() (count int) {
	count = len(w.client.Actions())
	w.client.ClearActions()
	return count
}

func (w *world) lease(t *testing.T) *coordinationv1.Lease {
	t.Helper()
	lease, err := w.client.CoordinationV1().Leases("windlass-system").Get(t.Context(), "extension.windlass.dev", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// awaitLead waits, and returns how long that took.
func (r *replica) awaitLead(t *testing.T) time.Duration {
	t.Helper()
	began := time.Now()
	select {
	case <-r.leads:
		return time.Since(began)
	case <-time.After(time.Minute):
		t.Fatalf("%s does not lead", r.lock.Identity())
		return 0
	}
}

// pass lets time pass.
func pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // synctest's clock.
	synctest.Wait()
}

// TestRelease has a replica wait for a minute, and take the lease over at once when it is released. Until then it
// only reads what has changed, and the leader only renews.
func TestRelease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		a := w.replica(t, "a")
		a.awaitLead(t)
		b := w.replica(t, "b")
		pass(time.Second)
		w.requests()
		pass(time.Minute)
		// Every 2 s and a retry period: a renewal and a reading.
		if got := w.requests(); got < 50 || got > 60 {
			t.Errorf("%d requests in a minute", got)
		}
		if a.lock.Held() != nil || b.lock.Held() == nil {
			t.Errorf("a: %v, b: %v", a.lock.Held(), b.lock.Held())
		}
		a.release()
		if took := b.awaitLead(t); took > 3*RetryPeriod {
			t.Errorf("b leads after %s", took)
		}
		<-a.done
		if a.lock.Held() == nil || b.lock.Held() != nil {
			t.Errorf("after the release: a: %v, b: %v", a.lock.Held(), b.lock.Held())
		}
		if age := time.Since(w.lease(t).Spec.RenewTime.Time); age > time.Second {
			t.Errorf("the lease was renewed %s ago", age)
		}
	})
}

// TestWithoutWatch has a replica that may not watch the lease take it over somewhat later.
func TestWithoutWatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.away.Store("watch", true)
		a := w.replica(t, "a")
		a.awaitLead(t)
		b := w.replica(t, "b")
		pass(time.Minute)
		a.release()
		if took := b.awaitLead(t); took > times.RenewEvery+3*RetryPeriod {
			t.Errorf("b leads after %s", took)
		}
	})
}

// TestSilentLeader has a leader that cannot renew its lease stop acting before the next one leads.
func TestSilentLeader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		a := w.replica(t, "a")
		a.awaitLead(t)
		pass(time.Second)
		w.away.Store("update", true)
		w.away.Store("get", true)
		pass(times.RenewDeadline - 2*time.Second)
		if err := a.lock.Held(); err != nil {
			t.Errorf("before the deadline: %v", err)
		}
		pass(time.Second)
		if a.lock.Held() == nil {
			t.Error("a acts beyond the deadline")
		}
		<-a.done
		w.away.Delete("update")
		w.away.Delete("get")
		b := w.replica(t, "b")
		b.awaitLead(t)
		if a.lock.Held() == nil || b.lock.Held() != nil {
			t.Errorf("a: %v, b: %v", a.lock.Held(), b.lock.Held())
		}
	})
}

// TestExpiry has a leader vanish: the next one waits for the lease, and not much longer.
func TestExpiry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		gone := newLock(w.client.CoordinationV1(), "windlass-system", "extension.windlass.dev", "gone", times)
		if err := gone.Create(t.Context(), record("gone")); err != nil {
			t.Fatal(err)
		}
		took := w.replica(t, "b").awaitLead(t)
		if took < times.Duration || took > times.Duration+4*RetryPeriod {
			t.Errorf("b leads after %s", took)
		}
	})
}

// TestLost has another replica hold the lease of one that was stopped for long. It learns so when it renews, and
// returns an error that ends the process.
func TestLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		a := w.replica(t, "a")
		a.awaitLead(t)
		ended := make(chan error, 1)
		go func() { ended <- a.lock.Start(t.Context()) }()
		w.away.Store("update", true)
		lease := w.lease(t)
		lease.Spec.HolderIdentity = new("b")
		if err := w.client.Tracker().Update(coordinationv1.SchemeGroupVersion.WithResource("leases"), lease, lease.Namespace); err != nil {
			t.Fatal(err)
		}
		pass(times.RenewEvery + times.RenewEvery/2 + 3*RetryPeriod)
		select {
		case err := <-ended:
			if err == nil {
				t.Error("no error")
			}
		default:
			t.Error("a has not noticed")
		}
		if a.lock.Held() == nil {
			t.Error("a acts while b leads")
		}
	})
}

// TestFailedRenewals has writes of the leader fail until its elector gives up, and then succeed: it does not release the
// lease, because its controllers may still run. Start ends the process when the leader may no longer act.
func TestFailedRenewals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		a := w.replica(t, "a")
		a.awaitLead(t)
		pass(time.Second)
		began := *a.lock.renewed.Load()
		ended := make(chan time.Duration, 1)
		go func() {
			if a.lock.Start(t.Context()) != nil {
				ended <- time.Since(began)
			}
		}()
		w.away.Store("update", true)
		w.failed = func() {
			if time.Since(began) > times.RenewDeadline+times.RenewEvery/2 {
				w.away.Delete("update") // The last renewal has failed by then; a release would succeed.
			}
		}
		<-a.done
		if got := <-ended; got > times.RenewDeadline+time.Second {
			t.Errorf("the process ends after %s", got)
		}
		if holder := *w.lease(t).Spec.HolderIdentity; holder != "a" {
			t.Errorf("the lease was released: its holder is %q", holder)
		}
	})
}

// TestRequests counts the requests of a replica in a minute while something keeps failing.
func TestRequests(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		away  []string
		ends  bool
		other bool
		most  int
	}{
		"no Lease can be read":        {away: []string{"get", "create"}, most: 65},
		"no Lease can be created":     {away: []string{"create"}, most: 125},
		"an expired Lease stays":      {away: []string{"update"}, other: true, most: 125},
		"watches end at once":         {ends: true, other: true, most: 130},
		"watches cannot be opened":    {away: []string{"watch"}, other: true, most: 70},
		"nothing but watches answers": {away: []string{"get", "update"}, other: true, most: 70},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				if tt.other {
					gone := newLock(w.client.CoordinationV1(), "windlass-system", "extension.windlass.dev", "gone", times)
					if err := gone.Create(t.Context(), record("gone")); err != nil {
						t.Fatal(err)
					}
				}
				for _, verb := range tt.away {
					w.away.Store(verb, true)
				}
				w.ends = tt.ends
				w.replica(t, "b")
				if tt.other && !tt.ends {
					pass(times.Duration + times.RenewEvery)
				}
				w.requests()
				span := time.Minute
				if tt.ends {
					span = times.Duration - time.Second
				}
				pass(span)
				got := w.requests() * int(time.Minute) / int(span)
				t.Logf("%d requests a minute", got)
				if got > tt.most {
					t.Errorf("%d requests a minute, want at most %d", got, tt.most)
				}
			})
		})
	}
}

// TestLeaderRequests counts those of a leader that cannot write, until its elector gives up.
func TestLeaderRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		a := w.replica(t, "a")
		a.awaitLead(t)
		w.away.Store("update", true)
		w.requests()
		<-a.done
		if got := w.requests(); got > 20 {
			t.Errorf("%d requests", got)
		}
	})
}

// TestWatchEnds has a replica that leads watch the Lease no longer.
func TestWatchEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		a := w.replica(t, "a")
		a.awaitLead(t)
		b := w.replica(t, "b")
		pass(time.Second)
		a.release()
		b.awaitLead(t)
		b.release()
		<-b.done
		if b.lock.watch != nil {
			t.Error("the watch is open")
		}
	})
}

// TestElapsed counts the time in which one of the two clocks stood still.
func TestElapsed(t *testing.T) {
	t.Parallel()
	now := time.Now()
	if got := elapsed(now, now.Add(time.Minute)); got != time.Minute {
		t.Errorf("a minute is %s", got)
	}
	if got := elapsed(now.Round(0).Add(-time.Hour), now); got != time.Hour {
		t.Errorf("an hour of suspension is %s", got)
	}
}

// TestTimes refuses times with which two replicas could lead, and those of no pod.
func TestTimes(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]Times{
		"no period":       {Duration: 12 * time.Second, RenewDeadline: 8 * time.Second},
		"late renewals":   {Duration: 12 * time.Second, RenewDeadline: 8 * time.Second, RenewEvery: 8 * time.Second},
		"late deadline":   {Duration: 12 * time.Second, RenewDeadline: 12 * time.Second, RenewEvery: time.Second},
		"parts of second": {Duration: 2500 * time.Millisecond, RenewDeadline: 2200 * time.Millisecond, RenewEvery: time.Second},
	} {
		if _, err := New(&rest.Config{}, "windlass-system", "lease", "", tt); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	config := &rest.Config{UserAgent: "manager", Timeout: time.Second}
	lock, err := New(config, "windlass-system", "lease", "manager_", times)
	if err != nil || config.UserAgent != "manager" || config.Timeout != time.Second {
		t.Fatalf("the configuration is %v, %v", config, err)
	}
	if words := strings.Split(lock.Identity(), "_"); len(words) != 3 || words[0] != "manager" {
		t.Errorf("the identity is %q", lock.Identity())
	}
	_, err = New(&rest.Config{}, "", "lease", "", times)
	if err == nil || !strings.Contains(err.Error(), "Fix:") {
		t.Errorf("outside of a pod: %v", err)
	}
}

func record(holder string) resourcelock.LeaderElectionRecord {
	return resourcelock.LeaderElectionRecord{HolderIdentity: holder, LeaseDurationSeconds: int(times.Duration.Seconds())}
}

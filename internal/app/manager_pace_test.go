package app

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// TestPacedQueue: the request of an event waits until Cluster API's controller would reconcile it,
// and others that the controller asked for do not.
func TestPacedQueue(t *testing.T) {
	t.Parallel()
	one := reconcile.Request{NamespacedName: client.ObjectKey{Name: "one"}}
	other := reconcile.Request{NamespacedName: client.ObjectKey{Name: "other"}}
	const early, backoff = 100 * time.Millisecond, 3 * time.Second
	for name, tt := range map[string]struct {
		// add is called soon after the reconcile of one has begun.
		add  func(priorityqueue.PriorityQueue[reconcile.Request])
		next reconcile.Request
		want time.Duration
	}{
		"an event": {func(q priorityqueue.PriorityQueue[reconcile.Request]) {
			q.AddWithOpts(priorityqueue.AddOpts{}, one)
		}, one, reconcileInterval},
		"many events": {func(q priorityqueue.PriorityQueue[reconcile.Request]) {
			for range 9 {
				q.Add(one)
			}
		}, one, reconcileInterval},
		"an event of another object": {func(q priorityqueue.PriorityQueue[reconcile.Request]) {
			q.Add(other)
		}, other, early},
		"the controller asks": {func(q priorityqueue.PriorityQueue[reconcile.Request]) {
			q.AddWithOpts(priorityqueue.AddOpts{After: early}, one)
		}, one, 2 * early},
		"it asks, and there is an event": {func(q priorityqueue.PriorityQueue[reconcile.Request]) {
			q.Add(one)
			q.AddWithOpts(priorityqueue.AddOpts{After: early}, one)
		}, one, 2 * early},
		"after an error": {func(q priorityqueue.PriorityQueue[reconcile.Request]) {
			q.AddWithOpts(priorityqueue.AddOpts{RateLimited: true}, one)
		}, one, early + backoff},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				limiter := workqueue.NewTypedItemFastSlowRateLimiter[reconcile.Request](backoff, backoff, 1)
				q, ok := newPace().newQueue("test", limiter).(priorityqueue.PriorityQueue[reconcile.Request])
				if !ok {
					t.Fatal("it is no priority queue")
				}
				defer q.ShutDown()
				q.Add(one)
				take(t, q, one)
				began := time.Now()
				<-time.After(early)
				tt.add(q)
				q.Done(one)
				take(t, q, tt.next)
				if took := time.Since(began); took != tt.want {
					t.Errorf("the next request comes after %s, want %s", took, tt.want)
				}
				if n := q.Len(); n != 0 {
					t.Errorf("%d more requests are in the queue", n)
				}
			})
		})
	}
}

// TestPaceOptions: with Cluster API's default gates, a controller has the queue.
func TestPaceOptions(t *testing.T) {
	t.Parallel()
	o := newPace().options(3)
	if o.NewQueue == nil || o.MaxConcurrentReconciles != 3 {
		t.Errorf("no queue, or %d reconciles at once, want 3", o.MaxConcurrentReconciles)
	}
}

func take(t *testing.T, q priorityqueue.PriorityQueue[reconcile.Request], want reconcile.Request) {
	t.Helper()
	if got, _, _ := q.GetWithPriority(); got != want {
		t.Fatalf("the request is %s, want %s", got, want)
	}
}

// TestLateUpdates: an update that may wait comes later, unless a reconcile has begun since.
func TestLateUpdates(t *testing.T) {
	t.Parallel()
	m := &clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", ResourceVersion: "1"},
	}
	changed := m.DeepCopy()
	changed.ResourceVersion, changed.Status.Phase = "2", "Running"
	plain := external(t, nil)
	labelled := external(t, map[string]any{"metadata labels " + clusterv1.ClusterNameLabel: "c"})
	group := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m"}}
	newer := group.DeepCopy()
	newer.Spec.Template.Spec.Version = "v2"
	request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(m)}
	const gap = time.Second
	// R is a reconcile of the Machine, U an update of the object. gap is between them.
	for name, tt := range map[string]struct {
		before, after any
		steps         string
		want          int
	}{
		"a Machine, and no reconcile":          {m, changed, "U", 1},
		"a Machine, and an earlier reconcile":  {m, changed, "RU", 1},
		"a Machine, and a later reconcile":     {m, changed, "UR", 0},
		"a Machine, changed after a reconcile": {m, changed, "URU", 1},
		"an object, and no reconcile":          {plain, labelled, "U", 1},
		"an object, and an earlier reconcile":  {plain, labelled, "RU", 1},
		"an object, and a later reconcile":     {plain, labelled, "UR", 0},
		"a group, and a later reconcile":       {group, newer, "UR", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := newPace()
				var mu sync.Mutex
				var got []any
				h := machineEvents(p).narrow(toolscache.ResourceEventHandlerFuncs{
					UpdateFunc: func(_, after any) {
						mu.Lock()
						defer mu.Unlock()
						got = append(got, after)
					},
				})
				for _, step := range tt.steps {
					<-time.After(gap)
					if step == 'U' {
						h.OnUpdate(tt.before, tt.after)
						continue
					}
					p.begun.Put(request, time.Now(), time.Now(), begunFor)
				}
				<-time.After(statusInterval)
				synctest.Wait()
				mu.Lock()
				defer mu.Unlock()
				if len(got) != tt.want {
					t.Errorf("%d updates came, want %d", len(got), tt.want)
				}
			})
		})
	}
}

// TestLateUpdateIsTheNewest: predicates see the newest version, so that a Machine learns of an
// object that is not paused any more.
func TestLateUpdateIsTheNewest(t *testing.T) {
	t.Parallel()
	version := func(v string) *clusterv1.Machine {
		return &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "m", ResourceVersion: v}}
	}
	var late []func()
	rules := machineEvents(newPace())
	rules.later = func(_ time.Duration, pass func()) { late = append(late, pass) }
	var got []string
	h := rules.narrow(toolscache.ResourceEventHandlerFuncs{UpdateFunc: func(_, after any) {
		if m, ok := after.(*clusterv1.Machine); ok {
			got = append(got, m.ResourceVersion)
		}
	}})
	h.OnUpdate(version("1"), version("2"))
	h.OnUpdate(version("2"), version("3"))
	for _, pass := range late {
		pass()
	}
	if diff := cmp.Diff([]string{"3"}, got); diff != "" {
		t.Errorf("versions (-want +got):\n%s", diff)
	}
}

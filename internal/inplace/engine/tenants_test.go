package engine

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/port"
	"github.com/windlass-dev/windlass/internal/port/porttest"
)

const (
	greedy, modest = "greedy", "modest"
	// greedyObjects is how many objects of the greedy tenant wait for servers that do not answer.
	greedyObjects = 1000
)

// slowReader reads objects of the greedy tenant for as long as a reconcile may take, and counts.
type slowReader struct {
	mu sync.Mutex
	// now, most and ended count reads of the greedy tenant: those under way, the most at once, and those
	// that have ended. modest counts the reads of the other tenant.
	now, most, ended, modest int
}

func (s *slowReader) read(ctx context.Context, key types.NamespacedName) {
	s.mu.Lock()
	if key.Namespace == modest {
		s.modest++
	}
	if key.Namespace != greedy {
		s.mu.Unlock()
		return
	}
	s.now++
	s.most = max(s.most, s.now)
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	<-ctx.Done()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now--
	s.ended++
}

func (s *slowReader) counts() slowReader {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slowReader{now: s.now, most: s.most, ended: s.ended, modest: s.modest}
}

// newSlowEngine returns an engine that reads live through a slowReader.
func newSlowEngine(t *testing.T, objects ...client.Object) (*Engine, *slowReader) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, clusterv1.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
	slow := &slowReader{}
	live := interceptor.NewClient(c, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			slow.read(ctx, key)
			return c.Get(ctx, key, o, opts...)
		},
	})
	return New(Options{
		Client: c, Live: live, Nodes: porttest.NewNodes(), Events: &recorder{}, Now: time.Now,
		NewID: func() string { return "id" },
		Open:  func(context.Context, *v1alpha1.Updater) (port.Updater, error) { return nil, nil },
	}), slow
}

// queue serves keys in their order with a number of workers, as a controller does.
type queue struct {
	mu      sync.Mutex
	waiting []types.NamespacedName
	// served counts the keys that were served.
	served int
	more   chan struct{}
}

func (q *queue) add(key types.NamespacedName) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, key)
	select {
	case q.more <- struct{}{}:
	default:
	}
}

func (q *queue) take(ctx context.Context) (key types.NamespacedName, ok bool) {
	for {
		q.mu.Lock()
		if len(q.waiting) > 0 {
			key, q.waiting = q.waiting[0], q.waiting[1:]
			q.served++
			q.mu.Unlock()
			return key, true
		}
		q.mu.Unlock()
		select {
		case <-q.more:
		case <-ctx.Done():
			return key, false
		}
	}
}

func (q *queue) counts() (waiting, served int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting), q.served
}

// TestTenantDoesNotTakeAllWorkers has a tenant with 1,000 objects, each of which keeps a worker until the
// end of its budget. Another tenant's object must be served after a bounded number of others, none of
// which ends a wait, and without one that passes time.
func TestTenantDoesNotTakeAllWorkers(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		object  func(namespace, name string) client.Object
		workers int
		share   int
		serve   func(ctx context.Context, e *Engine, key types.NamespacedName) (Result, error)
	}{
		"Machines": {
			object: func(namespace, name string) client.Object {
				return &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{
					Namespace: namespace, Name: name, Annotations: map[string]string{keys.To: toVersion},
				}}
			},
			workers: MachineWorkers, share: machinesOfTenant,
			serve: func(ctx context.Context, e *Engine, key types.NamespacedName) (Result, error) {
				return e.UpgradeMachine(ctx, key)
			},
		},
		"groups": {
			object: func(namespace, name string) client.Object {
				return &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{
					Namespace: namespace, Name: name, Annotations: map[string]string{keys.To: toVersion},
				}}
			},
			workers: GroupWorkers, share: groupsOfTenant,
			serve: func(ctx context.Context, e *Engine, key types.NamespacedName) (Result, error) {
				return e.UpgradeGroup(ctx, deploymentKind, key)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				objects := []client.Object{test.object(modest, "m")}
				for i := range greedyObjects {
					objects = append(objects, test.object(greedy, fmt.Sprint("g", i)))
				}
				e, slow := newSlowEngine(t, objects...)
				q := &queue{more: make(chan struct{}, test.workers)}
				ctx, stop := context.WithCancel(t.Context())
				var workers sync.WaitGroup
				for range test.workers {
					workers.Go(func() {
						for {
							key, ok := q.take(ctx)
							if !ok {
								return
							}
							result, err := test.serve(ctx, e, key)
							if after := result.After; err == nil && after > 0 && ctx.Err() == nil {
								time.AfterFunc(after, func() { q.add(key) })
							}
						}
					})
				}
				for _, object := range objects[1:] {
					q.add(client.ObjectKeyFromObject(object))
				}
				// The greedy tenant has all that it can get, and asks for more again and again.
				time.Sleep(5 * turnedAwayFor) //nolint:forbidigo // synctest's clock.
				synctest.Wait()
				before := slow.counts()
				if before.most != test.share {
					t.Errorf("%d objects of one tenant were served at once, want %d of %d", before.most, test.share, test.workers)
				}
				waiting, served := q.counts()
				q.add(types.NamespacedName{Namespace: modest, Name: "m"})
				synctest.Wait()
				after := slow.counts()
				_, servedAfter := q.counts()
				if after.modest == 0 || after.ended != before.ended {
					t.Errorf("the other tenant was served %d times, after %d waits of the greedy one", after.modest, after.ended-before.ended)
				}
				if steps := servedAfter - served; steps > waiting+1 {
					t.Errorf("the other tenant waited for %d steps, and %d were before it", steps, waiting)
				}
				stop()
				workers.Wait()
			})
		})
	}
}

// slowNodes is a workload cluster that does not answer until a test lets it.
type slowNodes struct {
	port.Nodes
	mu      sync.Mutex
	now     int
	answers chan struct{}
}

func (n *slowNodes) Node(ctx context.Context, cluster types.NamespacedName, name string) inplace.Node {
	n.mu.Lock()
	n.now++
	n.mu.Unlock()
	<-n.answers
	return n.Nodes.Node(ctx, cluster, name)
}

func (n *slowNodes) waiting() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.now
}

// newCallsWorld returns a world in which the Machines m0, m1 and so on are being updated.
func newCallsWorld(t *testing.T, machines int) *world {
	t.Helper()
	objects := []client.Object{deployment(), machineSet("old", from)}
	for i := range machines {
		objects = append(objects, machine(fmt.Sprint("m", i), "new", to))
	}
	w := newWorld(t, external(func(p *v1alpha1.UpdatePolicySpec) {
		p.MaxInFlight, p.Canary = int32(machines), new(intstr.FromInt32(0))
	}), objects...)
	w.updater("kubelet", 0, versionPatch).answers(inplace.InProgress, "works")
	for i := range machines {
		w.node(fmt.Sprint("m", i), from)
	}
	if _, err := w.canUpdateSet(machineSet("old", from), machineSet("new", to)); err != nil {
		t.Fatal(err)
	}
	for i := range machines {
		w.until(fmt.Sprint("m", i), "works")
	}
	return w
}

// TestMachineDoesNotTakeAllCalls has a caller repeat the call about one Machine, whose cluster does not
// answer. One of these calls is served. The others are answered at once, and take nothing from the
// other Machines of the namespace.
func TestMachineDoesNotTakeAllCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newCallsWorld(t, 2)
		slow := &slowNodes{Nodes: w.engine.Nodes, answers: make(chan struct{})}
		w.engine.Nodes = slow
		var answered atomic.Int64
		var calls sync.WaitGroup
		call := func(name string) {
			calls.Go(func() {
				reply, err := w.update(name)
				if err != nil {
					t.Error(err)
				}
				if reply == busy() {
					answered.Add(1)
				}
			})
		}
		for range callsOfTenant {
			call("m0")
		}
		synctest.Wait()
		if waiting, n := slow.waiting(), answered.Load(); waiting != 1 || n != callsOfTenant-1 {
			t.Errorf("%d calls about a Machine are served, and %d are answered at once", waiting, n)
		}
		call("m1")
		synctest.Wait()
		if waiting := slow.waiting(); waiting != 2 {
			t.Errorf("%d Machines are served, want 2", waiting)
		}
		close(slow.answers)
		calls.Wait()
		w.until("m0", "works")
	})
}

// TestTenantDoesNotTakeAllCalls has Cluster API call the hook about many Machines of one tenant whose
// cluster does not answer. Most calls must be answered at once, and record nothing.
func TestTenantDoesNotTakeAllCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const machines = 4 * callsOfTenant
		w := newCallsWorld(t, machines)
		slow := &slowNodes{Nodes: w.engine.Nodes, answers: make(chan struct{})}
		w.engine.Nodes = slow
		w.writes.Store(0)
		var mu sync.Mutex
		turned := 0
		var calls sync.WaitGroup
		for i := range machines {
			calls.Go(func() {
				reply, err := w.update(fmt.Sprint("m", i))
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err != nil:
					t.Error(err)
				case strings.Contains(reply.Message, turnedAway().Message):
					turned++
					if reply.Done || reply.RetryAfter <= 0 {
						t.Errorf("the reply is %+v, want one that asks for another call", reply)
					}
				}
			})
		}
		synctest.Wait()
		mu.Lock()
		if got := slow.waiting(); got > callsOfTenant || got == 0 || turned < machines-callsOfTenant {
			t.Errorf("%d calls wait and %d were turned away of %d, want at most %d to wait", got, turned, machines, callsOfTenant)
		}
		if got := w.writes.Load(); got != 0 {
			t.Errorf("%d writes were made before anything answered", got)
		}
		mu.Unlock()
		close(slow.answers)
		calls.Wait()
		for i := range machines {
			w.until(fmt.Sprint("m", i), "works")
		}
	})
}

package app

import (
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"sigs.k8s.io/cluster-api/feature"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/windlass-dev/windlass/internal/keyed"
)

const (
	// reconcileInterval is a little more than the second that Cluster API's controllers leave between
	// two reconciles of an object. They count from when they are called, which is after the request
	// has left the queue. A request that comes earlier costs a reconcile that only returns the rest of
	// the second.
	reconcileInterval = time.Second + 10*time.Millisecond
	// begunFor is how long a pace remembers a reconcile: longer than any delay of an update.
	begunFor = 2 * statusInterval
)

// pace is when the reconciles of a controller begin. It is safe for concurrent use.
type pace struct {
	now   func() time.Time
	begun keyed.Memory[reconcile.Request, time.Time]
}

func newPace() *pace { return &pace{now: time.Now} }

// begunSince reports whether a reconcile has begun after a time.
func (p *pace) begunSince(request reconcile.Request, at time.Time) bool {
	begun, known := p.begun.Get(request, p.now())
	return known && begun.After(at)
}

// wait returns how long Cluster API's controller would refuse a request.
func (p *pace) wait(request reconcile.Request) time.Duration {
	begun, known := p.begun.Get(request, p.now())
	if !known {
		return 0
	}
	return max(0, reconcileInterval-p.now().Sub(begun))
}

// options returns those of a controller whose requests wait in the queue for as long as the
// controller would refuse them. The controllers of MachineDeployments and MachineSets shorten that
// time, so they must not have these options.
func (p *pace) options(concurrent int) controller.Options {
	o := concurrency(concurrent)
	gates := feature.Gates
	if gates.Enabled(feature.PriorityQueue) && gates.Enabled(feature.ReconcilerRateLimiting) {
		o.NewQueue = p.newQueue
	}
	return o
}

func (p *pace) newQueue(
	name string, limiter workqueue.TypedRateLimiter[reconcile.Request],
) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	return pacedQueue{priorityqueue.New(name, func(o *priorityqueue.Opts[reconcile.Request]) {
		o.RateLimiter, o.Log = limiter, klog.Background().WithValues("controller", name)
	}), p}
}

// pacedQueue is a queue in which the requests of events wait until the next reconcile is due. It
// changes no other requests: a controller that asks to reconcile again knows when.
type pacedQueue struct {
	priorityqueue.PriorityQueue[reconcile.Request]

	pace *pace
}

// Add adds a request.
func (q pacedQueue) Add(request reconcile.Request) {
	q.AddWithOpts(priorityqueue.AddOpts{}, request)
}

// AddWithOpts adds requests.
func (q pacedQueue) AddWithOpts(o priorityqueue.AddOpts, requests ...reconcile.Request) {
	if o.After > 0 || o.RateLimited {
		q.PriorityQueue.AddWithOpts(o, requests...)
		return
	}
	for _, request := range requests {
		o.After = q.pace.wait(request)
		q.PriorityQueue.AddWithOpts(o, request)
	}
}

// GetWithPriority returns the next request. Its reconcile begins.
func (q pacedQueue) GetWithPriority() (request reconcile.Request, priority int, shutdown bool) {
	request, priority, shutdown = q.PriorityQueue.GetWithPriority()
	if !shutdown {
		begun := q.pace.now()
		q.pace.begun.Put(request, begun, begun, begunFor)
	}
	return request, priority, shutdown
}

// Get is GetWithPriority without the priority.
func (q pacedQueue) Get() (request reconcile.Request, shutdown bool) {
	request, _, shutdown = q.GetWithPriority()
	return request, shutdown
}

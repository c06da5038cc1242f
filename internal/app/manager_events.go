package app

import (
	"context"
	"sync"
	"time"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// eventManager is a manager for one of Cluster API's controllers, which gets fewer events.
// Informers and stores are those of the manager; there is no second cache.
type eventManager struct {
	manager.Manager
	rules eventRules
}

// eventRules say which events a controller gets.
type eventRules struct {
	// settling is how much later an addition comes, unless an urgent update of the same object comes
	// first; nil for at once.
	settling func(added any) time.Duration
	// urgency of an update.
	urgency func(before, after any) urgency
	// delay is how much later an update comes that is urgent soon. key names what it enqueues: an
	// update with the same key and delay that is urgent soon adds nothing meanwhile.
	delay func(before, after any) time.Duration
	key   func(after any) string
	// requestOf returns what an update enqueues, if that is known; nil for never. If its reconcile
	// has begun since the update, the controller knows the update, and it does not come later.
	requestOf func(after any) (reconcile.Request, bool)
	pace      *pace
	// later calls a function after some time.
	later func(time.Duration, func())
}

func afterFunc(d time.Duration, f func()) { time.AfterFunc(d, f) }

// GetCache returns the manager's cache, whose informers are narrowed.
func (m eventManager) GetCache() cache.Cache { return eventCache{m.Manager.GetCache(), m.rules} }

type eventCache struct {
	cache.Cache
	rules eventRules
}

// GetInformer returns the cache's informer, with handlers that get updates by their urgency.
func (c eventCache) GetInformer(
	ctx context.Context, object client.Object, options ...cache.InformerGetOption,
) (cache.Informer, error) {
	informer, err := c.Cache.GetInformer(ctx, object, options...)
	if err != nil {
		return nil, err //nolint:wrapcheck // It is this method.
	}
	return eventInformer{informer, c.rules}, nil
}

// eventInformer is an informer whose handlers get updates by their urgency. Additions may settle
// first. Deletions are passed on. It has no store: the controllers of eventManagers wait for no
// writes.
type eventInformer struct {
	cache.Informer
	rules eventRules
}

// AddEventHandler adds a handler.
func (i eventInformer) AddEventHandler(
	handler toolscache.ResourceEventHandler,
) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.Informer.AddEventHandler(i.rules.narrow(handler)) //nolint:wrapcheck // It is this method.
}

// AddEventHandlerWithResyncPeriod adds a handler.
func (i eventInformer) AddEventHandlerWithResyncPeriod(
	handler toolscache.ResourceEventHandler, period time.Duration,
) (toolscache.ResourceEventHandlerRegistration, error) {
	//nolint:wrapcheck // It is this method.
	return i.Informer.AddEventHandlerWithResyncPeriod(i.rules.narrow(handler), period)
}

// AddEventHandlerWithOptions adds a handler.
func (i eventInformer) AddEventHandlerWithOptions(
	handler toolscache.ResourceEventHandler, options toolscache.HandlerOptions,
) (toolscache.ResourceEventHandlerRegistration, error) {
	//nolint:wrapcheck // It is this method.
	return i.Informer.AddEventHandlerWithOptions(i.rules.narrow(handler), options)
}

func (e eventRules) narrow(
	handler toolscache.ResourceEventHandler,
) toolscache.ResourceEventHandler {
	return &eventHandler{ResourceEventHandler: handler, rules: e}
}

type eventHandler struct {
	toolscache.ResourceEventHandler
	rules eventRules
	// waiting has the newest lateUpdate for each delayed, and settling the keys of additions.
	waiting, settling sync.Map
}

type delayed struct {
	key   string
	delay time.Duration
}

// lateUpdate is an update that comes later, and when it was seen.
type lateUpdate struct {
	before, after any
	seen          time.Time
}

// OnAdd passes an addition on at once, or later if no update was passed on until then.
func (h *eventHandler) OnAdd(added any, initially bool) {
	delay := time.Duration(0)
	if h.rules.settling != nil && !initially {
		delay = h.rules.settling(added)
	}
	if delay == 0 {
		h.ResourceEventHandler.OnAdd(added, initially)
		return
	}
	key := keyOf(added)
	h.settling.Store(key, true)
	h.rules.later(delay, func() {
		if _, settles := h.settling.LoadAndDelete(key); settles {
			h.ResourceEventHandler.OnAdd(added, initially)
		}
	})
}

// OnUpdate passes an update on at once, later, or never.
func (h *eventHandler) OnUpdate(before, after any) {
	switch h.rules.urgency(before, after) {
	case now:
		h.settling.Delete(keyOf(after))
		h.ResourceEventHandler.OnUpdate(before, after)
	case soon:
		delay := h.rules.delay(before, after)
		update := delayed{h.rules.key(after), delay}
		newest := lateUpdate{before, after, h.rules.pace.now()}
		if _, waits := h.waiting.Swap(update, newest); waits {
			return
		}
		h.rules.later(delay, func() { h.passLate(update) })
	case never:
	}
}

// passLate passes on the newest update that waits, unless a reconcile has begun since: the cache
// has an update before its handlers do.
func (h *eventHandler) passLate(update delayed) {
	waits, _ := h.waiting.LoadAndDelete(update)
	newest, ok := waits.(lateUpdate)
	if !ok {
		return
	}
	if h.rules.requestOf != nil {
		request, known := h.rules.requestOf(newest.after)
		if known && h.rules.pace.begunSince(request, newest.seen) {
			return
		}
	}
	h.ResourceEventHandler.OnUpdate(newest.before, newest.after)
}

// urgency tells when a controller has to reconcile after an update.
type urgency int

const (
	never urgency = iota
	// soon is after a delay. Until then the update shows only in conditions.
	soon
	now
)

package refusal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/windlass-dev/windlass/internal/keyed"
)

const (
	// firstRetry is the delay after the first refusal. Each refusal after the last delay doubles it, up
	// to lastRetry. Nothing wakes a controller after a quota was raised, so lastRetryOfQuota is shorter.
	firstRetry       = time.Second
	lastRetry        = 10 * time.Minute
	lastRetryOfQuota = time.Minute
	// maxRemembered bounds how many objects of a controller are remembered. Beyond, all are forgotten:
	// they are retried sooner, and logged again.
	maxRemembered = 10_000
)

var refused = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "windlass_refused_writes_total",
	Help: "Writes that the API server refused for their content or a quota, retries included.",
}, []string{"controller", "reason"})

// state is what is remembered of an object whose last write was refused.
type state struct {
	reason Reason
	// delay ends at due.
	delay time.Duration
	due   time.Time
}

// refuse returns the state after a refusal at a time. A refusal before the last delay has ended, as
// after an event of the object, does not change the delay.
func (s state) refuse(reason Reason, now time.Time) state {
	longest := lastRetry
	if reason == QuotaExceeded {
		longest = lastRetryOfQuota
	}
	left := s.due.Sub(now)
	if left <= 0 {
		s.delay = min(max(2*s.delay, firstRetry), longest)
		left = s.delay
	}
	return state{reason: reason, delay: s.delay, due: now.Add(min(left, s.delay, longest))}
}

// BackOff returns a Reconciler for a controller that calls another one. It replaces an error of a
// refused write by a retry after a delay that grows from one second to ten minutes, or to one minute
// if a quota is exceeded. Events of the object meanwhile do not make it grow. It logs such an error
// when it appears and when its reason changes. A RequeueAfter beside such an error does not count, as
// it does not beside any other error: each retry repeats the refused write. Requests about other
// objects are not affected. All other results and errors pass unchanged. It is as safe for concurrent
// use as r.
func BackOff[R comparable](controller string, r reconcile.TypedReconciler[R]) reconcile.TypedReconciler[R] {
	memory := &keyed.Memory[R, state]{Most: maxRemembered}
	return reconcile.TypedFunc[R](func(ctx context.Context, request R) (reconcile.Result, error) {
		result, err := r.Reconcile(ctx, request)
		reason, is := ReasonOf(err)
		if !is {
			if err == nil && memory.Forget(request) {
				ctrl.LoggerFrom(ctx).Info("The API server accepts the write that it had refused")
			}
			return result, err
		}
		refused.WithLabelValues(controller, string(reason)).Inc()
		now, next := time.Now(), state{}
		memory.Edit(request, now, func(last state, known bool) (state, time.Duration, bool) {
			next = last.refuse(reason, now)
			if !known || last.reason != reason {
				ctrl.LoggerFrom(ctx).Error(err, "The API server refuses a write, which is retried ever more seldom", "reason", reason)
			}
			return next, keyed.Forever, true
		})
		return reconcile.Result{RequeueAfter: next.due.Sub(now)}, nil
	})
}

// Register adds windlass_refused_writes_total, which counts for all controllers of a process, to a
// registry. It can be called several times in a process.
func Register(registry prometheus.Registerer) error {
	if err := registry.Register(refused); err != nil {
		if _, known := errors.AsType[prometheus.AlreadyRegisteredError](err); known {
			return nil
		}
		return fmt.Errorf("registering the metrics of refused writes: %w", err)
	}
	return nil
}

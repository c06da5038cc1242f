package controllers

import (
	"context"
	"time"

	"github.com/windlass-dev/windlass/internal/guard"
)

// maxWidenings is how often the detail of one namespace makes the scope wider in one period of
// NarrowEvery. After that, the scope has the namespace as a whole.
const maxWidenings = 4

// scopePace bounds how often tenants cause a write of the guard's scope, which is one object for all
// namespaces: each write reconciles all of them, and each API server compiles the scope again. A scope
// that is too wide is safe, so it waits until it becomes narrower; one that is too narrow does not wait.
// In one period, the scope becomes narrower once, and each namespace makes it wider at most
// maxWidenings+1 times. A tenant who adds and removes a group again and again causes two writes.
//
// All of it may be lost: another process computes it anew.
type scopePace struct {
	// unneeded has, by namespace, what the statuses of the namespace rely on, where the scope has more.
	unneeded map[string]guard.Scope
	// narrowed is when the scope last became narrower.
	narrowed time.Time
	// widenings counts, by namespace, how often the scope became wider since began.
	widenings map[string]int
	began     time.Time
}

// mayWiden reports whether a namespace may still make the scope wider by detail, and counts that it
// becomes wider.
func (p *scopePace) mayWiden(namespace string, now time.Time, period time.Duration) bool {
	if remaining(p.began, now, period) == 0 {
		p.began, p.widenings = now, map[string]int{}
	}
	p.widenings[namespace]++
	return p.widenings[namespace] <= maxWidenings
}

// remaining returns how much of a period that began is left: never more than the period, whatever the
// clock did.
func remaining(began, now time.Time, period time.Duration) time.Duration {
	if began.IsZero() || now.Before(began) {
		return 0
	}
	return max(0, period-now.Sub(began))
}

// narrowScope removes from the scope what the statuses of no namespace rely on: of this namespace, all
// but kept, and of others what waits. Until NarrowEvery has passed since the last time, it only
// remembers kept, and returns how long to wait. The error is that of widenScope.
func (r *UpdatePolicyReconciler) narrowScope(
	ctx context.Context, reg registration, namespace string, kept guard.Scope,
) (wait time.Duration, err error) {
	pace := &r.scope.pace
	if reg.config == nil || reg.scope.Equal(reg.scope.With(namespace, kept...).Fit()) {
		return 0, nil
	}
	if pace.unneeded == nil {
		pace.unneeded = map[string]guard.Scope{}
	}
	pace.unneeded[namespace] = kept
	if wait = remaining(pace.narrowed, r.Now(), r.NarrowEvery); wait > 0 {
		return wait, nil
	}
	if _, err := r.writeScope(ctx, reg, reg.scope.WithAll(pace.unneeded), namespace); err != nil {
		return 0, err
	}
	pace.narrowed, pace.unneeded = r.Now(), nil
	return 0, nil
}

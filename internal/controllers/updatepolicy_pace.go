package controllers

import (
	"context"
	"time"

	"github.com/windlass-dev/windlass/internal/guard"
)

// maxWidenings is how often the detail of one namespace makes the scope wider in one period of
// NarrowEvery. After that, the scope has the namespace as a whole.
const maxWidenings = 4

// narrowingsAtOnce is how many narrower scopes may follow each other at once, after periods without
// one.
const narrowingsAtOnce = 3

// scopePace bounds how often tenants cause a write of the guard's scope, which is one object for all
// namespaces: each write reconciles all of them, and each API server compiles the scope again. A scope
// that is too wide is safe, so it waits until it becomes narrower; one that is too narrow does not wait.
// In one period, the scope becomes narrower once on average, and each namespace makes it wider at most
// maxWidenings+1 times. A tenant who adds and removes a group again and again causes two writes.
//
// All of it may be lost: another process computes it anew.
type scopePace struct {
	// unneeded has, by namespace, what the statuses of the namespace rely on, where the scope has more.
	unneeded map[string]guard.Scope
	// spent is when the periods end that the narrower scopes so far have used.
	spent time.Time
	// widenings counts, by namespace, how often the scope became wider since began.
	widenings map[string]int
	began     time.Time
}

// mayWiden reports whether a namespace may still make the scope wider by detail, and counts that it
// becomes wider.
func (p *scopePace) mayWiden(namespace string, now time.Time, period time.Duration) bool {
	if passed := now.Sub(p.began); passed < 0 || passed >= period {
		p.began, p.widenings = now, map[string]int{}
	}
	p.widenings[namespace]++
	return p.widenings[namespace] <= maxWidenings
}

// untilNarrower returns how long the scope must not become narrower: at most one period.
func (p *scopePace) untilNarrower(now time.Time, period time.Duration) time.Duration {
	left := max(0, p.spent.Sub(now))
	if left > narrowingsAtOnce*period {
		// The clock went back.
		p.spent, left = now, 0
	}
	return max(0, left-(narrowingsAtOnce-1)*period)
}

// narrowed counts that the scope became narrower.
func (p *scopePace) narrowed(now time.Time, period time.Duration) {
	if p.spent.Before(now) {
		p.spent = now
	}
	p.spent, p.unneeded = p.spent.Add(period), nil
}

// narrowScope removes from the scope what the statuses of no namespace rely on: of this namespace, all
// but kept, and of others what waits. If the scope became narrower too often, it only remembers kept,
// and returns how long to wait. The error is that of widenScope.
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
	if wait = pace.untilNarrower(r.Now(), r.NarrowEvery); wait > 0 {
		return wait, nil
	}
	if _, err := r.writeScope(ctx, reg, reg.scope.WithAll(pace.unneeded), namespace); err != nil {
		return 0, err
	}
	pace.narrowed(r.Now(), r.NarrowEvery)
	return 0, nil
}

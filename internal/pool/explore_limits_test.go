package pool_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/windlass-dev/windlass/internal/pool"
)

// bounds are the limits of an UpdatePolicy in an exploration. 0 means none.
type bounds struct {
	maxInFlight, canary, batch, partition int8
}

// limits are those of a scenario; nil without any.
func (b bounds) limits() *pool.Limits {
	if b == (bounds{}) {
		return nil
	}
	l := &pool.Limits{
		MaxInFlight: int32(b.maxInFlight), Canary: intstr.FromInt32(int32(b.canary)),
		Partition: intstr.FromInt32(int32(b.partition)),
	}
	if b.batch > 0 {
		l.Batches = []intstr.IntOrString{intstr.FromInt32(int32(b.batch))}
	}
	return l
}

// mayTouch is how many Machines of replicas a rollout may have touched once done were done. It
// repeats the contract of the UpdatePolicy, and shares nothing with the rules.
func (b bounds) mayTouch(replicas, done int8) int8 {
	most := replicas
	switch {
	case b.canary > 0 && done < b.canary:
		most = b.canary
	case b.batch > 0:
		most = b.canary
		for most <= done {
			most += b.batch
		}
	}
	return max(min(most, replicas-b.partition), 0)
}

// atTemplate counts the Machines of the current template that are alive, and those that are done.
func (w *scene) atTemplate() (alive, done int8) {
	for _, m := range w.machines {
		if m.exists && !m.deleting && m.owner == w.md.template {
			alive++
			if m.available && !m.inUpdate() {
				done++
			}
		}
	}
	return alive, done
}

// finishes notes the highest number of Machines that were done.
func (w *scene) finishes() {
	_, done := w.atTemplate()
	w.done = max(w.done, done)
}

// renews notes that the template has changed.
func (w *scene) renews() {
	w.changed, w.done = true, 0
	w.canaryLost, w.retriedOnce, w.proven = false, false, false
	w.finishes()
}

// checkLimits says which limit of the UpdatePolicy a write breaks. Machines that others took away
// do not count, and the limits do not count once the policy was away.
func (e *explorer) checkLimits(w *scene, o operation) string {
	if e.bounds == (bounds{}) || w.stockRan || w.opened || w.pausedOnce {
		return ""
	}
	fresh, _ := w.atTemplate()
	most := e.mayTouch(w.most, w.done)
	old := w.alive() - fresh
	if touched := w.md.replicas - old - w.lost; !w.changed && o.kind != createMachine &&
		touched > most {
		return fmt.Sprintf("%v: %d Machines are touched, and at most %d may be", o, touched, most)
	}
	if o.kind != deleteMachine && o.kind != remediate && fresh-w.lost > most {
		return fmt.Sprintf("%v: %d Machines are at the new template, and at most %d may be", o, fresh,
			most)
	}
	return e.checkInFlight(w, o)
}

// checkInFlight says whether more Machines than maxInFlight are being replaced.
func (e *explorer) checkInFlight(w *scene, o operation) string {
	if e.maxInFlight == 0 || e.keep || e.covered == upwards || w.changed {
		return ""
	}
	busy := max(w.md.replicas-w.total(), 0)
	for _, m := range w.machines {
		if m.exists && (m.deleting && !m.asked || !m.available && !m.broken) {
			busy++
		}
	}
	if busy-w.lost > e.maxInFlight {
		return fmt.Sprintf("%v: %d Machines are in flight, and at most %d may be", o, busy, e.maxInFlight)
	}
	return ""
}

// endsWithin says whether a rollout with a partition leaves another number of old Machines.
func (e *explorer) endsWithin(w *scene) string {
	fresh, _ := w.atTemplate()
	old, want := w.alive()-fresh, min(e.partition, w.md.replicas)
	if old > want || old < want && !w.opened && !w.stockRan && !w.changed && w.lost == 0 &&
		w.most == w.fewest {
		return fmt.Sprintf("the rollout has ended, and %d Machines are at the old template instead of %d",
			old, want)
	}
	return ""
}

// TestExploreFindsIgnoredLimits: the checks find a decider that ignores one limit.
func TestExploreFindsIgnoredLimits(t *testing.T) {
	t.Parallel()
	ignoring := func(forget func(*pool.Limits)) decider {
		return edited(func(g *pool.Group) {
			l := *g.Limits
			forget(&l)
			g.Limits = &l
		}, nil)
	}
	for name, tt := range map[string]struct {
		forget   func(*pool.Limits)
		scenario scenario
		want     string
	}{
		"canary": {
			func(l *pool.Limits) { l.Canary = intstr.FromInt32(2) },
			scenario{replicas: 3, unavailable: 2, bounds: bounds{canary: 1}}, "at most 1 may be",
		},
		"batches": {
			func(l *pool.Limits) { l.Batches = nil },
			scenario{replicas: 3, unavailable: 2, covered: upwards,
				bounds: bounds{batch: 1}}, "at most 1 may be",
		},
		"partition": {
			func(l *pool.Limits) { l.Partition = intstr.FromInt32(0) },
			scenario{replicas: 3, surge: 1, bounds: bounds{partition: 1}}, "at most 2 may be",
		},
		"maxInFlight": {
			func(l *pool.Limits) { l.MaxInFlight = 2 },
			scenario{replicas: 3, surge: 2, bounds: bounds{maxInFlight: 1}}, "are in flight",
		},
		"a partition that grows": {
			func(l *pool.Limits) { l.Partition = intstr.FromInt32(2) },
			scenario{replicas: 3, surge: 1,
				bounds: bounds{partition: 1}}, "2 Machines are at the old template instead of 1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := explore(tt.scenario, ignoring(tt.forget), 20_000)
			if !strings.Contains(r.violation, tt.want) {
				t.Errorf("the fault is not found in %d states: want %q, got\n%s", r.states, tt.want,
					r.violation)
			}
		})
	}
}

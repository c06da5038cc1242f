package rollouts

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/windlass-dev/windlass/internal/pool"
)

// rules are the limits as the rules read them; nil without any. onDelete says that they count where
// people delete the Machines.
func (b Limits) rules(onDelete bool) *pool.Limits {
	if b == (Limits{}) {
		return nil
	}
	l := &pool.Limits{
		Name: "policy", UpdateOnDelete: onDelete,
		MaxInFlight: int32(b.MaxInFlight), Canary: intstr.FromInt32(int32(b.Canary)),
		Partition: intstr.FromInt32(int32(b.Partition)),
	}
	if b.Batch > 0 {
		l.Batches = []intstr.IntOrString{intstr.FromInt32(int32(b.Batch))}
	}
	return l
}

// mayTouch is how many Machines of replicas a rollout may have touched once done were done. It
// repeats the contract of the UpdatePolicy, and shares nothing with the rules.
func (b Limits) mayTouch(replicas, done int8) int8 {
	most := replicas
	switch {
	case b.Canary > 0 && done < b.Canary:
		most = b.Canary
	case b.Batch > 0:
		most = b.Canary
		for most <= done {
			most += b.Batch
		}
	}
	return max(min(most, replicas-b.Partition), 0)
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
// do not count, and the limits do not count once the policy was away. If the template has changed,
// new Machines take the place of those that an earlier plan deleted, whatever the limits are.
func (e *explorer) checkLimits(w *scene, o operation) string {
	if e.Limits == (Limits{}) || w.unlimited() {
		return ""
	}
	fresh, _ := w.atTemplate()
	may := e.Limits
	if w.changed {
		may.Partition = 0 // Machines that had the template before do not count. See endsWithin.
	}
	most := may.mayTouch(w.most, w.done)
	touched := w.md.replicas - (w.alive() - fresh) - w.lost
	creates, moves := o.kind == createMachine, o.kind == moveMachine
	switch {
	case !w.changed && !creates && touched > most:
		return fmt.Sprintf("%v: %d Machines are touched, and at most %d may be", o, touched, most)
	case (moves || creates && !w.changed) && fresh-w.lost > most:
		return fmt.Sprintf("%v: %d Machines are at the new template, and at most %d may be", o, fresh,
			most)
	}
	return e.checkInFlight(w, o)
}

// unlimited reports whether the limits did not count once.
func (w *scene) unlimited() bool { return w.stockRan || w.opened || w.pausedOnce }

// checkInFlight says whether more Machines than maxInFlight are being replaced.
func (e *explorer) checkInFlight(w *scene, o operation) string {
	if e.MaxInFlight == 0 || e.Keep || e.Covered || w.changed {
		return ""
	}
	busy := max(w.md.replicas-w.total(), 0)
	for _, m := range w.machines {
		if m.inFlight() {
			busy++
		}
	}
	// The limits never keep spec.replicas from being followed.
	scaled := w.Scales != e.Faults.Scales
	if busy-w.lost > e.MaxInFlight && !scaled {
		return fmt.Sprintf("%v: %d Machines are in flight, and at most %d may be", o, busy, e.MaxInFlight)
	}
	return ""
}

// endsWithin says whether a rollout with a partition leaves another number of old Machines.
func (e *explorer) endsWithin(w *scene) string {
	fresh, _ := w.atTemplate()
	old, want := w.alive()-fresh, min(e.Partition, w.md.replicas)
	if old > want || old < want && !w.opened && !w.stockRan && !w.changed && !w.pausedOnce &&
		w.lost == 0 && w.most == w.fewest {
		return fmt.Sprintf("the rollout has ended, and %d Machines are at the old template instead of %d",
			old, want)
	}
	return ""
}

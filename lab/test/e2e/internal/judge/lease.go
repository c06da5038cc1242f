package judge

import (
	"cmp"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/internal/history"
)

// grace is how long after the end of its lease windlass status still gives a manager: a clock that
// differs by less makes it no dead one.
const grace = time.Minute

// silences are facts that repeat a lease at the times at which it has ended, and at which nobody
// may take the manager for a running one any more.
func silences(facts []history.Fact, until time.Time) []history.Fact {
	var found, leases []history.Fact
	for _, f := range facts {
		if f.Kind == kindLease {
			leases = append(leases, f)
		}
	}
	for i, f := range leases {
		end := until
		if i+1 < len(leases) {
			end = leases[i+1].Seen
		}
		for _, age := range []time.Duration{durationOf(f), durationOf(f) + grace} {
			if f.Seen = leases[i].Seen.Add(age); f.Seen.Before(end) {
				found = append(found, f)
			}
		}
	}
	return found
}

func durationOf(f history.Fact) time.Duration {
	lease, ok := f.Object.(*coordinationv1.Lease)
	if !ok || lease.Spec.LeaseDurationSeconds == nil {
		return 0
	}
	return time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second
}

// watchManager answers when the manager was last seen, and whether it must be started. Nothing
// tells that of stock Cluster API's manager.
func (w *world) watchManager(a Answers, now time.Time) {
	lease, ok := w.lease.Object.(*coordinationv1.Lease)
	if !ok || lease.Spec.RenewTime == nil {
		return
	}
	holder := cmp.Or(deref(lease.Spec.HolderIdentity), v1alpha1.EngineManager)
	if deref(lease.Spec.HolderIdentity) != "" {
		a[Question{Seen, ""}] = is(lease.Spec.RenewTime.UTC().Format(time.RFC3339Nano))
	}
	act := Question{MustAct, controller}
	switch age := now.Sub(lease.Spec.RenewTime.Time); {
	case !strings.HasPrefix(holder, v1alpha1.EngineManager):
	case age >= durationOf(w.lease)+grace && deref(lease.Spec.HolderIdentity) != "":
		a[act] = is(Yes)
	case age >= durationOf(w.lease) || holder == v1alpha1.EngineManager:
		a[act] = is(Yes, "")
	}
}

func deref(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

package gate

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windlass-dev/windlass/api/v1alpha1"
)

// maxPassed is a bound of the API.
const maxPassed = 200

// ComputePassed returns the list of passed steps of a gate that has just let a Cluster pass a step.
// It adds the step if the Cluster waited there, and earlier ones of which that was not written. If
// ended is true, the step is the last one of an upgrade, and the gate's approvals for the Cluster are
// about to be removed: ComputePassed also adds approved steps at which the gate never held the Cluster.
// If it adds a step, it removes the steps of Clusters that do not exist. Otherwise it returns the
// gate's own list.
func ComputePassed(
	g *v1alpha1.UpgradeGate, c Cluster, step Step, ended bool,
	exists func(name, uid string) bool, now time.Time,
) []v1alpha1.GatePassed {
	passed := addWaited(g, c, step, now)
	for _, a := range g.Status.Approvals {
		other := a.ClusterUID == c.UID && !isFor(c, step)(a)
		if ended && other && !IsOutdated(g, a) && !covers(a, passed) {
			passed = append(passed, v1alpha1.GatePassed{
				Cluster: a.Cluster, ClusterUID: a.ClusterUID, At: a.At, Version: a.Version,
				ApprovedBy: a.By, ApprovedTime: a.Time,
			})
		}
	}
	if slices.Equal(passed, g.Status.Passed) {
		return g.Status.Passed
	}
	passed = slices.DeleteFunc(passed, func(p v1alpha1.GatePassed) bool {
		return !exists(p.Cluster, p.ClusterUID)
	})
	return passed[max(0, len(passed)-maxPassed):]
}

// covers reports whether a step that an approval is for has passed already.
func covers(a v1alpha1.GateApprovalRecord, passed []v1alpha1.GatePassed) bool {
	return slices.ContainsFunc(passed, func(p v1alpha1.GatePassed) bool {
		step, ok := StepOf(p.At, p.Version)
		return ok && isFor(Cluster{UID: p.ClusterUID}, step)(a)
	})
}

// addWaited returns the passed steps, with this one if the Cluster waited there, and with earlier ones
// at which the status still has the Cluster waiting: the write that should have told that they passed
// was lost, and this is the first time that it is seen.
func addWaited(g *v1alpha1.UpgradeGate, c Cluster, step Step, now time.Time) []v1alpha1.GatePassed {
	passed := slices.Clone(g.Status.Passed)
	for _, w := range g.Status.Waiting {
		if at, ok := StepOf(w.At, w.Version); ok && w.ClusterUID == c.UID && at.isReachedBy(step) {
			passed = addPassed(passed, g, c, at, w, now)
		}
	}
	return passed
}

// isReachedBy reports whether a Cluster that passes a later step, or this one, has passed this one. A
// step of another version may have been cancelled by another target.
func (s Step) isReachedBy(later Step) bool {
	if s == later {
		return true
	}
	sameWay := s.Version == later.Version || s.Hook == BeforeClusterUpgrade
	return sameWay && slices.Index(called, s.Hook) < slices.Index(called, later.Hook)
}

// addPassed adds a step. One that passed before, while other gates still held the Cluster, keeps its
// first Since.
func addPassed(
	passed []v1alpha1.GatePassed, g *v1alpha1.UpgradeGate, c Cluster, at Step,
	w v1alpha1.GateWaiting, now time.Time,
) []v1alpha1.GatePassed {
	p := v1alpha1.GatePassed{
		Cluster: w.Cluster, ClusterUID: w.ClusterUID, At: w.At, Version: w.Version, Since: w.Since,
		Time: metav1.NewTime(now.UTC().Truncate(time.Second)),
	}
	if a, approved := FindApproval(g, c, at); approved {
		p.ApprovedBy, p.ApprovedTime = a.By, a.Time
	}
	return append(slices.DeleteFunc(passed, func(o v1alpha1.GatePassed) bool {
		same := o.ClusterUID == p.ClusterUID && o.At == p.At && o.Version == p.Version
		if same && !o.Since.IsZero() {
			p.Since = o.Since
		}
		return same
	}), p)
}

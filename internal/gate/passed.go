package gate

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windlass-dev/windlass/api/v1alpha1"
)

// maxPassed is a bound of the API.
const maxPassed = 200

// ComputePassed returns the steps that a gate has let pass, after it was asked about a step of a Cluster
// and let it pass. A step is added if the Cluster waited there. ended reports that this is the last step
// of an upgrade: its approvals are about to be removed, and those of steps that the gate never held are
// added. Where there is something to add, Clusters that do not exist any more leave. The result is that
// of the gate itself where nothing changes.
func ComputePassed(
	g *v1alpha1.UpgradeGate, c Cluster, step Step, ended bool, exists func(name, uid string) bool, now time.Time,
) []v1alpha1.GatePassed {
	passed := addWaited(g, c, step, now)
	for _, a := range g.Status.Approvals {
		if ended && a.ClusterUID == c.UID && !isFor(c, step)(a) && !IsOutdated(g, a) && !covers(a, passed) {
			passed = append(passed, v1alpha1.GatePassed{
				Cluster: a.Cluster, ClusterUID: a.ClusterUID, At: a.At, Version: a.Version,
				ApprovedBy: a.By, ApprovedTime: a.Time,
			})
		}
	}
	if slices.Equal(passed, g.Status.Passed) {
		return g.Status.Passed
	}
	passed = slices.DeleteFunc(passed, func(p v1alpha1.GatePassed) bool { return !exists(p.Cluster, p.ClusterUID) })
	return passed[max(0, len(passed)-maxPassed):]
}

// covers reports whether a step that an approval is for has passed already.
func covers(a v1alpha1.GateApprovalRecord, passed []v1alpha1.GatePassed) bool {
	return slices.ContainsFunc(passed, func(p v1alpha1.GatePassed) bool {
		step, ok := StepOf(p.At, p.Version)
		return ok && isFor(Cluster{UID: p.ClusterUID}, step)(a)
	})
}

// addWaited returns the steps that passed with this one, if the Cluster waited there. One that passed
// before, because other gates still held it, keeps since when it was held.
func addWaited(g *v1alpha1.UpgradeGate, c Cluster, step Step, now time.Time) []v1alpha1.GatePassed {
	passed := slices.Clone(g.Status.Passed)
	for _, w := range g.Status.Waiting {
		if w.ClusterUID != c.UID || Hook(w.At) != step.Hook || w.Version != step.Version.String() {
			continue
		}
		p := v1alpha1.GatePassed{
			Cluster: w.Cluster, ClusterUID: w.ClusterUID, At: w.At, Version: w.Version, Since: w.Since,
			Time: metav1.NewTime(now.UTC().Truncate(time.Second)),
		}
		if a, approved := FindApproval(g, c, step); approved {
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
	return passed
}

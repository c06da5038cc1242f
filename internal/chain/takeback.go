package chain

import (
	"slices"

	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// takeBack gives the control plane another version in the middle of a step. A step to a version that has
// no image never ends. Before a machine of it has joined, the control plane runs nothing but its earlier
// version, so the way to the target begins there, or ends. That way must not lead through the step's version, and
// the present one must not lead on: a list that is edited does not restart steps that can end.
//
// A machine may join while the engine acts. Its kubelet is then newer than the version asked for, and the
// control plane's provider replaces it.
func (d *decider) takeBack() (Decision, bool) {
	cp := d.s.ControlPlane
	if !cp.Unjoined || cp.Running.IsZero() || d.problem == nil && d.offers(cp.Version) {
		return Decision{}, false
	}
	way, err := plan.Compute(d.request(cp.Running))
	cancels := len(way.ControlPlane) == 0 && cp.Running.Equal(d.s.Target)
	if err != nil || len(way.ControlPlane) == 0 && !cancels || slices.ContainsFunc(way.ControlPlane, cp.Version.Equal) {
		return Decision{}, false
	}
	to := d.s.Target
	if !cancels {
		to = way.ControlPlane[0]
	}
	back := *d
	back.plan, back.problem = way, nil
	back.setStops()
	if decision, due := back.nextUpgrade(); due {
		return decision, true
	}
	return back.stepTo(to)
}

// offers reports whether versions may come to v by the source. Only a list tells that they may not.
func (d *decider) offers(v version.Version) bool {
	list, isList := d.s.Source.(plan.VersionList)
	return !isList || slices.ContainsFunc(list, v.Equal)
}

package chain

import (
	"fmt"
	"slices"

	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// NeedsBack reports whether Back counts: no machine of the control plane has joined at the version of
// its step, and no way leads on from there to the target.
func (s State) NeedsBack() bool {
	d := decider{s: s}
	d.computePlan()
	return d.mayTakeBack()
}

func (d *decider) mayTakeBack() bool {
	cp := d.s.ControlPlane
	leadsOn := d.s.SourceProblem == "" && d.problem == nil && d.offers(cp.Version)
	return cp.Unjoined && !cp.Running.IsZero() && !leadsOn
}

// takeBack gives the control plane another version in the middle of a step. A step to a version that has
// no image never ends. Before a machine of it has joined, the control plane runs nothing but its earlier
// version, so the way to the target begins there, or ends. That way must not lead through the step's version, and
// the present one must not lead on: a list that is edited does not restart steps that can end.
//
// A machine may join while the engine acts. Its kubelet is then newer than the version asked for, and the
// control plane's provider replaces it.
func (d *decider) takeBack() (Decision, bool) {
	if !d.mayTakeBack() {
		return Decision{}, false
	}
	to, way, problem := d.wayBack()
	switch {
	case problem != "":
		return d.decide(Wait{}, NotTakenBack, "no machine of the control plane has a Node at %s, and the step is not taken back: %s",
			d.s.ControlPlane.Version, problem), true
	case to.IsZero():
		return Decision{}, false
	}
	back := *d
	back.plan, back.problem = way, nil
	back.setStops()
	if decision, due := back.nextUpgrade(); due {
		return decision, true
	}
	return back.stepTo(to)
}

// wayBack returns the version in whose favor the step is taken back, and the plan from what the control
// plane runs; or why there is none. Without either, nobody knows.
func (d *decider) wayBack() (to version.Version, way plan.Plan, problem string) {
	if d.s.JoinProblem != "" {
		return to, way, d.s.JoinProblem
	}
	cp, request := d.s.ControlPlane, d.request(d.s.ControlPlane.Running)
	// An extension's answer is the way from the version of the step only.
	if _, answered := d.s.Source.(plan.Response); answered || d.s.SourceProblem != "" {
		if request.Source = d.s.Back; d.s.Back == nil {
			return to, way, d.s.BackProblem
		}
	}
	way, err := plan.Compute(request)
	switch {
	case err != nil:
		return to, way, err.Error()
	case slices.ContainsFunc(way.ControlPlane, cp.Version.Equal):
		return to, way, fmt.Sprintf("the way from %s to %s leads through %s", cp.Running, d.s.Target, cp.Version)
	case len(way.ControlPlane) > 0:
		return way.ControlPlane[0], way, ""
	case cp.Running.Equal(d.s.Target):
		return d.s.Target, way, ""
	default:
		return to, way, fmt.Sprintf("the plan from %s to %s is empty", cp.Running, d.s.Target)
	}
}

// offers reports whether versions may come to v by the source. Only a list tells that they may not.
func (d *decider) offers(v version.Version) bool {
	var list []version.Version
	switch source := d.s.Source.(type) {
	case plan.VersionList:
		list = source
	case plan.Graph:
		list = source.Versions
	case plan.Response:
		list = source.Offered
	case plan.NextMinor:
	}
	return len(list) == 0 || slices.ContainsFunc(list, v.Equal)
}

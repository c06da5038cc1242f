package changereport

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/gate"
	"github.com/windlass-dev/windlass/internal/text"
	"github.com/windlass-dev/windlass/pkg/version"
)

// maxMessage bounds a text that others wrote, in bytes.
const maxMessage = 1024

// gates are the steps of the upgrade at gates.
func (c *computation) gates() []Gate {
	if c.upgrade == nil || c.facts.Upgrade == nil {
		return nil
	}
	var steps []Gate
	for i := range c.facts.Upgrade.Gates {
		steps = append(steps, c.gateSteps(&c.facts.Upgrade.Gates[i])...)
	}
	slices.SortStableFunc(steps, func(a, b Gate) int {
		return cmp.Or(a.time().Compare(b.time()), strings.Compare(a.Gate, b.Gate), strings.Compare(string(a.At), string(b.At)),
			strings.Compare(a.Version.String(), b.Version.String()))
	})
	return steps
}

// time is the first one that a gate has.
func (g Gate) time() time.Time {
	if g.Since.IsZero() && g.Approval != nil {
		return g.Approval.Time
	}
	return g.Since
}

func (c *computation) gateSteps(g *v1alpha1.UpgradeGate) []Gate {
	uid := string(c.facts.Cluster.UID)
	var steps []Gate
	add := func(clusterUID string, at v1alpha1.GateHook, recorded string, s Gate) {
		step, ok := gate.StepOf(at, recorded)
		if clusterUID != uid || !ok || !c.concerns(step) {
			return
		}
		s.Gate, s.At, s.Version = g.Name, step.Hook, step.Version
		steps = append(steps, s)
	}
	for _, p := range g.Status.Passed {
		s := Gate{State: GatePassed, Since: p.Since.UTC(), Passed: p.Time.UTC()}
		if p.Time.IsZero() {
			s = Gate{State: GateApproved}
		}
		if !p.ApprovedTime.IsZero() {
			s.Approval = &Approval{By: text.Bound(p.ApprovedBy, maxMessage), Time: p.ApprovedTime.UTC()}
		}
		add(p.ClusterUID, p.At, p.Version, s)
	}
	for _, w := range g.Status.Waiting {
		add(w.ClusterUID, w.At, w.Version, Gate{State: GateHolds, Since: w.Since.UTC(), Message: text.Bound(w.Message, maxMessage)})
	}
	for _, a := range g.Status.Approvals {
		approved, ok := gate.StepOf(a.At, a.Version)
		if a.ClusterUID != uid || !ok {
			continue
		}
		approval := &Approval{By: text.Bound(a.By, maxMessage), Time: a.Time.UTC(), Outdated: gate.IsOutdated(g, a)}
		if !attach(steps, approved, approval) {
			add(a.ClusterUID, a.At, a.Version, Gate{State: GateApproved, Approval: approval})
		}
	}
	return steps
}

// attach reports whether one of the steps is what was approved. A step that holds gets the approval; one
// that passed has the one that counted then.
func attach(steps []Gate, approved gate.Step, approval *Approval) bool {
	i := slices.IndexFunc(steps, func(s Gate) bool { return approved.Covers(gate.Step{Hook: s.At, Version: s.Version}) })
	if i >= 0 && steps[i].Approval == nil && steps[i].State == GateHolds {
		steps[i].Approval = approval
	}
	return i >= 0
}

// concerns reports whether a step at a gate is one of the upgrade, by its version.
func (c *computation) concerns(step gate.Step) bool {
	u := c.upgrade
	above := u.From.IsZero() || version.Compare(step.Version, u.From) == version.Greater
	return above && version.Compare(step.Version, u.Target) != version.Greater
}

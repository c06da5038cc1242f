package changereport

import (
	"fmt"
	"slices"
	"time"

	"github.com/windlass-dev/windlass/internal/chain"
	"github.com/windlass-dev/windlass/internal/snapshot"
	"github.com/windlass-dev/windlass/internal/status"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// Compute returns the report at a time.
func Compute(f Facts, now time.Time) Report {
	c := computation{
		facts: f, status: status.Compute(f.Facts, now), now: now.UTC().Truncate(time.Second),
	}
	r := Report{
		Namespace: c.status.Namespace, Cluster: c.status.Cluster, Time: c.now, Upgrade: c.findUpgrade(),
		Evidence: listEvidence(),
	}
	c.upgrade = r.Upgrade
	r.Steps = c.steps()
	r.Gates = c.gates()
	r.Machines = c.machines()
	r.Groups = c.groups(r.Machines)
	r.Failures = c.failures()
	if c.status.InPlace != nil {
		r.ByAnnotation = c.status.InPlace.Groups
	}
	for _, p := range c.status.Problems {
		c.note("%s %s: annotation %s: %s", p.Kind, p.Name, p.Annotation, p.Message)
	}
	r.NotRecorded = slices.Concat(c.notRecorded, f.Unread, c.alwaysMissing())
	return r
}

// computation is what a Report is put together from.
type computation struct {
	facts  Facts
	status status.Report
	now    time.Time
	// way is the recorded way of the upgrade; nil where none is recorded.
	way     *chain.Progress
	upgrade *Upgrade
	// notRecorded grows while parts are computed.
	notRecorded []string
}

func (c *computation) note(format string, args ...any) {
	c.notRecorded = append(c.notRecorded, fmt.Sprintf(format, args...))
}

// findUpgrade returns the upgrade under way, or else the last one; nil where there is neither.
func (c *computation) findUpgrade() *Upgrade {
	s := c.status.Chain
	switch {
	case s == nil:
		c.note("steps: the Cluster has no managed topology")
		return nil
	case s.State == status.ChainUnknown:
		c.note("steps: %s", s.Problem)
		return nil
	}
	if s.State != status.ChainUpgrading && s.State != status.ChainHeld && s.Began.IsZero() {
		return c.lastUpgrade(s)
	}
	u := &Upgrade{
		State: Running, Engine: s.Engine, From: s.From, Target: s.Target, Began: s.Began,
		Now: s.Now, Holds: s.Holds, ETA: s.ETA,
	}
	if s.State == status.ChainHeld || s.State == status.ChainPaused {
		u.State = Held
	}
	c.notRecorded = append(c.notRecorded, s.NotKnown...)
	if s.Began.IsZero() {
		c.note("when the upgrade began")
		return u
	}
	// It was read without an error for the status.
	if recorded, err := snapshot.ReadRecorded(c.facts.Cluster); err == nil {
		c.way = recorded.Chain
	}
	u.Planned = c.planned()
	return u
}

func (c *computation) lastUpgrade(s *status.Chain) *Upgrade {
	last, err := snapshot.ReadLastUpgrade(c.facts.Cluster)
	switch {
	case err != nil:
		c.note("the last upgrade: %s", err.Error())
		return nil
	case last == nil:
		c.note("any upgrade: none is under way, and windlass manager has ended none of this Cluster")
		return nil
	}
	if !last.Target.Equal(s.Target) {
		c.note("how the Cluster came from %s to %s: another engine did it, or it began with a new record", last.Target, s.Target)
	}
	c.way = &last.Progress
	return &Upgrade{
		State: Ended, Engine: status.Windlass,
		From: last.From, Target: last.Target, Began: last.Began.UTC(),
		Ended: last.Ended.UTC(), Planned: c.planned(),
	}
}

// planned is when the recorded plan was made.
func (c *computation) planned() time.Time {
	if c.way == nil || c.way.Planned == nil {
		c.note("the plan that the upgrade began with")
		return time.Time{}
	}
	made := c.way.Planned.Made.UTC()
	if made.After(c.way.Began) {
		c.note("the plan before %s: it was made again when the target changed", made.Format(time.RFC3339))
	}
	return made
}

func (c *computation) steps() []Step {
	switch {
	case c.upgrade == nil:
		return nil
	case c.upgrade.State != Ended:
		return c.toSteps(c.status.Chain.Steps)
	}
	if len(c.way.Steps) == chain.MaxSteps {
		c.note("steps before the first one shown: only the last steps are recorded")
	}
	return c.addNotMade(c.toSteps(status.DoneSteps(*c.way)))
}

func (c *computation) toSteps(recorded []status.Step) []Step {
	steps := make([]Step, 0, len(recorded))
	for _, s := range recorded {
		steps = append(steps, Step{
			Operation: s.Kind, Plan: c.planOf(s), State: s.State, From: s.From, To: s.To, Groups: s.Groups, Updated: s.Updated,
			Machines: s.Machines, Began: s.Began, Ended: s.Ended,
		})
	}
	return steps
}

// planOf says what is known of the plan of a step.
func (c *computation) planOf(s status.Step) Plan {
	missing := NotRecorded
	if s.State == status.StepNext {
		missing = Computed
	}
	if c.way == nil || c.way.Planned == nil {
		return missing
	}
	p := c.way.Planned
	stops := p.ControlPlane
	if s.Kind == plan.WorkersUpgrade {
		stops = p.Workers
	}
	switch {
	case slices.ContainsFunc(stops, s.To.Equal):
		return Planned
	case s.State == status.StepNext || !s.Began.IsZero() && s.Began.Before(p.Made):
		return missing
	default:
		return Unplanned
	}
}

// addNotMade adds the steps that were planned and that are not among those that were made.
func (c *computation) addNotMade(steps []Step) []Step {
	if c.way.Planned == nil {
		return steps
	}
	add := func(kind plan.OperationKind, stops []version.Version) {
		for _, to := range stops {
			if !slices.ContainsFunc(steps, func(s Step) bool { return s.Operation == kind && s.To.Equal(to) }) {
				steps = append(steps, Step{Operation: kind, Plan: Planned, State: NotMade, To: to})
			}
		}
	}
	add(plan.ControlPlaneUpgrade, c.way.Planned.ControlPlane)
	add(plan.WorkersUpgrade, c.way.Planned.Workers)
	slices.SortStableFunc(steps, func(a, b Step) int {
		if o := version.Compare(a.To, b.To); o == version.Less {
			return -1
		} else if o == version.Greater {
			return 1
		}
		return 0
	})
	return steps
}

// inUpgrade reports whether a time is in the upgrade, as far as it is known when that was.
func (c *computation) inUpgrade(t time.Time) bool {
	u := c.upgrade
	if u == nil || u.Began.IsZero() || t.IsZero() {
		return false
	}
	return !t.Before(u.Began) && (u.Ended.IsZero() || !t.After(u.Ended))
}

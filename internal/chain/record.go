package chain

import (
	"maps"
	"slices"
	"time"

	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// Recorded is what a Cluster has recorded about its chain, and what a Record changes.
type Recorded struct {
	// Pending is sorted and holds each hook once.
	Pending    Pending
	Intent     *Intent
	Chain      *Progress
	OKToDelete bool
	// UpgradeStep is the version of the control plane's step that is under way, zero when no upgrade is. Other controllers of
	// Cluster API read it: they create machines of that version though it is not the target.
	UpgradeStep version.Version
	// Last is the way of the last upgrade that this engine has ended. It is set by the write that ends
	// an upgrade, and never read for a decision; nil leaves what the Cluster has.
	Last *Past
}

// Progress is the way of the upgrade under way, for people to see, and for an estimate of the time
// that is left. Only Target, At, Generation and the last step's InsteadOf and Lacked take part in decisions.
type Progress struct {
	From   version.Version `json:"from" record:"key"`
	Target version.Version `json:"target"`
	// At is the version that the control plane had, and Generation is the Cluster's
	// metadata.generation, when Target was recorded.
	At         version.Version `json:"at,omitzero"`
	Generation int64           `json:"generation,omitzero"`
	Began      time.Time       `json:"began" record:"key"`
	// Planned is the plan that counted when Target was recorded; nil where Windlass did not record plans
	// yet.
	Planned *Planned `json:"planned,omitempty"`
	// Steps are the last steps of the control plane, oldest first; at most MaxSteps.
	Steps []Step `json:"steps,omitempty"`
}

// Planned is which versions an upgrade was planned to stop at, from the control plane's version then.
type Planned struct {
	Made         time.Time         `json:"made"`
	ControlPlane []version.Version `json:"controlPlane,omitempty"`
	// Workers are the stops of at least one group, in the order of the control plane's.
	Workers []version.Version `json:"workers,omitempty"`
}

// Past is the way of an upgrade that has ended: AfterClusterUpgrade let it pass.
type Past struct {
	Progress
	Ended time.Time `json:"ended"`
}

// MaxSteps bounds how many steps a Progress holds.
const MaxSteps = 32

// Step is one step of the control plane, and what workers did after it. Times that are zero have not come.
type Step struct {
	To    version.Version `json:"to" record:"key"`
	Began time.Time       `json:"began" record:"key"`
	// InsteadOf is the version of the step that was taken back for this one; zero for none.
	InsteadOf version.Version `json:"insteadOf,omitzero"`
	// ControlPlane is when AfterControlPlaneUpgrade let the chain pass, Workers when AfterWorkersUpgrade did.
	ControlPlane time.Time `json:"controlPlane,omitzero"`
	Workers      time.Time `json:"workers,omitzero"`
	// Lacked is how many machines MachineDeployments lacked, by name, when BeforeWorkersUpgrade let the
	// chain pass. It is kept for the last step only.
	Lacked map[string]int32 `json:"lacked,omitempty"`
}

// Apply returns what is recorded when r has been written. controlPlane is the version that the control plane has then. Times are kept to the
// second, as in the rest of the API.
func (r Record) Apply(to Recorded, controlPlane version.Version, now time.Time) Recorded {
	pending := slices.DeleteFunc(slices.Clone(to.Pending), func(h Hook) bool { return slices.Contains(r.Remove, h) })
	pending = append(pending, r.Add...)
	slices.Sort(pending)
	to.Pending = slices.Compact(pending)
	switch {
	case r.Intent != nil:
		to.Intent = r.Intent
	case r.ClearIntent:
		to.Intent = nil
	}
	now = now.UTC().Truncate(time.Second)
	if to.Chain != nil && slices.Contains(r.Remove, AfterClusterUpgrade) {
		to.Last = to.Chain.ended(now)
	}
	to.Chain = r.progress(to.Chain, controlPlane, now)
	to.OKToDelete = to.OKToDelete || r.OKToDelete
	to.UpgradeStep = version.Version{}
	if to.Pending.Has(AfterClusterUpgrade) {
		to.UpgradeStep = controlPlane
	}
	return to
}

// progress keeps the way: a step begins when the hook that follows it becomes due, and ends with that hook.
func (r Record) progress(old *Progress, controlPlane version.Version, now time.Time) *Progress {
	if r.ClearChainTarget {
		return nil
	}
	if old == nil && r.ChainTarget.IsZero() {
		return nil
	}
	p := Progress{From: controlPlane, Began: now}
	// Of an upgrade that another engine has ended, the way may have been left.
	if old != nil && !slices.Contains(r.Add, AfterClusterUpgrade) {
		p = *old
		p.Steps = slices.Clone(old.Steps)
	}
	if !r.ChainTarget.IsZero() {
		p.Target, p.At, p.Generation = r.ChainTarget, controlPlane, r.ChainGeneration
	}
	p.Steps = r.steps(p.Steps, controlPlane, now)
	return &p
}

// ended is what remains of the way when its upgrade has ended.
func (p *Progress) ended(now time.Time) *Past {
	past := Past{Progress: *p, Ended: now}
	past.Steps = slices.Clone(p.Steps)
	for i := range past.Steps {
		past.Steps[i].Lacked = nil
	}
	return &past
}

// plan records the plan that counts from now on, if r begins an upgrade or changes its target.
func (r Record) plan(to Recorded, p plan.Plan, controlPlane version.Version, now time.Time) Recorded {
	if r.ChainTarget.IsZero() || to.Chain == nil {
		return to
	}
	way := *to.Chain
	way.Planned = &Planned{
		Made: now.UTC().Truncate(time.Second), ControlPlane: slices.Clone(p.ControlPlane),
		Workers: WorkersUpgrades(controlPlane, p),
	}
	to.Chain = &way
	return to
}

// steps returns the steps after r. It changes the elements of the steps before.
func (r Record) steps(steps []Step, controlPlane version.Version, now time.Time) []Step {
	last := len(steps) - 1
	// Another engine records no step that it takes. What groups lack before they follow it is noted all the same.
	passes := slices.Contains(r.Remove, BeforeWorkersUpgrade) && !r.cancelsWorkers()
	unnoted := passes && (last < 0 || !steps[last].To.Equal(controlPlane))
	if unnoted || slices.Contains(r.Add, AfterControlPlaneUpgrade) {
		if last >= 0 {
			steps[last].Lacked = nil
		}
		steps = append(steps, Step{To: controlPlane, Began: now, InsteadOf: r.InsteadOf})
		steps = steps[max(0, len(steps)-MaxSteps):]
	}
	// The last step that stands here need not be the control plane's: another engine may have taken one since.
	if last := len(steps) - 1; last >= 0 && steps[last].To.Equal(controlPlane) {
		r.passed(&steps[last], now)
	}
	return steps
}

// cancelsWorkers reports whether the workers' step is none any more. Neither of its hooks let anything pass.
func (r Record) cancelsWorkers() bool {
	return slices.Contains(r.Remove, BeforeWorkersUpgrade) && slices.Contains(r.Remove, AfterWorkersUpgrade)
}

// passed notes in a step which of its hooks let the chain pass.
func (r Record) passed(step *Step, now time.Time) {
	for _, hook := range r.Remove {
		switch hook { //nolint:exhaustive // a step tells of these only
		case AfterControlPlaneUpgrade:
			step.ControlPlane = now
		case BeforeWorkersUpgrade:
			step.Lacked = r.Lacked
		case AfterWorkersUpgrade:
			if !r.cancelsWorkers() {
				step.Workers = now
			}
		}
	}
}

// Equal reports whether r and o say the same, Last apart: it changes only together with Chain.
func (r Recorded) Equal(o Recorded) bool {
	sameIntent := r.Intent == nil && o.Intent == nil || r.Intent != nil && o.Intent != nil && r.Intent.equal(*o.Intent)
	return slices.Equal(r.Pending, o.Pending) && sameIntent && r.Chain.equal(o.Chain) && r.OKToDelete == o.OKToDelete && r.UpgradeStep == o.UpgradeStep
}

func (i Intent) equal(o Intent) bool {
	return i.From == o.From && i.To == o.To && i.Workers == o.Workers && i.Passed.Equal(o.Passed)
}

func (p *Progress) equal(o *Progress) bool {
	if p == nil || o == nil {
		return p == o
	}
	sameWay := p.From == o.From && p.Target == o.Target && p.At == o.At && p.Generation == o.Generation && p.Began.Equal(o.Began)
	return sameWay && p.Planned.equal(o.Planned) && slices.EqualFunc(p.Steps, o.Steps, Step.equal)
}

func (p *Planned) equal(o *Planned) bool {
	if p == nil || o == nil {
		return p == o
	}
	return p.Made.Equal(o.Made) && slices.Equal(p.ControlPlane, o.ControlPlane) && slices.Equal(p.Workers, o.Workers)
}

func (s Step) equal(o Step) bool {
	return s.To == o.To && s.InsteadOf == o.InsteadOf && s.Began.Equal(o.Began) && s.ControlPlane.Equal(o.ControlPlane) && s.Workers.Equal(o.Workers) && maps.Equal(s.Lacked, o.Lacked)
}

package explore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/windlass-dev/windlass/internal/chain"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// Config is what is explored: a Cluster to begin with, and what may happen to it.
type Config struct {
	// ControlPlane is the version that the control plane has; zero when the topology is yet to be created.
	ControlPlane version.Version
	// Moving is the version that it still reports where it is on its way to ControlPlane, Stamp what stands on it as this engine's last step, and
	// Recorded what stands on the Cluster, where an upgrade is under way to begin with.
	Moving, Stamp version.Version
	Recorded      chain.Recorded
	// Target is spec.topology.version at the beginning. Retargets are what people may change it to.
	Target    version.Version
	Retargets []version.Version
	// Broken are versions of which no machine of the control plane ever joins, such as those without an
	// image. With one, the engine reads which steps can be taken back.
	Broken []version.Version
	// Groups stand in the order of the topology, MachineDeployments before MachinePools; at most MaxGroups.
	Groups []Group
	// Sources say where versions come from: the first at the beginning, the others are what people may change it to.
	// None means plan.NextMinor.
	Sources []plan.Source
	// Asked says that an extension has the Sources: the engine gets its answers only.
	Asked bool
	// Extension is asked for the source each time where it is not nil, in the place of Sources.
	// It gets the versions of the control plane and of the slowest group, which is zero when there is none.
	Extension   func(controlPlane, workers, target version.Version) plan.Source
	Skew        version.SkewPolicy
	Concurrency int
	// MayEndWithoutPath says that people may bring the Cluster to where no legal chain leads on.
	MayEndWithoutPath bool
	Faults            Faults
	// Engine is what is explored; its zero value is the product's.
	Engine Engine
}

// MaxGroups is how many groups a Config can have.
const MaxGroups = 4

// Group is a MachineDeployment or MachinePool to begin with.
type Group struct {
	Name string
	Kind plan.GroupKind
	// Version is what its template asks for; zero for a group that does not exist. Oldest is the oldest version that one of its machines
	// has; zero means Version.
	Version, Oldest version.Version
	MaxMinorStep    uint32
	// Rule tells the groups apart that rules of the source treat differently; 0 for those that have none.
	Rule int
	// Absent says that the topology does not have the group to begin with; with a Version it has left it, and its machines run. Deleting says that
	// its object is going.
	Absent, Deleting bool
	// Defer and Hold are the annotations of the topology.
	Defer, Hold bool
	// Short says that it lacks machines, and never gets them.
	Short bool
}

// Unlimited is a budget that does not end.
const Unlimited = ^uint8(0)

// Faults bound how often disturbances may happen on one path.
type Faults struct {
	// Cuts end an action in the middle: an effect is lost, or done and its answer lost. Restarts lose what the engine keeps in memory.
	Cuts, Restarts uint8
	// Answers are hooks that block or fail.
	Answers uint8
	// Annotations are defer-upgrade and hold-upgrade-sequence set or removed; Blockers are before-upgrade annotations that are set.
	Annotations, Blockers uint8
	// Retargets, Relists: the target and the source change. Outages: the source cannot be had for a while. Pauses: the Cluster is paused.
	Retargets, Relists, Outages, Pauses uint8
	// Groups are groups added to or removed from the topology, or deleted by hand.
	Groups uint8
	// Races are changes by others between what the engine reads and what it does.
	Races uint8
	// Swaps put Cluster API's own engine in the place of this one, or back.
	Swaps uint8
	// Lags are restarts after which the control plane or a group is read as it was before its last write, until that is over or the engine
	// reads it anew.
	Lags uint8
	// Shortages are groups whose machines at the version of the template are too few: for a while, or,
	// while no workers step is under way, for good.
	Shortages uint8
	// Deletions of the Cluster: one is all there can be.
	Deletions uint8
	// Jumps set the clock back, so that all that was recorded before is of the future.
	Jumps uint8
}

// Engine decides and acts.
type Engine struct {
	Decide func(chain.State, time.Time) chain.Decision
	Carry  func(context.Context, chain.State, chain.Recorded, chain.Decision, time.Time, chain.Effects) (chain.Outcome, error)
}

// rung stands for a version: its place among those of a model; 0 for none.
type rung uint8

// model is a Config made ready.
type model struct {
	Config
	versions []version.Version
	// labelled says that steps say what they are.
	labelled bool
}

// epoch is the only moment that there is, but for two: longAgo is that of a step which was announced
// too long ago to count, and ahead that of what was recorded before the clock was set back.
var (
	epoch   = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	longAgo = epoch.Add(-time.Hour)
	ahead   = epoch.Add(12 * time.Hour)
)

func newModel(c Config) (*model, error) {
	m := &model{Config: c, versions: []version.Version{{}}}
	if m.Engine.Decide == nil {
		m.Engine.Decide = chain.Decide
	}
	if m.Engine.Carry == nil {
		m.Engine.Carry = chain.Execute
	}
	if len(m.Sources) == 0 {
		m.Sources = []plan.Source{plan.NextMinor{}}
	}
	if len(m.Skew.Rules) == 0 {
		m.Skew = version.KubernetesSkew()
	}
	if len(c.Groups) > MaxGroups {
		return nil, fmt.Errorf("simulating %d groups: at most %d can be", len(c.Groups), MaxGroups)
	}
	if c.Target.IsZero() {
		return nil, fmt.Errorf("simulating an upgrade: the target is missing")
	}
	return m, nil
}

// rung returns the place of a version, a new one if there is none yet.
func (m *model) rung(v version.Version) rung {
	if i := slices.Index(m.versions, v); i >= 0 {
		return rung(i) //nolint:gosec // versions of a handful of lists
	}
	m.versions = append(m.versions, v)
	return rung(len(m.versions) - 1) //nolint:gosec // versions of a handful of lists
}

func (m *model) version(r rung) version.Version { return m.versions[r] }

// source is where versions come from.
func (m *model) source(w *world) plan.Source {
	if m.Extension != nil {
		return m.Extension(m.version(w.cp.spec), m.slowest(w), m.version(w.target))
	}
	return m.Sources[w.source]
}

func (m *model) slowest(w *world) version.Version {
	var slowest version.Version
	for i := range m.Groups {
		if g := w.groups[i]; g.counts() && (slowest.IsZero() || version.Compare(m.version(g.oldest), slowest) == version.Less) {
			slowest = m.version(g.oldest)
		}
	}
	return slowest
}

// Begin is the world that the Config describes.
func (m *model) Begin() world {
	w := world{target: m.rung(m.Target), faults: m.Faults}
	for i, g := range m.Groups {
		oldest := g.Oldest
		if oldest.IsZero() {
			oldest = g.Version
		}
		w.groups[i] = group{
			inTopology: !g.Absent, exists: !g.Version.IsZero(), deleting: g.Deleting, version: m.rung(g.Version), oldest: m.rung(oldest), deferred: g.Defer, held: g.Hold,
			short: g.Short, starved: g.Short,
		}
	}
	if !m.ControlPlane.IsZero() {
		at := m.rung(m.ControlPlane)
		w.begun, w.cp = true, controlPlane{exists: true, initialized: true, spec: at, status: at, stamp: m.rung(m.Stamp)}
		if !m.Moving.IsZero() {
			w.cp.status = m.rung(m.Moving)
		}
	}
	m.write(&w, m.Recorded)
	w.ledger = w.inferLedger()
	return w
}

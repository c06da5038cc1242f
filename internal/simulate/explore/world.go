package explore

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/windlass-dev/windlass/internal/chain"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// world is all that there is at one moment. It is a value, and two worlds that are == are the same.
type world struct {
	// What people want.
	target                                rung
	source                                uint8
	sourceDown, paused, deleting, blocker bool
	// What is recorded on the Cluster.
	pending hooks
	intent  intent
	// chainTarget and chainAt are recorded together; chainAt is 0 when it is not known.
	chainTarget, chainAt rung
	// stepTo is the last step of the control plane that is recorded with them, and lacked are the
	// groups that lacked machines when BeforeWorkersUpgrade passed for it.
	stepTo, insteadOf rung
	lacked            members
	upgradeStep       rung
	// edited says that the Cluster's spec has changed since chainTarget was recorded.
	edited     bool
	okToDelete bool
	// The objects. begun says that one exists.
	begun  bool
	cp     controlPlane
	groups [MaxGroups]group
	// stock says that Cluster API's own engine is in charge.
	stock bool
	// answer is what the engine remembers of the last hook.
	answer answer

	ledger ledger
	// faults is what is left of the budgets.
	faults Faults
}

type intent struct {
	from, to rung
	// aged says that it does not count any more: it was announced too long ago or, if ahead, by a clock
	// that was set back since.
	workers, aged, ahead bool
}

func (i intent) passed() time.Time {
	switch {
	case i.ahead:
		return ahead
	case i.aged:
		return longAgo
	}
	return epoch
}

type controlPlane struct {
	exists, initialized bool
	spec, status, stamp rung
	// prior is the version of the step in whose place the last one was taken; 0 for none.
	prior rung
	// joined says that a machine of spec, or of prior, has joined.
	joined bool
	// lags says that the engine reads it as it was before its last step.
	lags bool
}

// asRead is what the engine reads.
func (c controlPlane) asRead() controlPlane {
	if !c.lags {
		return c
	}
	c.spec = cmp.Or(c.prior, c.status)
	if c.stamp != 0 {
		c.stamp = c.spec
	}
	return c
}

func (c controlPlane) upgrading() bool { return c.status != 0 && c.status != c.spec }

// unjoined reports whether the step can be taken back.
func (m *model) unjoined(c controlPlane) bool {
	return len(m.Broken) > 0 && c.upgrading() && !c.joined
}

func (m *model) broken(v rung) bool { return slices.Contains(m.Broken, m.version(v)) }

func (c controlPlane) stable() bool { return c.exists && c.status == c.spec }

type group struct {
	inTopology, exists, deleting, deferred, held bool
	version, oldest                              rung
	// lags: the engine reads the group as it was before it began to move. short: a machine is missing.
	// starved: it does not come, whether the group moves or not.
	lags, short, starved bool
}

func (g group) counts() bool    { return g.inTopology && g.exists && !g.deleting }
func (g group) upgrading() bool { return g.counts() && g.version != g.oldest }

// joins reports whether machines of a group that is not on its way could join the control plane.
func (w *world) joins(i int) bool {
	g := w.groups[i]
	return g.exists && g.version == g.oldest && g.version == w.cp.spec
}

// leaving reports whether there are machines of a group that the topology does not have.
func (g group) leaving() bool { return g.exists && !g.inTopology }

// answer is that of a hook which did not let the Cluster pass.
type answer struct {
	hook   hook
	step   rung
	failed bool
	// ahead says that the clock was set back since.
	ahead bool
}

// hook stands for a chain.Hook; 0 for none.
type hook uint8

const (
	beforeCreate hook = iota + 1
	afterInitialized
	beforeCluster
	beforeControlPlane
	afterControlPlane
	beforeWorkers
	afterWorkers
	afterCluster
	beforeDelete
)

var hookNames = [...]chain.Hook{
	beforeCreate: chain.BeforeClusterCreate, afterInitialized: chain.AfterControlPlaneInitialized, beforeCluster: chain.BeforeClusterUpgrade,
	beforeControlPlane: chain.BeforeControlPlaneUpgrade, afterControlPlane: chain.AfterControlPlaneUpgrade, beforeWorkers: chain.BeforeWorkersUpgrade,
	afterWorkers: chain.AfterWorkersUpgrade, afterCluster: chain.AfterClusterUpgrade, beforeDelete: chain.BeforeClusterDelete,
}

func (h hook) String() string { return string(hookNames[h]) }

func hookOf(name chain.Hook) hook { return hook(max(0, slices.Index(hookNames[:], name))) } //nolint:gosec // a table of ten

// hooks is a set of them.
type hooks uint16

func (s hooks) has(h hook) bool { return s&(1<<h) != 0 }
func (s hooks) with(list ...hook) hooks {
	for _, h := range list {
		s |= 1 << h
	}
	return s
}
func (s hooks) without(h hook) hooks { return s &^ (1 << h) }

func (s hooks) pending() chain.Pending {
	if s == 0 {
		return nil
	}
	var list chain.Pending
	for h := range hook(len(hookNames)) {
		if s.has(h) {
			list = append(list, hookNames[h])
		}
	}
	slices.Sort(list)
	return list
}

// later is a moment at which an answer no longer holds.
const later = time.Minute

// recordedGeneration stands for the Cluster's generation when the target was recorded.
const recordedGeneration = 1

// generation is the Cluster's: only whether it has changed since the record of the target counts.
func (w *world) generation() int64 {
	if w.edited {
		return recordedGeneration + 1
	}
	return recordedGeneration
}

// edit says that somebody changes the Cluster's spec.
func (w *world) edit() { w.edited = w.chainTarget != 0 }

// proven reports whether this engine can know that the recorded target is that of the upgrade under way.
func (w *world) proven() bool {
	cp := w.cp.asRead()
	return w.chainTarget != 0 && (!w.edited || cp.stamp == cp.spec || w.chainAt == cp.spec)
}

// read is what the engine reads of the world.
func (m *model) read(w *world) (chain.State, chain.Recorded) {
	r := chain.Recorded{Pending: w.pending.pending(), OKToDelete: w.okToDelete, UpgradeStep: m.version(w.upgradeStep)}
	if w.intent.to != 0 {
		r.Intent = &chain.Intent{From: m.version(w.intent.from), To: m.version(w.intent.to), Workers: w.intent.workers, Passed: w.intent.passed()}
	}
	if w.chainTarget != 0 {
		r.Chain = &chain.Progress{At: m.version(w.chainAt), Target: m.version(w.chainTarget), Generation: recordedGeneration}
		if w.stepTo != 0 {
			r.Chain.Steps = []chain.Step{{
				To: m.version(w.stepTo), InsteadOf: m.version(w.insteadOf), Lacked: m.lackedOf(w.lacked),
			}}
		}
	}
	cp := w.cp.asRead()
	s := chain.State{
		Target: m.version(w.target), Generation: w.generation(), Begun: w.begun, Paused: w.paused, Deleting: w.deleting, Initialized: cp.initialized,
		ControlPlane: chain.ControlPlane{
			Exists: cp.exists, Provisioned: cp.status != 0, Version: m.version(cp.spec), Upgrading: cp.upgrading(), Stamp: m.version(cp.stamp),
			Unjoined: m.unjoined(cp),
		},
		Source: m.source(w), Skew: m.Skew, Concurrency: m.Concurrency,
	}
	if cp.upgrading() {
		s.ControlPlane.Running = m.version(cp.status)
	}
	s.Groups, s.Leaving = m.readGroups(w)
	switch {
	case w.sourceDown:
		s.SourceProblem = "the extension does not answer"
	case m.Asked:
		m.ask(&s)
	}
	if w.blocker {
		s.Blockers = []string{"before-upgrade.hook.cluster.cluster.x-k8s.io/somebody"}
	}
	if w.answer.hook != 0 {
		given := epoch
		if w.answer.ahead {
			given = ahead
		}
		s.Answers = []chain.Answer{{
			Hook: hookNames[w.answer.hook], Step: m.version(w.answer.step), Failed: w.answer.failed, Message: "not now",
			Since: given, Given: given, Until: given.Add(later),
		}}
	}
	return s.With(r), r
}

// ask replaces the source by what an extension answers for the way from the control plane's version, and for that
// from what it runs, if it counts.
func (m *model) ask(s *chain.State) {
	listed := s.Source
	from := func(at version.Version) (plan.Source, error) {
		inventory := plan.Inventory{ControlPlane: at}
		for _, g := range s.Groups {
			if g.Exists && !g.Deleting {
				inventory.Groups = append(inventory.Groups, plan.Group{Name: g.Name, Kind: g.Kind, Version: g.Oldest})
			}
		}
		p, err := plan.Compute(plan.Request{Inventory: inventory, Target: s.Target, Source: listed, Policy: plan.Policy{Skew: m.Skew}})
		response := plan.Response{ControlPlane: p.ControlPlane}
		if list, ok := listed.(plan.VersionList); ok {
			response.Offered = list
		}
		return response, err
	}
	onward, err := from(s.ControlPlane.Version)
	if s.Source = onward; err != nil {
		s.Source, s.SourceProblem = nil, "there is no way"
	}
	if s.NeedsBack() {
		back, err := from(s.ControlPlane.Running)
		if s.Back = back; err != nil {
			s.Back, s.BackProblem = nil, "there is no way"
		}
	}
}

// readGroups returns the groups of the topology, and those that are leaving.
func (m *model) readGroups(w *world) (groups, leaving []chain.Group) {
	groups = make([]chain.Group, 0, len(m.Groups))
	for i := range m.Groups {
		g, c := &w.groups[i], &m.Groups[i]
		read := chain.Group{Name: c.Name, Kind: c.Kind, Exists: g.exists, Deleting: g.deleting, Defer: g.deferred, Hold: g.held, MaxMinorStep: c.MaxMinorStep}
		if g.exists {
			read.Version, read.Oldest, read.Upgrading = m.version(g.version), m.version(g.oldest), g.version != g.oldest
			if g.short {
				read.Missing = 1
			}
		}
		if g.lags {
			read.Version, read.Upgrading = read.Oldest, false
		}
		switch {
		case g.inTopology:
			groups = append(groups, read)
		case g.exists:
			leaving = append(leaving, read)
		}
	}
	return groups, leaving
}

// group finds a group of the topology by its name.
func (m *model) group(name string) int {
	return slices.IndexFunc(m.Groups, func(g Group) bool { return g.Name == name })
}

func (m *model) older(a, b rung) bool {
	return version.Compare(m.version(a), m.version(b)) == version.Less
}

// lag is how many minors from is behind to; ok is false where it is ahead, or of another major.
func (m *model) lag(from, to rung) (minors uint32, ok bool) {
	return m.version(from).Minor().Lag(m.version(to).Minor())
}

// format is fmt.Sprintf, with versions in the place of rungs.
func (m *model) format(text string, args ...any) string {
	for i, arg := range args {
		if at, ok := arg.(rung); ok {
			args[i] = m.version(at)
		}
	}
	return fmt.Sprintf(text, args...)
}

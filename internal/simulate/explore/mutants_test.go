package explore_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/windlass-dev/windlass/internal/chain"
	"github.com/windlass-dev/windlass/internal/simulate/explore"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// mutant is an engine that is broken in one way, where the fault shows, and what the exploration says about it.
type mutant struct {
	// see changes what the decider sees, decide what it decides.
	see    func(*chain.State)
	decide func(chain.State, *chain.Decision)
	// carry takes the place of the engine, effects changes what the engine acts on.
	carry   func(context.Context, chain.State, chain.Recorded, chain.Decision, time.Time, chain.Effects) (chain.Outcome, error)
	effects func(chain.Effects) chain.Effects
	config  explore.Config
	want    string
}

func (m mutant) engine() explore.Engine {
	return explore.Engine{
		Decide: func(s chain.State, now time.Time) chain.Decision {
			seen := s
			seen.Groups, seen.Pending = slices.Clone(s.Groups), slices.Clone(s.Pending)
			if m.see != nil {
				m.see(&seen)
			}
			d := chain.Decide(seen, now)
			if m.decide != nil {
				m.decide(s, &d)
			}
			return d
		},
		Carry: func(ctx context.Context, s chain.State, r chain.Recorded, d chain.Decision, now time.Time, e chain.Effects) (chain.Outcome, error) {
			if m.effects != nil {
				e = m.effects(e)
			}
			if m.carry != nil {
				return m.carry(ctx, s, r, d, now, e)
			}
			return chain.Execute(ctx, s, r, d, now, e)
		},
	}
}

// deaf hears every hook let it pass.
type deaf struct {
	chain.Effects
	blocks, failures bool
}

func (d deaf) Call(ctx context.Context, call chain.CallHook, decision chain.Decision) (chain.Reply, error) {
	reply, err := d.Effects.Call(ctx, call, decision)
	if err != nil && d.failures {
		return chain.Reply{}, nil
	}
	if d.blocks {
		reply.RetryAfter = 0
	}
	return reply, err
}

// careless takes every record for written.
type careless struct{ chain.Effects }

func (c careless) Record(ctx context.Context, recorded chain.Recorded) error {
	if slices.Contains(recorded.Pending, chain.AfterControlPlaneUpgrade) && recorded.Intent == nil {
		recorded.Pending = slices.DeleteFunc(slices.Clone(recorded.Pending), func(h chain.Hook) bool { return h == chain.AfterControlPlaneUpgrade })
	}
	return c.Effects.Record(ctx, recorded)
}

// stepless records no upgrade step.
type stepless struct{ chain.Effects }

func (s stepless) Record(ctx context.Context, recorded chain.Recorded) error {
	recorded.UpgradeStep = version.Version{}
	return s.Effects.Record(ctx, recorded)
}

// hasty records what follows an effect before the effect.
func hasty(ctx context.Context, s chain.State, r chain.Recorded, d chain.Decision, now time.Time, e chain.Effects) (chain.Outcome, error) {
	raise, ok := d.Action.(chain.RaiseControlPlane)
	if !ok {
		return chain.Execute(ctx, s, r, d, now, e)
	}
	if err := e.Record(ctx, raise.Then.Apply(r, raise.To, now)); err != nil {
		return chain.Outcome{}, fmt.Errorf("recording: %w", err)
	}
	return chain.Outcome{}, e.Apply(ctx, d.Objects, raise.To)
}

func without(list chain.Pending, h chain.Hook) chain.Pending {
	return slices.DeleteFunc(slices.Clone(list), func(other chain.Hook) bool { return other == h })
}

// editRecord changes what goes with an action.
func editRecord(d *chain.Decision, edit func(*chain.Record)) {
	switch a := d.Action.(type) {
	case chain.CallHook:
		edit(&a.Then)
		d.Action = a
	case chain.RaiseControlPlane:
		edit(&a.Then)
		d.Action = a
	case chain.Note:
		edit(&a.Record)
		d.Action = a
	}
}

func mutants() map[string]mutant {
	plain := chainOf(2, explore.Faults{}, md("a", 30))
	long := chainOf(4, explore.Faults{}, md("a", 30))
	cuts := chainOf(2, explore.Faults{Cuts: 1}, md("a", 30))
	answers := chainOf(1, explore.Faults{Answers: 1}, md("a", 30))
	two := chainOf(1, explore.Faults{}, md("a", 30), md("b", 30))
	pool := chainOf(1, explore.Faults{}, md("a", 30), mp("p", 30))
	held := chainOf(1, explore.Faults{}, explore.Group{Name: "a", Kind: plan.MachineDeployment, Version: v(30), Hold: true}, md("b", 30))
	deferred := chainOf(1, explore.Faults{}, explore.Group{Name: "a", Kind: plan.MachineDeployment, Version: v(30), Defer: true})
	swaps := chainOf(2, explore.Faults{Swaps: 2, Cuts: 1, Answers: 1}, md("a", 30))
	newGroup := chainOf(1, explore.Faults{}, md("a", 30), explore.Group{Name: "b", Kind: plan.MachineDeployment})
	creation := chainOf(1, explore.Faults{Answers: 1}, explore.Group{Name: "a", Kind: plan.MachineDeployment})
	creation.ControlPlane = version.Version{}
	retarget := chainOf(2, explore.Faults{Retargets: 1}, md("a", 30))
	retarget.Retargets = []version.Version{v(31)}
	farther := chainOf(2, explore.Faults{Retargets: 1, Blockers: 1}, md("a", 30))
	farther.Target, farther.Retargets = v(31), []version.Version{v(32)}
	leaves := chainOf(4, explore.Faults{Groups: 1}, md("a", 30))
	leaves.Skew = version.KubernetesSkew()
	gates := explorations()["another engine, and gates"]
	back := explorations()["another engine, there and back"]
	scarce := chainOf(1, explore.Faults{}, explore.Group{Name: "a", Kind: plan.MachineDeployment, Version: v(30), Short: true})
	lax := version.SkewPolicy{Name: "lax", Rules: []version.SkewRule{{MaxLag: 9}}}
	return map[string]mutant{
		"skips skew":                {see: func(s *chain.State) { s.Skew = lax }, config: long, want: "version skew"},
		"skips minors":              {decide: jump, config: plain, want: "at once"},
		"drops the intent":          {decide: func(_ chain.State, d *chain.Decision) { editRecord(d, func(r *chain.Record) { r.Intent = nil }) }, config: plain, want: "is stuck"},
		"needs no intent":           {see: invent, config: plain, want: "BeforeControlPlaneUpgrade did not let it pass"},
		"keeps the intent":          {decide: func(_ chain.State, d *chain.Decision) { editRecord(d, func(r *chain.Record) { r.ClearIntent = false }) }, config: plain, want: "is stuck"},
		"forgets AfterWorkers":      {see: func(s *chain.State) { s.Pending = without(s.Pending, chain.AfterWorkersUpgrade) }, config: plain, want: "BeforeWorkersUpgrade is to be called again"},
		"forgets to announce":       {decide: silent, config: plain, want: "to be called again"},
		"forgets AfterControlPlane": {effects: func(e chain.Effects) chain.Effects { return careless{e} }, config: plain, want: "before the last step is over"},
		"raises twice":              {see: func(s *chain.State) { s.ControlPlane.Upgrading = false }, config: plain, want: "the control plane is not just there"},
		"does not wait for machines": {
			see: func(s *chain.State) {
				for i := range s.Groups {
					s.Groups[i].Upgrading, s.Groups[i].Oldest = false, s.Groups[i].Version
				}
			}, config: plain, want: "while a moves",
		},
		"ignores hold":             {see: func(s *chain.State) { edit(s, func(g *chain.Group) { g.Hold = false }) }, config: held, want: "holds the sequence"},
		"ignores defer":            {see: func(s *chain.State) { edit(s, func(g *chain.Group) { g.Defer = false }) }, config: deferred, want: "though it is deferred"},
		"ignores concurrency":      {see: func(s *chain.State) { s.Concurrency = 9 }, config: two, want: "2 of its kind move"},
		"ignores the order":        {see: func(s *chain.State) { slices.Reverse(s.Groups) }, config: two, want: "after groups that follow it"},
		"moves pools at once":      {decide: rush, config: pool, want: "while a moves"},
		"ignores pauses":           {see: func(s *chain.State) { s.Paused = false }, config: chainOf(1, explore.Faults{Pauses: 1}, md("a", 30)), want: "paused"},
		"ignores deletion":         {see: func(s *chain.State) { s.Deleting = false }, config: chainOf(1, explore.Faults{Deletions: 1}, md("a", 30)), want: "goes"},
		"ignores annotations":      {see: func(s *chain.State) { s.Blockers = nil }, config: chainOf(1, explore.Faults{Blockers: 1}, md("a", 30)), want: "an annotation blocks the upgrade"},
		"hears no block":           {effects: func(e chain.Effects) chain.Effects { return deaf{Effects: e, blocks: true} }, config: answers, want: "did not let"},
		"hears no failure":         {effects: func(e chain.Effects) chain.Effects { return deaf{Effects: e, failures: true} }, config: answers, want: "did not let"},
		"records before it acts":   {carry: hasty, config: plain, want: "to be called again for a step for which it is completed"},
		"does not come back":       {carry: leave, config: answers, want: "nobody comes back"},
		"reads no stamp":           {see: func(s *chain.State) { s.ControlPlane.Stamp = version.Version{} }, config: cuts, want: "before the last step is over"},
		"reads no upgrade step":    {see: func(s *chain.State) { s.UpgradeStep = version.Version{} }, config: swaps, want: "to be called again"},
		"reads no pending upgrade": {see: func(s *chain.State) { s.Pending = without(s.Pending, chain.AfterClusterUpgrade) }, config: plain, want: "in the middle of an upgrade"},
		"ends too early":           {see: func(s *chain.State) { s.Groups = nil }, config: plain, want: "a is not at"},
		"never ends": {decide: func(_ chain.State, d *chain.Decision) {
			editRecord(d, func(r *chain.Record) { r.Remove = without(r.Remove, chain.AfterClusterUpgrade) })
		}, config: plain, want: "is stuck"},
		"forgets the upgrade step": {effects: func(e chain.Effects) chain.Effects { return stepless{e} }, config: plain, want: "the upgrade step is"},
		"wavers":                   {decide: waver, config: plain, want: "does not end"},
		"is stuck":                 {decide: still, config: plain, want: "is stuck"},
		"cancels steps of workers": {decide: cancel, config: plain, want: "the target, is cancelled"},
		"creates groups at once":   {decide: func(s chain.State, d *chain.Decision) { release(s, d, false) }, config: newGroup, want: "while the control plane changes"},
		"writes what waits":        {decide: func(s chain.State, d *chain.Decision) { release(s, d, true) }, config: plain, want: "is written to"},
		"creates unasked":          {see: func(s *chain.State) { s.Begun = true }, config: creation, want: "BeforeClusterCreate did not let it pass"},
		"takes steps of long ago":  {see: func(s *chain.State) { renew(s) }, config: plain, want: "before that is recorded"},
		"asks about no new target": {see: assume, config: farther, want: "BeforeClusterUpgrade has let the upgrade go to v1.31.0"},
		"forgets leaving machines": {see: func(s *chain.State) { s.Leaving = nil }, config: leaves, want: "version skew"},
		"forgets deleted machines": {see: func(s *chain.State) {
			s.Groups = slices.DeleteFunc(s.Groups, func(g chain.Group) bool { return g.Deleting })
		}, config: leaves, want: "version skew"},
		"believes late reads":                  {see: func(s *chain.State) { s.UpgradeStep = version.Version{} }, config: chainOf(1, explore.Faults{Lags: 1}, md("a", 30)), want: "the control plane is not just there"},
		"writes on late reads":                 {decide: insist, config: chainOf(1, explore.Faults{Lags: 1}, md("a", 30)), want: "the upgrade step is v1.30.0"},
		"misses no machines":                   {see: func(s *chain.State) { edit(s, func(g *chain.Group) { g.Missing = 0 }) }, config: chainOf(1, explore.Faults{Shortages: 1}, md("a", 30)), want: "while a lacks machines"},
		"takes an unknown target for approved": {decide: trust, config: gates, want: "the upgrade continues to v1.32.0, and BeforeClusterUpgrade did not let it pass"},
		"goes on to an unknown target":         {see: suppose, config: gates, want: "BeforeClusterUpgrade has let the upgrade go to v1.31.0"},
		"asks before the last upgrade ends":    {decide: hurry, config: gates, want: "BeforeClusterUpgrade is called for v1.32.0, and AfterClusterUpgrade for the upgrade to v1.31.0 has not passed"},
		"takes the record of an upgrade for that of the next": {
			see: func(s *chain.State) { s.ChainGeneration = s.Generation }, config: back, want: "BeforeClusterUpgrade has let the upgrade go to v1.32.0",
		},
		"forgets what was lacking": {see: func(s *chain.State) { s.Lacked = nil }, config: scarce, want: "is stuck for the reason WorkersShort"},
		"takes what an earlier step lacked for what this one did": {
			see: func(s *chain.State) { s.LackedAt = s.ControlPlane.Version }, config: explorations()["shortages, and another engine"], want: "while a lacks machines",
		},
		"takes back a step that a machine has joined": {see: func(s *chain.State) {
			s.ControlPlane.Unjoined = s.ControlPlane.Upgrading
		}, config: explorations()["a step that is taken back"], want: "before the last step is over"},
		"takes nothing back": {see: func(s *chain.State) {
			s.ControlPlane.Unjoined = false
		}, config: explorations()["a version without an image"], want: "is stuck for the reason"},
		"forgets what was taken back": {see: func(s *chain.State) {
			s.TakenBack = version.Version{}
		}, config: explorations()["a version without an image, in a list"], want: "the upgrade step is"},
		"asks an extension for no way back": {see: func(s *chain.State) {
			s.Back, s.BackProblem = nil, ""
		}, config: explorations()["a version without an image, and an extension"], want: "is stuck for the reason"},
		"lets any shortage hold":  {decide: holdForAny, config: scarce, want: "is stuck for the reason WorkersShort"},
		"keeps to the old target": {see: func(s *chain.State) { s.Target = v(32) }, config: retarget, want: "is called for v1.32.0"},
	}
}

func edit(s *chain.State, change func(*chain.Group)) {
	for i := range s.Groups {
		change(&s.Groups[i])
	}
}

func jump(s chain.State, d *chain.Decision) {
	if _, raises := d.Action.(chain.RaiseControlPlane); raises {
		d.Objects.ControlPlane.Version = s.Target
	}
}

// waver announces the next step otherwise each time.
func waver(s chain.State, d *chain.Decision) {
	if i := s.Intent; i != nil {
		d.Action = chain.Note{Record: chain.Record{Intent: &chain.Intent{From: i.From, To: i.To, Workers: !i.Workers, Passed: i.Passed}}}
		d.Objects.ControlPlane = chain.Object{Version: i.From, Hold: true}
	}
}

// assume takes any target for one that was asked about.
func assume(s *chain.State) {
	if !s.ChainTarget.IsZero() {
		s.ChainTarget = s.Target
	}
}

// insist keeps up what is there where all is to be left alone.
func insist(s chain.State, d *chain.Decision) {
	if d.Objects.Leave && s.ControlPlane.Exists && !s.Paused && !s.Deleting {
		d.Objects.Leave = false
	}
}

// renew takes an announced step for one of now.
func renew(s *chain.State) {
	if s.Intent != nil {
		fresh := *s.Intent
		fresh.Passed = epoch
		s.Intent = &fresh
	}
}

// trust goes on to the target where another engine has begun the upgrade and recorded none, as if
// BeforeClusterUpgrade had passed for it.
func trust(s chain.State, d *chain.Decision) {
	if !s.Pending.Has(chain.AfterClusterUpgrade) || !s.ChainTarget.IsZero() || s.ControlPlane.Version == s.Target {
		return
	}
	call, calls := d.Action.(chain.CallHook)
	begins := calls && (call.Hook == chain.BeforeClusterUpgrade || call.Hook == chain.AfterClusterUpgrade)
	if begins || d.Reason == chain.BlockedByAnnotation {
		d.Action = chain.Note{Record: chain.Record{ChainTarget: s.Target, ChainGeneration: s.Generation}}
	}
}

// suppose reads the present target as approved where none is recorded, and records nothing of that.
func suppose(s *chain.State) {
	if s.Pending.Has(chain.AfterClusterUpgrade) && s.ChainTarget.IsZero() {
		s.ChainTarget, s.ChainGeneration = s.Target, s.Generation
	}
}

// hurry asks for the next upgrade before the last one has ended.
func hurry(s chain.State, d *chain.Decision) {
	call, calls := d.Action.(chain.CallHook)
	if calls && call.Hook == chain.AfterClusterUpgrade && s.ControlPlane.Version != s.Target && len(s.Blockers) == 0 {
		d.Action = chain.CallHook{Hook: chain.BeforeClusterUpgrade, Step: s.Target, Then: chain.Record{ChainTarget: s.Target, ChainGeneration: s.Generation}}
	}
}

// holdForAny waits for the machines of every group at the control plane's version, also of one that
// lacked them before the upgrade.
func holdForAny(s chain.State, d *chain.Decision) {
	call, calls := d.Action.(chain.CallHook)
	begins := calls && (call.Hook == chain.BeforeClusterUpgrade || call.Hook == chain.BeforeControlPlaneUpgrade)
	short := slices.ContainsFunc(s.Groups, func(g chain.Group) bool { return g.Missing > 0 && g.Version == s.ControlPlane.Version })
	if begins && short {
		d.Action, d.Reason = chain.Wait{}, chain.WorkersShort
	}
}

// invent pretends that the next step is announced.
func invent(s *chain.State) {
	if s.Intent == nil && s.ControlPlane.Version != s.Target {
		s.Intent = &chain.Intent{From: s.ControlPlane.Version, To: v(int(s.ControlPlane.Version.Minor().Minor) + 1), Passed: epoch}
	}
}

// silent announces no workers step with the control plane's.
func silent(_ chain.State, d *chain.Decision) {
	if _, raises := d.Action.(chain.RaiseControlPlane); raises {
		editRecord(d, func(r *chain.Record) {
			r.Add = slices.DeleteFunc(slices.Clone(r.Add), func(h chain.Hook) bool { return h == chain.AfterWorkersUpgrade })
		})
	}
}

// rush sends pools on with the rest.
func rush(_ chain.State, d *chain.Decision) {
	if raise, ok := d.Action.(chain.RaiseWorkers); ok {
		for i := range d.Objects.Groups {
			d.Objects.Groups[i].Version, d.Objects.Groups[i].Hold = raise.To, false
		}
	}
}

func leave(ctx context.Context, s chain.State, r chain.Recorded, d chain.Decision, now time.Time, e chain.Effects) (chain.Outcome, error) {
	outcome, err := chain.Execute(ctx, s, r, d, now, e)
	outcome.RequeueAfter = 0
	return outcome, err
}

func still(_ chain.State, d *chain.Decision) {
	if _, moves := d.Action.(chain.RaiseWorkers); moves {
		d.Action = chain.Wait{}
		d.Objects = chain.Objects{Leave: true}
	}
}

// release takes Hold from groups: from those that exist, or from those that do not.
// cancel takes every step of workers for one that the plan does not have any more.
func cancel(_ chain.State, d *chain.Decision) {
	if call, ok := d.Action.(chain.CallHook); ok && call.Hook == chain.BeforeWorkersUpgrade {
		d.Action = chain.Note{Record: chain.Record{
			Remove: []chain.Hook{chain.BeforeWorkersUpgrade, chain.AfterWorkersUpgrade},
		}}
	}
}

func release(s chain.State, d *chain.Decision, exist bool) {
	for i := range d.Objects.Groups {
		if s.Groups[i].Exists == exist {
			d.Objects.Groups[i].Hold = false
		}
	}
}

// TestMutants breaks the decider and the engine on purpose: each fault must be found, or the exploration proves nothing.
func TestMutants(t *testing.T) {
	t.Parallel()
	for name, m := range mutants() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m.config.Engine = m.engine()
			report, err := explore.Explore(t.Context(), m.config, 20_000)
			switch {
			case err != nil:
				t.Fatal(err)
			case report.Violation == nil:
				t.Fatalf("the fault is not found in %d states", report.States)
			case !strings.Contains(report.Violation.Problem, m.want):
				t.Errorf("want %q, got\n%s", m.want, report.Violation)
			}
			t.Logf("found in %d states:\n%s", report.States, report.Violation)
		})
	}
}

// TestStudiesFindTrust explores what windlass verify does with an engine that believes in targets
// which nobody let pass, and with one that takes the record of an upgrade for that of the next.
func TestStudiesFindTrust(t *testing.T) {
	t.Parallel()
	c := chainOf(2, explore.Faults{}, md("a", 30))
	c.Engine = mutant{decide: trust}.engine()
	for _, study := range explore.Studies(c, []version.Version{v(31), v(32)}) {
		report, err := explore.Explore(t.Context(), study.Config, 50_000)
		if err != nil {
			t.Fatal(err)
		}
		if found := report.Violation != nil; found != (study.Name == "takeovers") {
			t.Errorf("study %s: %v", study.Name, report.Violation)
		}
	}
}

// TestBlockedTakeover goes to where another engine has finished an upgrade, a before-upgrade
// annotation is set and the target is raised. A control plane step violates three invariants there.
func TestBlockedTakeover(t *testing.T) {
	t.Parallel()
	c := explorations()["another engine, and gates"]
	c.Engine = mutant{see: suppose}.engine()
	w, err := explore.New(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{
		"own engine takes over", "control plane goes to v1.31.0", "control plane is at v1.31.0", "a goes to v1.31.0", "a is at v1.31.0",
		"AfterClusterUpgrade v1.31.0 blocks", "Windlass takes over", "annotation is set", "target becomes v1.32.0", "BeforeControlPlaneUpgrade v1.32.0 passes",
	} {
		if _, err := w.Do(what); err != nil {
			t.Fatal(err)
		}
	}
	_, err = w.Do("the control plane goes to v1.32.0")
	for _, want := range []string{
		"an annotation blocks the upgrade", "AfterClusterUpgrade for the upgrade to v1.31.0 has not passed", "BeforeClusterUpgrade has let the upgrade go to v1.31.0",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

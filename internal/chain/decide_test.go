package chain_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/internal/chain"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func v(minor int) version.Version { return version.MustParse(fmt.Sprintf("v1.%d.0", minor)) }

// at is a Cluster at v1.30 with one MachineDeployment and one MachinePool, all at rest, on its way to a minor.
func at(target int, edits ...func(*chain.State)) chain.State {
	var list plan.VersionList
	for minor := 30; minor <= target; minor++ {
		list = append(list, v(minor))
	}
	s := chain.State{
		Target: v(target), Begun: true, Initialized: true, Source: list,
		ControlPlane: chain.ControlPlane{Exists: true, Provisioned: true, Version: v(30), Stamp: v(30)},
		Groups:       []chain.Group{group("a", plan.MachineDeployment), group("p", plan.MachinePool)},
	}
	for _, edit := range edits {
		edit(&s)
	}
	return s
}

func group(name string, kind plan.GroupKind) chain.Group {
	return chain.Group{Name: name, Kind: kind, Exists: true, Version: v(30), Oldest: v(30)}
}

func pending(hooks ...chain.Hook) func(*chain.State) {
	return func(s *chain.State) { s.Pending = hooks }
}

// begun is an upgrade to the target that has begun.
func begun(s *chain.State) {
	s.Pending, s.ChainTarget = chain.Pending{chain.AfterClusterUpgrade}, s.Target
}

// raised is a control plane that has reached the next minor, while the groups stay.
func raised(s *chain.State) {
	begun(s)
	s.ControlPlane.Version, s.ControlPlane.Stamp = v(31), v(31)
}

// broken is a control plane on its way to a version without an image, and a target that leaves it out.
func broken(s *chain.State) {
	bad := parsed("v1.31.99")
	s.Target, s.ChainTarget, s.Source = parsed("v1.31.5"), parsed("v1.31.5"), plan.NextMinor{}
	s.ControlPlane.Version, s.ControlPlane.Stamp, s.UpgradeStep = bad, bad, bad
	s.ControlPlane.Upgrading, s.ControlPlane.Unjoined, s.ControlPlane.Running = true, true, v(30)
}

func TestDecide(t *testing.T) {
	t.Parallel()
	stepHooks := []chain.Hook{chain.AfterControlPlaneUpgrade, chain.BeforeWorkersUpgrade, chain.AfterWorkersUpgrade}
	intent := &chain.Intent{From: v(30), To: v(31), Workers: true, Passed: now}
	instead := &chain.Intent{From: parsed("v1.31.99"), To: parsed("v1.31.5"), Workers: true, Passed: now}
	ended := chain.Record{Remove: []chain.Hook{chain.AfterClusterUpgrade}, ClearChainTarget: true, ClearIntent: true}
	for name, tt := range map[string]struct {
		state  chain.State
		action chain.Action
		reason chain.Reason
	}{
		"everything is at the target": {at(30), chain.Wait{}, chain.UpToDate},
		"a pause comes before all":    {at(31, begun, func(s *chain.State) { s.Paused, s.Deleting = true, true }), chain.Wait{}, chain.Paused},
		"deletion asks first": {
			at(31, func(s *chain.State) { s.Deleting = true }), chain.CallHook{Hook: chain.BeforeClusterDelete, Then: chain.Record{OKToDelete: true}}, chain.HookDue,
		},
		"deletion is allowed": {at(31, func(s *chain.State) { s.Deleting, s.OKToDelete = true, true }), chain.Wait{}, chain.DeletingCluster},
		"creation asks first": {
			chain.State{Target: v(30)},
			chain.CallHook{Hook: chain.BeforeClusterCreate, Then: chain.Record{Add: []chain.Hook{chain.AfterControlPlaneInitialized}}}, chain.HookDue,
		},
		"creation": {chain.State{Target: v(30), Pending: chain.Pending{chain.AfterControlPlaneInitialized}}, chain.Create{}, chain.Creating},
		"creation that was interrupted after its first object": {chain.State{Target: v(30), Begun: true}, chain.Create{}, chain.Creating},
		"provisioning":                       {at(31, func(s *chain.State) { s.ControlPlane.Provisioned = false }), chain.Wait{}, chain.ControlPlaneProvisioning},
		"a hook of creation":                 {at(30, pending(chain.AfterControlPlaneInitialized)), chain.CallHook{Hook: chain.AfterControlPlaneInitialized, Then: chain.Record{Remove: []chain.Hook{chain.AfterControlPlaneInitialized}}}, chain.HookDue},
		"a hook of creation before its time": {at(30, pending(chain.AfterControlPlaneInitialized), func(s *chain.State) { s.Initialized = false }), chain.Wait{}, chain.UpToDate},
		"an upgrade begins": {
			at(31), chain.CallHook{Hook: chain.BeforeClusterUpgrade, Step: v(31), Then: chain.Record{Add: []chain.Hook{chain.AfterClusterUpgrade}, ChainTarget: v(31)}},
			chain.HookDue,
		},
		"an annotation blocks its begin": {at(31, func(s *chain.State) { s.Blockers = []string{"x"} }), chain.Wait{}, chain.BlockedByAnnotation},
		"an annotation comes too late":   {at(31, begun, func(s *chain.State) { s.Blockers = []string{"x"} }), chain.CallHook{Hook: chain.BeforeControlPlaneUpgrade, Step: v(31), Then: chain.Record{Intent: intent}}, chain.HookDue},
		"an announced step is taken":     {at(31, begun, func(s *chain.State) { s.Intent = intent }), chain.RaiseControlPlane{To: v(31), Then: chain.Record{Add: stepHooks, ClearIntent: true}}, chain.ControlPlaneStep},
		"an intent for another step is not taken": {
			at(31, begun, func(s *chain.State) { s.Intent = &chain.Intent{From: v(29), To: v(30)}; s.UpgradeStep = v(30) }),
			chain.Note{Record: chain.Record{ClearIntent: true}}, chain.Recording,
		},
		"a step that was taken and not recorded": {
			at(31, raised, func(s *chain.State) { s.Intent, s.UpgradeStep = intent, v(30) }), chain.Note{Record: chain.Record{Add: stepHooks, ClearIntent: true}}, chain.Recording,
		},
		"a step of workers that the plan does not have any more": {
			at(31, raised, pending(chain.AfterClusterUpgrade, chain.BeforeWorkersUpgrade, chain.AfterWorkersUpgrade), func(s *chain.State) {
				s.Target, s.ChainTarget, s.Source = v(32), v(32), plan.NextMinor{}
			}), chain.Note{Record: chain.Record{Remove: stepHooks[1:]}}, chain.Recording,
		},
		"a step of workers that one group is on": {
			at(31, raised, pending(chain.AfterClusterUpgrade, chain.BeforeWorkersUpgrade, chain.AfterWorkersUpgrade), func(s *chain.State) {
				s.Target, s.ChainTarget, s.Source = v(32), v(32), plan.NextMinor{}
				s.Groups[0].Version, s.Groups[0].Upgrading = v(31), true
			}), chain.CallHook{Hook: chain.BeforeWorkersUpgrade, Step: v(31), Then: chain.Record{Remove: stepHooks[1:2]}}, chain.HookDue,
		},
		"a step that another engine has recorded since": {
			at(31, raised, func(s *chain.State) { s.Intent, s.UpgradeStep = intent, v(31) }), chain.Note{Record: chain.Record{ClearIntent: true}}, chain.Recording,
		},
		"a step that another engine has taken": {
			at(31, raised, func(s *chain.State) { s.Intent, s.ControlPlane.Stamp = intent, version.Version{} }), chain.Note{Record: chain.Record{ClearIntent: true}}, chain.Recording,
		},
		"a step that nobody has recorded": {
			at(31, raised, func(s *chain.State) { s.ControlPlane.Upgrading, s.ControlPlane.Stamp = true, version.Version{} }),
			chain.Note{Record: chain.Record{Add: stepHooks, ClearIntent: true}}, chain.Recording,
		},
		"the control plane is on its way": {at(31, raised, pending(stepHooks...), func(s *chain.State) { s.ControlPlane.Upgrading = true }), chain.Wait{}, chain.ControlPlaneUpgrading},
		"a step that no machine has joined is taken back": {
			at(31, raised, pending(chain.AfterClusterUpgrade, chain.AfterControlPlaneUpgrade), broken),
			chain.CallHook{Hook: chain.BeforeControlPlaneUpgrade, Step: parsed("v1.31.5"), Then: chain.Record{Intent: instead}}, chain.HookDue,
		},
		"it is taken back once that is announced": {
			at(31, raised, pending(chain.AfterClusterUpgrade, chain.AfterControlPlaneUpgrade), broken, func(s *chain.State) { s.Intent = instead }),
			chain.RaiseControlPlane{To: parsed("v1.31.5"), Stamp: parsed("v1.31.99"), Then: chain.Record{
				Add: stepHooks, ClearIntent: true, InsteadOf: parsed("v1.31.99"),
			}}, chain.ControlPlaneStep,
		},
		"by an extension, the way from what runs counts": {
			at(31, raised, pending(chain.AfterClusterUpgrade, chain.AfterControlPlaneUpgrade), broken, func(s *chain.State) {
				s.Source, s.SourceProblem, s.Back = nil, "there is no way", plan.Response{ControlPlane: []version.Version{parsed("v1.31.5")}}
			}),
			chain.CallHook{Hook: chain.BeforeControlPlaneUpgrade, Step: parsed("v1.31.5"), Then: chain.Record{Intent: instead}}, chain.HookDue,
		},
		"an extension that is away takes nothing back": {
			at(31, raised, pending(chain.AfterClusterUpgrade, chain.AfterControlPlaneUpgrade), broken, func(s *chain.State) {
				s.Source, s.SourceProblem = nil, "the extension does not answer"
			}),
			chain.Wait{}, chain.ControlPlaneUpgrading,
		},
		"the way from the step's version is not one from what runs": {
			at(31, raised, pending(chain.AfterClusterUpgrade, chain.AfterControlPlaneUpgrade), broken, func(s *chain.State) {
				s.Source = plan.Response{ControlPlane: []version.Version{parsed("v1.31.5")}}
			}),
			chain.Wait{}, chain.ControlPlaneUpgrading,
		},
		"an extension without a way back": {
			at(31, raised, pending(chain.AfterClusterUpgrade, chain.AfterControlPlaneUpgrade), broken, func(s *chain.State) {
				s.Source, s.SourceProblem, s.BackProblem = nil, "there is no way", "there is none from there"
			}),
			chain.Wait{}, chain.NotTakenBack,
		},
		"a machine that may have joined": {
			at(31, raised, pending(chain.AfterClusterUpgrade, chain.AfterControlPlaneUpgrade), broken, func(s *chain.State) { s.JoinProblem = "Node cp-3 is nobody's" }),
			chain.Wait{}, chain.NotTakenBack,
		},
		"a machine that may have joined since the step back was announced": {
			at(31, raised, pending(chain.AfterClusterUpgrade, chain.AfterControlPlaneUpgrade), broken, func(s *chain.State) {
				s.Intent, s.JoinProblem = instead, "Node cp-3 is nobody's"
			}),
			chain.Wait{}, chain.NotTakenBack,
		},
		"a way back through the same version": {
			at(31, raised, pending(chain.AfterClusterUpgrade, chain.AfterControlPlaneUpgrade), broken, func(s *chain.State) {
				s.Source, s.SourceProblem, s.Target = nil, "there is no way", v(32)
				s.Back = plan.Response{ControlPlane: []version.Version{parsed("v1.31.99"), v(32)}}
			}),
			chain.Wait{}, chain.NotTakenBack,
		},
		"a step that a machine has joined is not": {
			at(31, raised, pending(chain.AfterClusterUpgrade, chain.AfterControlPlaneUpgrade), broken, func(s *chain.State) { s.ControlPlane.Unjoined = false }),
			chain.Wait{}, chain.ControlPlaneUpgrading,
		},
		"a step that was taken back is read late": {
			at(31, raised, pending(chain.AfterClusterUpgrade, chain.AfterControlPlaneUpgrade), broken, func(s *chain.State) {
				s.UpgradeStep, s.TakenBack = parsed("v1.31.5"), parsed("v1.31.99")
			}),
			chain.Wait{}, chain.ControlPlaneUpgrading,
		},
		"the first hook after a step": {
			at(31, raised, pending(stepHooks...)), chain.CallHook{Hook: chain.AfterControlPlaneUpgrade, Step: v(31), Then: chain.Record{Remove: stepHooks[:1]}}, chain.HookDue,
		},
		"the hook before workers": {
			at(31, raised, pending(stepHooks[1:]...)), chain.CallHook{Hook: chain.BeforeWorkersUpgrade, Step: v(31), Then: chain.Record{Remove: stepHooks[1:2]}}, chain.HookDue,
		},
		"workers move":  {at(31, raised, pending(chain.AfterClusterUpgrade, chain.AfterWorkersUpgrade)), chain.RaiseWorkers{To: v(31), Groups: []string{"a"}}, chain.WorkersStep},
		"a pool waits":  {at(31, raised, pending(chain.AfterWorkersUpgrade), moving), chain.Wait{}, chain.WorkersUpgrading},
		"a pool's turn": {at(31, raised, pending(chain.AfterWorkersUpgrade), moved), chain.RaiseWorkers{To: v(31), Groups: []string{"p"}}, chain.WorkersStep},
		"a pool is not passed over by a deferred group": {
			at(31, raised, pending(chain.AfterWorkersUpgrade), func(s *chain.State) { s.Groups[0].Defer = true }), chain.RaiseWorkers{To: v(31), Groups: []string{"p"}}, chain.WorkersStep,
		},
		"a held group holds pools":      {at(31, raised, pending(chain.AfterWorkersUpgrade), func(s *chain.State) { s.Groups[0].Hold = true }), chain.Wait{}, chain.WorkersDeferred},
		"workers that nobody announced": {at(31, raised), chain.Note{Record: chain.Record{Add: stepHooks[1:]}}, chain.Recording},
		"the hook after workers": {
			at(31, raised, allMoved, pending(chain.AfterWorkersUpgrade)), chain.CallHook{Hook: chain.AfterWorkersUpgrade, Step: v(31), Then: chain.Record{Remove: stepHooks[2:]}}, chain.HookDue,
		},
		"the end": {
			at(31, raised, allMoved),
			chain.CallHook{Hook: chain.AfterClusterUpgrade, Step: v(31), Then: chain.Record{Remove: []chain.Hook{chain.AfterClusterUpgrade}, ClearChainTarget: true, ClearIntent: true}},
			chain.HookDue,
		},
		"a new group before the end": {at(31, raised, allMoved, func(s *chain.State) { s.Groups = append(s.Groups, chain.Group{Name: "n", Kind: plan.MachinePool}) }), chain.Wait{}, chain.CreatingGroups},
		"another engine has ended it": {
			at(31, raised, allMoved, pending()), chain.Note{Record: chain.Record{ClearIntent: true, ClearChainTarget: true}}, chain.Recording,
		},
		"workers go on later where skew allows it": {
			at(33, raised), chain.CallHook{Hook: chain.BeforeControlPlaneUpgrade, Step: v(32), Then: chain.Record{Intent: &chain.Intent{From: v(31), To: v(32), Passed: now}}}, chain.HookDue,
		},
		"the target comes nearer in mid-chain": {
			at(32, raised, func(s *chain.State) { s.ChainTarget = v(33) }), chain.Note{Record: chain.Record{ChainTarget: v(32)}}, chain.Recording,
		},
		"who let the upgrade begin is asked about a farther target": {
			at(33, raised, func(s *chain.State) { s.ChainTarget = v(31); s.Groups = s.Groups[:1] }),
			chain.CallHook{Hook: chain.BeforeClusterUpgrade, Step: v(33), Then: chain.Record{ChainTarget: v(33)}}, chain.HookDue,
		},
		"an annotation holds a farther target": {
			at(33, raised, func(s *chain.State) { s.ChainTarget = v(31); s.Blockers = []string{"x"} }), chain.Wait{}, chain.BlockedByAnnotation,
		},
		"another engine's finished upgrade ends before the next begins": {
			at(33, raised, allMoved, foreign), chain.CallHook{Hook: chain.AfterClusterUpgrade, Step: v(31), Then: ended}, chain.HookDue,
		},
		"another engine's finished upgrade ends although an earlier target is recorded": {
			at(33, raised, allMoved, foreign, func(s *chain.State) { s.ChainTarget, s.ChainAt = v(30), v(29) }),
			chain.CallHook{Hook: chain.AfterClusterUpgrade, Step: v(31), Then: ended}, chain.HookDue,
		},
		"an annotation does not keep a finished upgrade from its end": {
			at(33, raised, allMoved, foreign, func(s *chain.State) { s.Blockers = []string{"x"} }),
			chain.CallHook{Hook: chain.AfterClusterUpgrade, Step: v(31), Then: ended}, chain.HookDue,
		},
		"the extensions are asked for a target that another engine did not record": {
			at(33, raised, foreign), chain.CallHook{Hook: chain.BeforeClusterUpgrade, Step: v(33), Then: chain.Record{ChainTarget: v(33)}}, chain.HookDue,
		},
		"an annotation holds a target that another engine did not record": {
			at(33, raised, foreign, func(s *chain.State) { s.Blockers = []string{"x"} }), chain.Wait{}, chain.BlockedByAnnotation,
		},
		"the record of an upgrade that another engine ended proves nothing": {
			at(33, raised, foreign, func(s *chain.State) { s.ChainTarget, s.ChainAt, s.ChainGeneration, s.Generation = v(33), v(30), 1, 4 }),
			chain.CallHook{Hook: chain.BeforeClusterUpgrade, Step: v(33), Then: chain.Record{ChainTarget: v(33), ChainGeneration: 4}}, chain.HookDue,
		},
		"another engine takes a step in mid-chain": {
			at(33, raised, func(s *chain.State) { s.ControlPlane.Stamp, s.ChainAt = version.Version{}, v(30) }),
			chain.CallHook{Hook: chain.BeforeControlPlaneUpgrade, Step: v(32), Then: chain.Record{Intent: &chain.Intent{From: v(31), To: v(32), Passed: now}}}, chain.HookDue,
		},
		"the Cluster is edited in mid-chain": {
			at(33, raised, func(s *chain.State) { s.ChainAt, s.ChainGeneration, s.Generation = v(30), 1, 4 }),
			chain.CallHook{Hook: chain.BeforeControlPlaneUpgrade, Step: v(32), Then: chain.Record{Intent: &chain.Intent{From: v(31), To: v(32), Passed: now}}}, chain.HookDue,
		},
		"an announced step grows old": {
			at(31, begun, func(s *chain.State) {
				s.Intent = &chain.Intent{From: v(30), To: v(31), Workers: true, Passed: now.Add(-time.Hour)}
			}),
			chain.CallHook{Hook: chain.BeforeControlPlaneUpgrade, Step: v(31), Then: chain.Record{Intent: intent}}, chain.HookDue,
		},
		"an announced step is of the future": {
			at(31, begun, func(s *chain.State) {
				s.Intent = &chain.Intent{From: v(30), To: v(31), Workers: true, Passed: now.Add(time.Second)}
			}),
			chain.CallHook{Hook: chain.BeforeControlPlaneUpgrade, Step: v(31), Then: chain.Record{Intent: intent}}, chain.HookDue,
		},
		"an answer is of the future": {
			at(31, begun, func(s *chain.State) {
				later := now.Add(12 * time.Hour)
				s.Answers = []chain.Answer{{
					Hook: chain.BeforeControlPlaneUpgrade, Step: v(31), Message: "no",
					Since: later, Given: later, Until: later.Add(time.Minute),
				}}
			}),
			chain.CallHook{Hook: chain.BeforeControlPlaneUpgrade, Step: v(31), Then: chain.Record{Intent: intent}}, chain.HookDue,
		},
		"the control plane is read too early": {
			at(32, begun, pending(chain.AfterClusterUpgrade, chain.AfterControlPlaneUpgrade), func(s *chain.State) { s.UpgradeStep = v(31) }),
			chain.Wait{}, chain.ControlPlaneUpgrading,
		},
		"a control plane that reports no version is initialized": {
			at(30, pending(chain.AfterControlPlaneInitialized), func(s *chain.State) { s.ControlPlane.Provisioned = false }),
			chain.CallHook{Hook: chain.AfterControlPlaneInitialized, Then: chain.Record{Remove: []chain.Hook{chain.AfterControlPlaneInitialized}}}, chain.HookDue,
		},
		"a group lacks machines that could not join later": {
			at(33, raised, pending(chain.AfterClusterUpgrade, chain.AfterWorkersUpgrade), allMoved, func(s *chain.State) { s.Groups[0].Missing = 1 }),
			chain.Wait{}, chain.WorkersShort,
		},
		"a group that lacks machines keeps the next one waiting": {
			at(31, raised, pending(chain.AfterClusterUpgrade, chain.AfterWorkersUpgrade), func(s *chain.State) {
				s.Groups[0].Version, s.Groups[0].Oldest, s.Groups[0].Missing = v(31), v(31), 1
			}),
			chain.Wait{}, chain.WorkersShort,
		},
		"a group that lacks machines and is behind can go on": {
			at(31, raised, pending(chain.AfterClusterUpgrade, chain.AfterWorkersUpgrade), func(s *chain.State) { s.Groups[0].Missing = 1 }),
			chain.RaiseWorkers{To: v(31), Groups: []string{"a"}}, chain.WorkersStep,
		},
		"a group that lacks machines at rest holds no upgrade": {
			at(31, short), chain.CallHook{Hook: chain.BeforeClusterUpgrade, Step: v(31), Then: chain.Record{Add: []chain.Hook{chain.AfterClusterUpgrade}, ChainTarget: v(31)}}, chain.HookDue,
		},
		"a group that lacked machines before the upgrade holds no step": {
			at(31, begun, short), chain.CallHook{Hook: chain.BeforeControlPlaneUpgrade, Step: v(31), Then: chain.Record{Intent: intent}}, chain.HookDue,
		},
		"a group that lacked as many machines before its step holds nothing": {
			at(31, raised, pending(chain.AfterClusterUpgrade, chain.AfterWorkersUpgrade), allMoved, lacked(31, 1), short),
			chain.CallHook{Hook: chain.AfterWorkersUpgrade, Step: v(31), Then: chain.Record{Remove: []chain.Hook{chain.AfterWorkersUpgrade}}}, chain.HookDue,
		},
		"a group that lacks more machines than before its step holds": {
			at(31, raised, pending(chain.AfterClusterUpgrade, chain.AfterWorkersUpgrade), allMoved, lacked(31, 1), func(s *chain.State) { s.Groups[0].Missing = 2 }),
			chain.Wait{}, chain.WorkersShort,
		},
		"what a group lacked before an earlier step does not count": {
			at(31, raised, pending(chain.AfterClusterUpgrade, chain.AfterWorkersUpgrade), allMoved, lacked(30, 1), short),
			chain.Wait{}, chain.WorkersShort,
		},
		"what is recorded may be nonsense": {
			at(31, raised, pending(chain.AfterClusterUpgrade, chain.AfterWorkersUpgrade), allMoved, lacked(31, -1)),
			chain.CallHook{Hook: chain.AfterWorkersUpgrade, Step: v(31), Then: chain.Record{Remove: []chain.Hook{chain.AfterWorkersUpgrade}}}, chain.HookDue,
		},
		"what groups lack is recorded before they move": {
			at(31, raised, pending(chain.AfterClusterUpgrade, chain.BeforeWorkersUpgrade, chain.AfterWorkersUpgrade), short),
			chain.CallHook{
				Hook: chain.BeforeWorkersUpgrade, Step: v(31),
				Then: chain.Record{Remove: []chain.Hook{chain.BeforeWorkersUpgrade}, Lacked: map[string]int32{"a": 1}},
			}, chain.HookDue,
		},
		"a group that lacked machines before the upgrade keeps no group waiting": {
			at(33, begun, pending(chain.AfterClusterUpgrade, chain.AfterWorkersUpgrade), short, func(s *chain.State) {
				s.ChainAt, s.Groups[1] = v(30), chain.Group{Name: "b", Kind: plan.MachineDeployment, Exists: true, Version: v(29), Oldest: v(29), MaxMinorStep: 1}
			}),
			chain.RaiseWorkers{To: v(30), Groups: []string{"b"}}, chain.WorkersStep,
		},
		"a group that lost machines after its step holds no step": {
			at(33, raised, allMoved, short), chain.CallHook{Hook: chain.BeforeControlPlaneUpgrade, Step: v(32), Then: chain.Record{Intent: &chain.Intent{From: v(31), To: v(32), Passed: now}}}, chain.HookDue,
		},
		"a group that another engine moved holds the next step": {
			at(33, raised, foreign, pending(chain.AfterClusterUpgrade, chain.AfterWorkersUpgrade), allMoved, short),
			chain.Wait{}, chain.WorkersShort,
		},
		"a group that moved holds the next step also when the target has changed": {
			at(32, raised, pending(chain.AfterClusterUpgrade, chain.AfterWorkersUpgrade), allMoved, short, func(s *chain.State) { s.ChainTarget, s.ChainAt = v(33), v(30) }),
			chain.Wait{}, chain.WorkersShort,
		},
		"a deferred group does not hide that one that moved lacks machines": {
			at(31, raised, pending(chain.AfterClusterUpgrade, chain.AfterWorkersUpgrade), moved, short, func(s *chain.State) { s.Groups[1].Defer = true }),
			chain.Wait{}, chain.WorkersShort,
		},
		"a group that left lags too far behind": {
			at(34, begun, func(s *chain.State) {
				s.ControlPlane.Version, s.Groups = v(33), nil
				s.Leaving = []chain.Group{group("gone", plan.MachineDeployment)}
			}),
			chain.Wait{}, chain.GroupsLeaving,
		},
		"a group that left does not lag too far behind": {
			at(33, begun, func(s *chain.State) {
				s.ControlPlane.Version, s.Groups = v(32), nil
				s.Leaving = []chain.Group{group("gone", plan.MachineDeployment)}
			}),
			chain.CallHook{
				Hook: chain.BeforeControlPlaneUpgrade, Step: v(33),
				Then: chain.Record{Intent: &chain.Intent{From: v(32), To: v(33), Passed: now}},
			}, chain.HookDue,
		},
		"a group that left lags too far behind for another policy": {
			at(33, begun, func(s *chain.State) {
				s.ControlPlane.Version, s.Groups = v(32), nil
				s.Leaving = []chain.Group{group("gone", plan.MachineDeployment)}
				s.Skew = version.SkewPolicy{Name: "two", Rules: []version.SkewRule{{MaxLag: 2}}}
			}),
			chain.Wait{}, chain.GroupsLeaving,
		},
		"a group that is deleted lags too far behind": {
			at(34, begun, func(s *chain.State) {
				s.ControlPlane.Version, s.Groups[0].Deleting, s.Groups = v(33), true, s.Groups[:1]
			}),
			chain.Wait{}, chain.GroupsLeaving,
		},
		"the target changes at the end": {
			at(33, raised, allMoved, func(s *chain.State) { s.ChainTarget = v(31) }),
			chain.CallHook{Hook: chain.AfterClusterUpgrade, Step: v(31), Then: chain.Record{Remove: []chain.Hook{chain.AfterClusterUpgrade}, ClearChainTarget: true, ClearIntent: true}},
			chain.HookDue,
		},
		"there is no way":               {at(33, begun, func(s *chain.State) { s.Source = plan.VersionList{v(31), v(33)} }), chain.Wait{}, chain.NoPath},
		"there is no way back":          {at(31, begun, func(s *chain.State) { s.Target = v(29) }), chain.Wait{}, chain.NoPath},
		"plans cannot be had":           {at(31, begun, func(s *chain.State) { s.SourceProblem = "x" }), chain.Wait{}, chain.NoSource},
		"without a way what runs runs":  {at(31, raised, moving, func(s *chain.State) { s.SourceProblem = "x" }), chain.Wait{}, chain.NoSource},
		"an answer that holds":          {at(31, answered(31, time.Second, false)), chain.Wait{Until: now.Add(time.Second)}, chain.HookBlocking},
		"a failure that holds":          {at(31, answered(31, time.Second, true)), chain.Wait{Until: now.Add(time.Second)}, chain.HookFailed},
		"an answer that holds no more":  {at(31, answered(31, 0, false)), chain.CallHook{Hook: chain.BeforeClusterUpgrade, Step: v(31), Then: chain.Record{Add: []chain.Hook{chain.AfterClusterUpgrade}, ChainTarget: v(31)}}, chain.HookDue},
		"an answer about another step":  {at(31, answered(32, time.Second, false)), chain.CallHook{Hook: chain.BeforeClusterUpgrade, Step: v(31), Then: chain.Record{Add: []chain.Hook{chain.AfterClusterUpgrade}, ChainTarget: v(31)}}, chain.HookDue},
		"two at a time":                 {at(31, raised, pending(chain.AfterWorkersUpgrade), three, func(s *chain.State) { s.Concurrency = 2 }), chain.RaiseWorkers{To: v(31), Groups: []string{"a", "b"}}, chain.WorkersStep},
		"two at a time, one is moving":  {at(31, raised, pending(chain.AfterWorkersUpgrade), three, moving, func(s *chain.State) { s.Concurrency = 2 }), chain.RaiseWorkers{To: v(31), Groups: []string{"b"}}, chain.WorkersStep},
		"the oldest machine counts":     {at(31, begun, func(s *chain.State) { s.Groups[0].Oldest, s.Groups[0].Upgrading = v(28), true }), chain.Wait{}, chain.WorkersUpgrading},
		"a group that goes is left out": {at(31, raised, pending(chain.AfterWorkersUpgrade), func(s *chain.State) { s.Groups[0].Deleting = true }), chain.RaiseWorkers{To: v(31), Groups: []string{"p"}}, chain.WorkersStep},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := chain.Decide(tt.state, now)
			if diff := cmp.Diff(tt.action, d.Action); diff != "" {
				t.Errorf("action (-want +got):\n%s", diff)
			}
			if d.Reason != tt.reason || d.Message == "" {
				t.Errorf("reason %s, want %s: %q", d.Reason, tt.reason, d.Message)
			}
		})
	}
}

// TestObjects checks which objects may be written in a few situations.
func TestObjects(t *testing.T) {
	t.Parallel()
	add := func(s *chain.State) { s.Groups = append(s.Groups, chain.Group{Name: "n", Kind: plan.MachinePool}) }
	for name, tt := range map[string]struct {
		state chain.State
		want  chain.Objects
	}{
		"nothing is due: everything may change": {at(30), chain.Objects{ControlPlane: chain.Object{Version: v(30)}, Groups: []chain.Object{
			{Name: "a", Kind: plan.MachineDeployment, Version: v(30)}, {Name: "p", Kind: plan.MachinePool, Version: v(30)},
		}}},
		"what waits is left alone": {at(31), chain.Objects{ControlPlane: chain.Object{Version: v(30), Hold: true}, Groups: []chain.Object{
			{Name: "a", Kind: plan.MachineDeployment, Version: v(30), Hold: true}, {Name: "p", Kind: plan.MachinePool, Version: v(30), Hold: true},
		}}},
		"a new group waits for the control plane": {at(31, add), chain.Objects{ControlPlane: chain.Object{Version: v(30), Hold: true}, Groups: []chain.Object{
			{Name: "a", Kind: plan.MachineDeployment, Version: v(30), Hold: true}, {Name: "p", Kind: plan.MachinePool, Version: v(30), Hold: true},
			{Name: "n", Kind: plan.MachinePool, Version: v(31), Hold: true},
		}}},
		"one group moves, the new one is created": {
			at(31, raised, pending(chain.AfterWorkersUpgrade), add), chain.Objects{ControlPlane: chain.Object{Version: v(31)}, Groups: []chain.Object{
				{Name: "a", Kind: plan.MachineDeployment, Version: v(31)}, {Name: "p", Kind: plan.MachinePool, Version: v(30), Hold: true},
				{Name: "n", Kind: plan.MachinePool, Version: v(31)},
			}},
		},
		"a pause": {at(31, func(s *chain.State) { s.Paused = true }), chain.Objects{Leave: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, chain.Decide(tt.state, now).Objects); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

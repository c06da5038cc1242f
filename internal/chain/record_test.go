package chain_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/internal/chain"
	"github.com/windlass-dev/windlass/pkg/version"
)

func TestRecord(t *testing.T) {
	t.Parallel()
	earlier := now.Add(-time.Hour)
	way := &chain.Progress{From: v(30), Target: v(32), Began: earlier, Steps: []chain.Step{{To: v(31), Began: earlier}}}
	ended := &chain.Progress{From: v(28), Target: v(29), Began: earlier, Steps: []chain.Step{{To: v(29), Began: earlier, ControlPlane: earlier}}}
	underWay := chain.Pending{chain.AfterClusterUpgrade, chain.AfterControlPlaneUpgrade}
	intent := &chain.Intent{From: v(30), To: v(31)}
	for name, tt := range map[string]struct {
		old          chain.Recorded
		record       chain.Record
		controlPlane version.Version
		want         chain.Recorded
	}{
		"nothing": {},
		"an upgrade begins": {
			record: chain.Record{Add: []chain.Hook{chain.AfterClusterUpgrade}, ChainTarget: v(32)}, controlPlane: v(30),
			want: chain.Recorded{Pending: underWay[:1], UpgradeStep: v(30), Chain: &chain.Progress{From: v(30), Target: v(32), At: v(30), Began: now}},
		},
		"an upgrade begins after one that another engine has ended": {
			old: chain.Recorded{Chain: ended}, record: chain.Record{Add: []chain.Hook{chain.AfterClusterUpgrade}, ChainTarget: v(32)}, controlPlane: v(30),
			want: chain.Recorded{Pending: underWay[:1], UpgradeStep: v(30), Chain: &chain.Progress{From: v(30), Target: v(32), At: v(30), Began: now}},
		},
		"a farther target is recorded": {
			old:    chain.Recorded{Pending: underWay[:1], UpgradeStep: v(31), Chain: way},
			record: chain.Record{ChainTarget: v(33), ChainGeneration: 7}, controlPlane: v(31),
			want: chain.Recorded{Pending: underWay[:1], UpgradeStep: v(31), Chain: &chain.Progress{
				From: v(30), Target: v(33), At: v(31), Generation: 7, Began: earlier, Steps: way.Steps,
			}},
		},
		"a step is announced": {
			old: chain.Recorded{Pending: underWay[:1], UpgradeStep: v(30)}, record: chain.Record{Intent: intent}, controlPlane: v(30),
			want: chain.Recorded{Pending: underWay[:1], UpgradeStep: v(30), Intent: intent},
		},
		"a step is taken": {
			old:    chain.Recorded{Pending: underWay[:1], UpgradeStep: v(30), Intent: intent, Chain: &chain.Progress{From: v(30), Target: v(32), Began: earlier}},
			record: chain.Record{Add: underWay[1:], ClearIntent: true}, controlPlane: v(31),
			want: chain.Recorded{Pending: underWay, UpgradeStep: v(31), Chain: &chain.Progress{From: v(30), Target: v(32), Began: earlier, Steps: []chain.Step{{To: v(31), Began: now}}}},
		},
		"a step is over": {
			old: chain.Recorded{Pending: underWay, UpgradeStep: v(31), Chain: way}, record: chain.Record{Remove: underWay[1:]}, controlPlane: v(31),
			want: chain.Recorded{Pending: underWay[:1], UpgradeStep: v(31), Chain: &chain.Progress{
				From: v(30), Target: v(32), Began: earlier, Steps: []chain.Step{{To: v(31), Began: earlier, ControlPlane: now}},
			}},
		},
		"workers may go, and some lack machines": {
			old:    chain.Recorded{Pending: []chain.Hook{chain.AfterClusterUpgrade, chain.BeforeWorkersUpgrade}, UpgradeStep: v(31), Chain: way},
			record: chain.Record{Remove: []chain.Hook{chain.BeforeWorkersUpgrade}, Lacked: map[string]int32{"a": 2}}, controlPlane: v(31),
			want: chain.Recorded{Pending: underWay[:1], UpgradeStep: v(31), Chain: &chain.Progress{
				From: v(30), Target: v(32), Began: earlier, Steps: []chain.Step{{To: v(31), Began: earlier, Lacked: map[string]int32{"a": 2}}},
			}},
		},
		"a step of workers is cancelled": {
			old: chain.Recorded{
				Pending:     []chain.Hook{chain.AfterClusterUpgrade, chain.AfterWorkersUpgrade, chain.BeforeWorkersUpgrade},
				UpgradeStep: v(31), Chain: way,
			},
			record: chain.Record{Remove: []chain.Hook{chain.BeforeWorkersUpgrade, chain.AfterWorkersUpgrade}}, controlPlane: v(31),
			want: chain.Recorded{Pending: underWay[:1], UpgradeStep: v(31), Chain: way},
		},
		"what was lacking is kept for the last step only": {
			old: chain.Recorded{Pending: underWay[:1], UpgradeStep: v(31), Chain: &chain.Progress{
				From: v(30), Target: v(32), Began: earlier, Steps: []chain.Step{{To: v(31), Began: earlier, Lacked: map[string]int32{"a": 2}}},
			}},
			record: chain.Record{Add: underWay[1:]}, controlPlane: v(32),
			want: chain.Recorded{Pending: underWay, UpgradeStep: v(32), Chain: &chain.Progress{
				From: v(30), Target: v(32), Began: earlier, Steps: []chain.Step{{To: v(31), Began: earlier}, {To: v(32), Began: now}},
			}},
		},
		"workers may follow a step of another engine, and some lack machines": {
			old:    chain.Recorded{Pending: []chain.Hook{chain.AfterClusterUpgrade, chain.BeforeWorkersUpgrade}, UpgradeStep: v(32), Chain: way},
			record: chain.Record{Remove: []chain.Hook{chain.BeforeWorkersUpgrade}, Lacked: map[string]int32{"a": 2}}, controlPlane: v(32),
			want: chain.Recorded{Pending: underWay[:1], UpgradeStep: v(32), Chain: &chain.Progress{
				From: v(30), Target: v(32), Began: earlier, Steps: []chain.Step{{To: v(31), Began: earlier}, {To: v(32), Began: now, Lacked: map[string]int32{"a": 2}}},
			}},
		},
		"a step of another engine is over": {
			old: chain.Recorded{Pending: underWay, UpgradeStep: v(32), Chain: way}, record: chain.Record{Remove: underWay[1:]}, controlPlane: v(32),
			want: chain.Recorded{Pending: underWay[:1], UpgradeStep: v(32), Chain: way},
		},
		"the upgrade step of another engine is fixed": {
			old: chain.Recorded{Pending: underWay[:1], UpgradeStep: v(30)}, controlPlane: v(31), want: chain.Recorded{Pending: underWay[:1], UpgradeStep: v(31)},
		},
		"the end": {
			old:    chain.Recorded{Pending: underWay[:1], UpgradeStep: v(32), Chain: way, Intent: intent},
			record: chain.Record{Remove: underWay[:1], ClearChainTarget: true, ClearIntent: true}, controlPlane: v(32),
			want: chain.Recorded{Last: &chain.Past{Progress: *way, Ended: now}},
		},
		"an end that another engine came to": {
			old:    chain.Recorded{Chain: way, Intent: intent},
			record: chain.Record{ClearChainTarget: true, ClearIntent: true}, controlPlane: v(32),
		},
		"deletion": {record: chain.Record{OKToDelete: true}, want: chain.Recorded{OKToDelete: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := tt.record.Apply(tt.old, tt.controlPlane, now)
			if len(got.Pending) == 0 {
				got.Pending = nil
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if !got.Equal(tt.want) || got.Equal(tt.old) != tt.want.Equal(tt.old) {
				t.Errorf("Equal does not agree: %+v, %+v", got, tt.want)
			}
		})
	}
}

// TestStepsAreBounded: an upgrade of very many steps keeps the last.
func TestStepsAreBounded(t *testing.T) {
	t.Parallel()
	var r chain.Recorded
	r = chain.Record{Add: []chain.Hook{chain.AfterClusterUpgrade}, ChainTarget: v(99)}.Apply(r, v(30), now)
	for minor := 31; minor < 99; minor++ {
		r = chain.Record{Add: []chain.Hook{chain.AfterControlPlaneUpgrade}}.Apply(r, v(minor), now)
	}
	if len(r.Chain.Steps) != chain.MaxSteps || r.Chain.Steps[chain.MaxSteps-1].To != v(98) || r.Chain.From != v(30) {
		t.Errorf("%d steps, the last to %s, from %s", len(r.Chain.Steps), r.Chain.Steps[len(r.Chain.Steps)-1].To, r.Chain.From)
	}
}

// TestRecordOfAnEarlierVersion reads a target that was recorded without the control plane's version: From has it.
func TestRecordOfAnEarlierVersion(t *testing.T) {
	t.Parallel()
	s := chain.State{}.With(chain.Recorded{Chain: &chain.Progress{From: v(30), Target: v(32)}})
	if s.ChainAt != v(30) || s.ChainTarget != v(32) {
		t.Errorf("the target %s was recorded at %s", s.ChainTarget, s.ChainAt)
	}
	if s = s.With(chain.Recorded{Chain: &chain.Progress{From: v(30), Target: v(32), At: v(31)}}); s.ChainAt != v(31) {
		t.Errorf("the target was recorded at %s", s.ChainAt)
	}
}

package chain_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/windlass-dev/windlass/internal/chain"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// effects write down what they are asked for.
type effects struct {
	log                             []string
	recorded                        chain.Recorded
	reply                           chain.Reply
	failApply, failRecord, failCall error
}

func (e *effects) Apply(_ context.Context, _ chain.Objects, stamp version.Version) error {
	e.log = append(e.log, strings.TrimSpace("apply "+stamp.String()))
	return e.failApply
}

func (e *effects) Record(_ context.Context, recorded chain.Recorded) error {
	e.log, e.recorded = append(e.log, "record"), recorded
	return e.failRecord
}

func (e *effects) Call(_ context.Context, call chain.CallHook, _ chain.Decision) (chain.Reply, error) {
	e.log = append(e.log, "call "+string(call.Hook))
	return e.reply, e.failCall
}

// errFault is what effects fail with.
var errFault = errors.New("fault")

// TestOrderOfEffects checks what each action does, in which order, and that nothing follows an effect that failed.
func TestOrderOfEffects(t *testing.T) {
	t.Parallel()
	call := chain.CallHook{Hook: chain.BeforeClusterUpgrade, Step: v(31), Then: chain.Record{Add: []chain.Hook{chain.AfterClusterUpgrade}}}
	raise := chain.RaiseControlPlane{To: v(31), Then: chain.Record{Add: []chain.Hook{chain.AfterControlPlaneUpgrade}}}
	for name, tt := range map[string]struct {
		action  chain.Action
		leave   bool
		effects effects
		want    []string
		requeue time.Duration
		fails   bool
	}{
		"a wait until a time":                         {action: chain.Wait{Until: epoch.Add(3 * time.Second)}, want: []string{"apply v1.30.0"}, requeue: 3 * time.Second},
		"a wait keeps objects up":                     {action: chain.Wait{}, want: []string{"apply v1.30.0"}},
		"a wait that leaves all alone":                {action: chain.Wait{}, leave: true},
		"a wait whose objects fail":                   {action: chain.Wait{}, effects: effects{failApply: errFault}, want: []string{"apply v1.30.0"}, fails: true},
		"a hook after the objects, before its record": {action: call, want: []string{"apply v1.30.0", "call BeforeClusterUpgrade", "record"}},
		"a hook that blocks is not recorded":          {action: call, effects: effects{reply: chain.Reply{RetryAfter: time.Second}}, want: []string{"apply v1.30.0", "call BeforeClusterUpgrade"}, requeue: time.Second},
		"a hook that fails is not recorded":           {action: call, effects: effects{failCall: errFault}, want: []string{"apply v1.30.0", "call BeforeClusterUpgrade"}, requeue: 5 * time.Second},
		"no hook where objects fail":                  {action: call, effects: effects{failApply: errFault}, want: []string{"apply v1.30.0"}, fails: true},
		"a record that fails":                         {action: call, effects: effects{failRecord: errFault}, want: []string{"apply v1.30.0", "call BeforeClusterUpgrade", "record"}, fails: true},
		"a hook while the Cluster goes":               {action: call, leave: true, want: []string{"call BeforeClusterUpgrade", "record"}},
		"a step of the control plane is stamped":      {action: raise, want: []string{"apply v1.31.0", "record"}},
		"a step that fails is not recorded":           {action: raise, effects: effects{failApply: errFault}, want: []string{"apply v1.31.0"}, fails: true},
		"groups":                                      {action: chain.RaiseWorkers{To: v(30), Groups: []string{"a"}}, want: []string{"apply v1.30.0"}},
		"creation":                                    {action: chain.Create{}, want: []string{"apply v1.30.0"}},
		"a note":                                      {action: chain.Note{Record: chain.Record{Add: []chain.Hook{chain.AfterClusterUpgrade}}}, want: []string{"record"}},
		"a note of nothing new":                       {action: chain.Note{}},
		"no action at all":                            {fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := chain.State{ControlPlane: chain.ControlPlane{Exists: true, Version: v(30), Stamp: v(30)}}
			d := chain.Decision{Action: tt.action, Objects: chain.Objects{Leave: tt.leave, ControlPlane: chain.Object{Version: v(30)}}}
			outcome, err := chain.Execute(t.Context(), s, chain.Recorded{}, d, epoch, &tt.effects)
			if (err != nil) != tt.fails || err != nil && tt.action != nil && !errors.Is(err, errFault) {
				t.Errorf("error %v", err)
			}
			if diff := cmp.Diff(tt.want, tt.effects.log); diff != "" {
				t.Errorf("effects (-want +got):\n%s", diff)
			}
			if outcome.RequeueAfter != tt.requeue {
				t.Errorf("it is asked again after %s, want %s", outcome.RequeueAfter, tt.requeue)
			}
		})
	}
}

// TestBackoff calls a failing hook again and again: the time between calls doubles, from its first failure on, up to a bound; a hook that blocks is
// called when it asks for.
func TestBackoff(t *testing.T) {
	t.Parallel()
	call := chain.CallHook{Hook: chain.BeforeClusterUpgrade, Step: v(31)}
	d := chain.Decision{Action: call, Objects: chain.Objects{Leave: true}}
	var answers []chain.Answer
	now := epoch
	var waits []time.Duration
	for range 8 {
		e := &effects{failCall: errFault}
		outcome, err := chain.Execute(t.Context(), chain.State{Answers: answers}, chain.Recorded{}, d, now, e)
		if err != nil || outcome.Answer == nil || !outcome.Answer.Failed || !outcome.Answer.Since.Equal(epoch) {
			t.Fatalf("%+v, %v", outcome, err)
		}
		waits = append(waits, outcome.RequeueAfter)
		answers, now = []chain.Answer{*outcome.Answer}, outcome.Answer.Until
	}
	want := []time.Duration{
		5 * time.Second, 5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second, 2 * time.Minute, 2 * time.Minute,
	}
	if diff := cmp.Diff(want, waits); diff != "" {
		t.Errorf("waits (-want +got):\n%s", diff)
	}
	// Failures do not make a blocking answer wait longer, and are not forgotten for a step of another version.
	e := &effects{reply: chain.Reply{RetryAfter: 3 * time.Second, Message: "not now"}}
	outcome, err := chain.Execute(t.Context(), chain.State{Answers: answers}, chain.Recorded{}, d, now, e)
	wantAnswer := &chain.Answer{Hook: chain.BeforeClusterUpgrade, Step: v(31), Message: "not now", Since: now, Given: now, Until: now.Add(3 * time.Second)}
	if diff := cmp.Diff(wantAnswer, outcome.Answer); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// TestAnswers keeps what is remembered of Clusters apart, and hands out copies.
func TestAnswers(t *testing.T) {
	t.Parallel()
	var a chain.Answers
	one, two := types.NamespacedName{Name: "one"}, types.NamespacedName{Name: "two"}
	a.Remember(one, chain.Answer{Hook: chain.BeforeClusterUpgrade})
	a.Remember(two, chain.Answer{Hook: chain.AfterClusterUpgrade})
	a.Remember(one, chain.Answer{Hook: chain.BeforeControlPlaneUpgrade})
	got := a.Of(one)
	got[0].Hook = "changed"
	if diff := cmp.Diff([]chain.Answer{{Hook: chain.BeforeControlPlaneUpgrade}}, a.Of(one)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	a.Forget(one)
	if len(a.Of(one)) != 0 || len(a.Of(two)) != 1 {
		t.Errorf("one %v, two %v", a.Of(one), a.Of(two))
	}
}

// TestWaitsAreBounded: whatever stands in the answers that are remembered, a failing hook is called again, and not at once.
func TestWaitsAreBounded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		since := epoch.Add(time.Duration(rapid.Int64().Draw(t, "since")))
		s := chain.State{Answers: []chain.Answer{{Hook: chain.BeforeClusterUpgrade, Failed: true, Since: since}}}
		d := chain.Decision{Action: chain.CallHook{Hook: chain.BeforeClusterUpgrade}, Objects: chain.Objects{Leave: true}}
		outcome, err := chain.Execute(t.Context(), s, chain.Recorded{}, d, epoch, &effects{failCall: errFault})
		if outcome.Answer.Since.After(epoch) {
			t.Fatalf("it has failed since %s, which is to come", outcome.Answer.Since)
		}
		if err != nil || outcome.RequeueAfter < 5*time.Second || outcome.RequeueAfter > 2*time.Minute {
			t.Fatalf("%+v, %v", outcome, err)
		}
	})
}

// The plan is recorded with the target that it leads to, and stays.
func TestPlanIsRecorded(t *testing.T) {
	t.Parallel()
	var e effects
	run := func(recorded chain.Recorded, r chain.Record, stops ...version.Version) *chain.Planned {
		d := chain.Decision{Action: chain.Note{Record: r}, Plan: plan.Plan{
			ControlPlane: stops, Groups: []plan.GroupPlan{{Name: "a", Upgrades: stops[len(stops)-1:]}},
		}}
		d.Objects.ControlPlane.Version = v(30)
		if _, err := chain.Execute(t.Context(), chain.State{}, recorded, d, epoch, &e); err != nil {
			t.Fatal(err)
		}
		return e.recorded.Chain.Planned
	}
	begin := chain.Record{Add: []chain.Hook{chain.AfterClusterUpgrade}, ChainTarget: v(32)}
	want := &chain.Planned{Made: epoch, ControlPlane: []version.Version{v(31), v(32)}, Workers: []version.Version{v(32)}}
	if diff := cmp.Diff(want, run(chain.Recorded{}, begin, v(31), v(32))); diff != "" {
		t.Errorf("at the beginning (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, run(e.recorded, chain.Record{Add: []chain.Hook{chain.AfterControlPlaneUpgrade}}, v(32))); diff != "" {
		t.Errorf("after a step (-want +got):\n%s", diff)
	}
	want = &chain.Planned{Made: epoch, ControlPlane: []version.Version{v(33)}, Workers: []version.Version{v(33)}}
	if diff := cmp.Diff(want, run(e.recorded, chain.Record{ChainTarget: v(33)}, v(33))); diff != "" {
		t.Errorf("after a change of the target (-want +got):\n%s", diff)
	}
}

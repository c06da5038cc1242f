package inplace_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/pkg/version"
)

var (
	beginning = time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	from, to  = version.MustParse("v1.30.0"), version.MustParse("v1.31.0")
	errFault  = errors.New("fault")
)

// effects write down what they are asked for, and fail at one of them.
type effects struct {
	log    []string
	node   inplace.Node
	others inplace.Others
	waits  *inplace.Reply
	ready  inplace.Readiness
	// asks is how long the answer to CanBegin takes.
	asks, asked time.Duration
	drained     inplace.DrainState
	answer      inplace.Answer
	failAt      string
	// autoscaler has what concerns it written down.
	autoscaler bool
}

func (e *effects) did(what string) error {
	e.log = append(e.log, what)
	if e.failAt != "" && strings.HasPrefix(what, e.failAt) {
		return errFault
	}
	return nil
}

func (e *effects) Begin(_ context.Context, decide func(inplace.Others) (bool, error)) (*inplace.Reply, error) {
	if err := e.did("begin"); err != nil || e.waits != nil {
		return e.waits, err
	}
	begun, err := decide(e.others)
	if begun {
		_ = e.did("hold a slot")
	}
	return nil, err
}

func (e *effects) Save(_ context.Context, _, after *inplace.Progress) error {
	return e.did("save " + string(after.Phase))
}

func (e *effects) Look(context.Context) (time.Time, inplace.Node) {
	return beginning.Add(e.asked), e.node
}

func (e *effects) CanBegin(_ context.Context, a inplace.CanBegin) (inplace.Readiness, error) {
	e.asked += e.asks
	return e.ready, e.did("ask " + a.Step.Updater)
}

func (e *effects) Drain(context.Context, time.Time) (inplace.DrainState, error) {
	return e.drained, e.did("drain")
}

func (e *effects) Call(_ context.Context, call inplace.Call) (inplace.Answer, error) {
	return e.answer, e.did("call " + call.Step.Updater)
}

func (e *effects) Uncordon(context.Context) error {
	e.node.Unschedulable = false
	return e.did("uncordon")
}

func (e *effects) DisableScaleDown(context.Context) {
	if e.autoscaler {
		_ = e.did("disable scale-down")
	}
}

func (e *effects) EnableScaleDown(context.Context) error {
	if !e.autoscaler {
		return nil
	}
	return e.did("enable scale-down")
}

func (e *effects) Finish(context.Context, *inplace.Progress, inplace.Finish) error {
	return e.did("finish")
}
func (e *effects) Abandon(context.Context, inplace.AbandonUpdate) error { return e.did("abandon") }
func (e *effects) Complete(context.Context)                             { _ = e.did("complete") }

func facts(change func(*inplace.Facts)) inplace.Facts {
	f := inplace.Facts{
		Now: beginning, FreshID: "u1", Desired: to, Target: "set", Policy: policy.Policy{MaxInFlight: 1, Drain: true, MaxAttempts: 2, AttemptTimeout: time.Hour}, PolicyName: "keep",
		Decision: &inplace.Decision{ID: "d", Target: "set", Steps: []inplace.Step{{Updater: "kubelet", SetsVersion: true, NeedsDrain: true}}},
		Node:     inplace.Node{Exists: true, Ready: true, Kubelet: from},
	}
	if change != nil {
		change(&f)
	}
	return f
}

// progress is an update in a phase.
func progress(phase inplace.Phase, change func(*inplace.Progress)) *inplace.Progress {
	p := &inplace.Progress{
		ID: "u1", Decision: "d", Target: "set", Policy: "keep", From: from, To: to, Steps: []inplace.Step{{Updater: "kubelet", SetsVersion: true, NeedsDrain: true}}, Phase: phase,
		Attempt: 1, Operations: 1, Operation: "u1-1", Began: beginning, StepBegan: beginning, Started: beginning,
	}
	if change != nil {
		change(p)
	}
	return p
}

// asking has the updater asked whether it can begin.
func asking(f *inplace.Facts) { f.Decision.Steps[0].Asks = true }

// unasked is an update whose updater is to be asked, draining one whose updater can begin.
func unasked(p *inplace.Progress)  { p.Steps[0].Asks = true }
func draining(p *inplace.Progress) { p.Steps[0].Asks, p.Cordoned, p.CanBegin = true, true, p.Operation }

func in(phase inplace.Phase, change func(*inplace.Progress)) inplace.Facts {
	return facts(func(f *inplace.Facts) { f.Progress = progress(phase, change) })
}

// TestOrderOfEffects: what is about to happen is recorded before it happens, each call makes at most one request to an updater, and nothing follows an
// effect that failed.
func TestOrderOfEffects(t *testing.T) {
	t.Parallel()
	ready := inplace.Node{Exists: true, Ready: true, Kubelet: to}
	for name, tt := range map[string]struct {
		facts   inplace.Facts
		effects effects
		want    []string
		reply   inplace.Reply
		fails   bool
	}{
		"an update begins": {facts: facts(nil), want: []string{"begin", "save Draining", "hold a slot", "drain"}, reply: inplace.Reply{RetryAfter: 5 * time.Second}},
		"an update begins whose updater is asked": {
			facts: facts(asking), want: []string{"begin", "save Draining", "hold a slot", "ask kubelet", "save Draining", "drain"},
			reply: inplace.Reply{RetryAfter: 5 * time.Second},
		},
		"a clock was ahead that recorded the begin of the attempt": {
			facts:   in(inplace.Updating, func(p *inplace.Progress) { p.Started = beginning.Add(time.Hour) }),
			effects: effects{answer: inplace.Answer{Outcome: inplace.InProgress}},
			want:    []string{"save Updating", "call kubelet"},
			reply: inplace.Reply{
				RetryAfter: 5 * time.Second,
				Wait:       inplace.Wait{Reason: inplace.ReasonUpdating, After: 5 * time.Second},
			},
		},
		"the answer that it can begin takes time": {
			facts: facts(asking), effects: effects{asks: time.Second},
			want:  []string{"begin", "save Draining", "hold a slot", "ask kubelet", "save Draining"},
			reply: inplace.Reply{RetryAfter: time.Second},
		},
		"the updater cannot begin": {
			facts: in(inplace.Draining, unasked), effects: effects{ready: inplace.Readiness{Refused: "DiskFull"}},
			want:  []string{"ask kubelet", "save BackingOff"},
			reply: inplace.Reply{RetryAfter: 10 * time.Second, Wait: inplace.Wait{Reason: inplace.ReasonBackingOff, After: 10 * time.Second}},
		},
		"whether it can begin is unknown": {
			facts: in(inplace.Draining, unasked), effects: effects{ready: inplace.Readiness{Unknown: "away"}},
			want:  []string{"ask kubelet"},
			reply: inplace.Reply{RetryAfter: 5 * time.Second, Wait: inplace.Wait{Reason: inplace.ReasonUpdaterUnknown, After: 5 * time.Second}},
		},
		"the machine is prepared first": {
			facts: in(inplace.Draining, unasked), effects: effects{ready: inplace.Readiness{Preparing: "it fetches", RetryAfter: time.Second}},
			want:  []string{"ask kubelet"},
			reply: inplace.Reply{RetryAfter: time.Second, Wait: inplace.Wait{Reason: inplace.ReasonUpdating, After: time.Second}},
		},
		"asking whether it can begin fails": {
			facts: in(inplace.Draining, unasked), effects: effects{failAt: "ask"}, want: []string{"ask kubelet"}, fails: true,
		},
		"all slots are taken": {
			facts: facts(nil), effects: effects{others: inplace.Others{InFlight: 1}}, want: []string{"begin"}, reply: inplace.Reply{RetryAfter: 5 * time.Second, Wait: inplace.Wait{Reason: inplace.ReasonQueued}},
		},
		"something else keeps it from beginning": {
			facts: facts(nil), effects: effects{waits: &inplace.Reply{RetryAfter: time.Minute}}, want: []string{"begin"}, reply: inplace.Reply{RetryAfter: time.Minute},
		},
		"what can never begin takes no slot": {
			facts: facts(func(f *inplace.Facts) { f.Decision = nil }), reply: inplace.Reply{Refused: &inplace.Refuse{Reason: inplace.ReasonNoDecision}},
		},
		"beginning fails":    {facts: facts(nil), effects: effects{failAt: "begin"}, want: []string{"begin"}, fails: true},
		"recording it fails": {facts: facts(nil), effects: effects{failAt: "save"}, want: []string{"begin", "save Draining", "hold a slot"}, fails: true},
		"a drained node":     {facts: in(inplace.Draining, draining), effects: effects{drained: inplace.DrainState{Done: true}}, want: []string{"drain", "save Updating"}, reply: inplace.Reply{RetryAfter: time.Second}},
		"a node not to be drained": {
			facts: in(inplace.Draining, draining), effects: effects{drained: inplace.DrainState{Skip: true}, answer: inplace.Answer{Outcome: inplace.InProgress, RetryAfter: time.Hour}},
			want: []string{"drain", "save Updating", "call kubelet"}, reply: inplace.Reply{RetryAfter: inplace.LongestWait, Wait: inplace.Wait{Reason: inplace.ReasonUpdating, After: time.Hour}},
		},
		"the updater is done, and the node shows it": {
			facts: in(inplace.Updating, func(p *inplace.Progress) { p.Drained, p.Cordoned = true, true }), effects: effects{node: func() inplace.Node { n := ready; n.Unschedulable = true; return n }(), answer: inplace.Answer{Outcome: inplace.Finishes}},
			want: []string{"call kubelet", "save Soaking", "uncordon", "finish"}, reply: inplace.Reply{Done: true},
		},
		"recording the end fails": {
			facts: in(inplace.Updating, nil), effects: effects{node: ready, answer: inplace.Answer{Outcome: inplace.Finishes}, failAt: "finish"}, want: []string{"call kubelet", "finish"}, fails: true,
		},
		"the updater fails": {
			facts: in(inplace.Updating, nil), effects: effects{answer: inplace.Answer{Outcome: inplace.Fails}}, want: []string{"call kubelet", "save BackingOff"},
			reply: inplace.Reply{RetryAfter: 10 * time.Second, Wait: inplace.Wait{Reason: inplace.ReasonBackingOff, After: 10 * time.Second}},
		},
		"a second updater waits for the next call": {
			facts: in(inplace.Updating, func(p *inplace.Progress) {
				p.Steps = []inplace.Step{{Updater: "files"}, {Updater: "kubelet", SetsVersion: true}}
			}), effects: effects{answer: inplace.Answer{Outcome: inplace.Finishes}}, want: []string{"call files", "save Updating"}, reply: inplace.Reply{RetryAfter: time.Second},
		},
		"it is over already": {
			facts: facts(func(f *inplace.Facts) { f.Last = &inplace.Summary{ID: "u0", To: to, Target: "set"} }), want: []string{"complete"}, reply: inplace.Reply{Done: true},
		},
		"draining fails":  {facts: in(inplace.Draining, draining), effects: effects{failAt: "drain"}, want: []string{"drain"}, fails: true},
		"asking it fails": {facts: in(inplace.Updating, nil), effects: effects{failAt: "call"}, want: []string{"call kubelet"}, fails: true},
		"a person gives it up": {
			facts: facts(func(f *inplace.Facts) {
				f.Progress, f.Abandon, f.OwnerMovedOn = progress(inplace.Failed, nil), true, true
			}), want: []string{"abandon"}, reply: inplace.Reply{RetryAfter: time.Second},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.effects.node = orNode(tt.effects.node, tt.facts.Node)
			before := tt.facts
			reply, err := inplace.Execute(t.Context(), tt.facts, &tt.effects)
			if (err != nil) != tt.fails || err != nil && !errors.Is(err, errFault) {
				t.Fatalf("error %v", err)
			}
			if diff := cmp.Diff(tt.want, tt.effects.log); diff != "" {
				t.Errorf("effects (-want +got):\n%s", diff)
			}
			// Messages are for people, and inplace's own matter.
			reply.Message, reply.Wait.Message = "", ""
			if reply.Refused != nil {
				reply.Refused.Message = ""
			}
			if reply.Wait.Reason != "" && tt.reply.Wait.Reason == "" {
				reply.Wait = inplace.Wait{}
			}
			if tt.reply.Wait.After == 0 {
				reply.Wait.After = 0
			}
			if diff := cmp.Diff(tt.reply, reply); diff != "" && !tt.fails {
				t.Errorf("reply (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, tt.facts, cmp.AllowUnexported(version.Version{})); diff != "" {
				t.Errorf("the facts have changed:\n%s", diff)
			}
		})
	}
}

func orNode(n, otherwise inplace.Node) inplace.Node {
	if n == (inplace.Node{}) {
		return otherwise
	}
	return n
}

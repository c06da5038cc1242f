package inplace_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/pkg/version"
)

func steps(names ...string) []inplace.Step {
	var list []inplace.Step
	for _, n := range names {
		list = append(list, inplace.Step{Updater: n})
	}
	return list
}

func TestMergeSteps(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ a, b, want []inplace.Step }{
		"one is missing":      {a: steps("a", "c"), b: steps("a", "b", "c"), want: steps("a", "b", "c")},
		"nothing in common":   {a: steps("a"), b: steps("b"), want: steps("a", "b")},
		"overlapping":         {a: steps("a", "b"), b: steps("b", "c"), want: steps("a", "b", "c")},
		"nothing":             {b: steps("a"), want: steps("a")},
		"nothing to add":      {a: steps("a"), want: steps("a")},
		"the careful one":     {a: []inplace.Step{{Updater: "a", MaxMinors: 2}}, b: []inplace.Step{{Updater: "a", SetsVersion: true, NeedsDrain: true, MaxMinors: 1}}, want: []inplace.Step{{Updater: "a", SetsVersion: true, NeedsDrain: true, MaxMinors: 1}}},
		"a limit and no such": {a: []inplace.Step{{Updater: "a"}}, b: []inplace.Step{{Updater: "a", MaxMinors: 1}}, want: []inplace.Step{{Updater: "a", MaxMinors: 1}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := append([]inplace.Step(nil), tt.a...)
			if diff := cmp.Diff(tt.want, inplace.MergeSteps(tt.a, tt.b)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if diff := cmp.Diff(before, tt.a); diff != "" {
				t.Errorf("an argument changed (-before +after)\n%s", diff)
			}
		})
	}
}

// TestAbandonedStepsAreOwed gives an update up after its first step failed finally, and begins the next one, whose comparison
// finds less: the objects carry the first update's desired state by then.
func TestAbandonedStepsAreOwed(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	image := cover.Pointer{Part: cover.PartInfrastructure, Path: "/spec/image"}
	f := inplace.Facts{
		Now: now, FreshID: "u2", Desired: version.MustParse("v1.31.1"), Abandon: true, OwnerMovedOn: true,
		Decision: &inplace.Decision{ID: "first", Steps: steps("config", "kubelet"), Dirty: []cover.Pointer{image}},
		Node:     inplace.Node{Exists: true, Ready: true, ReadySince: now, Kubelet: version.MustParse("v1.30.1")},
		Policy:   policy.Policy{MaxAttempts: 1, AttemptTimeout: time.Minute},
	}
	want := inplace.Owed{Steps: steps("config", "kubelet"), Dirty: []cover.Pointer{image}}
	neverBegan, ok := inplace.Decide(f).Action.(inplace.AbandonUpdate)
	if !ok {
		t.Fatalf("%+v", inplace.Decide(f))
	}
	if diff := cmp.Diff(want, neverBegan.Owed); diff != "" {
		t.Errorf("an update that never began owes (-want +got)\n%s", diff)
	}
	f.Progress = &inplace.Progress{
		ID: "u1", Decision: "first", To: f.Desired, Steps: steps("config", "kubelet"), Dirty: want.Dirty, Phase: inplace.Failed, Attempt: 1, Operations: 1, Operation: "u1-1",
	}
	failed, ok := inplace.Decide(f).Action.(inplace.AbandonUpdate)
	if !ok {
		t.Fatalf("%+v", inplace.Decide(f))
	}
	if diff := cmp.Diff(want, failed.Owed); diff != "" {
		t.Errorf("a failed update owes (-want +got)\n%s", diff)
	}

	f.Abandon, f.Progress, f.Owed = false, nil, &failed.Owed
	f.Decision = &inplace.Decision{ID: "second", Steps: steps("kubelet")}
	next := inplace.Decide(f)
	if next.Progress == nil {
		t.Fatalf("%+v", next)
	}
	if diff := cmp.Diff(want.Steps, next.Progress.Steps); diff != "" {
		t.Errorf("the next update does (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(want.Dirty, next.Progress.Dirty); diff != "" {
		t.Errorf("the next update leaves dirty (-want +got)\n%s", diff)
	}
}

// TestLeftoverProgress finds the progress of another update, whose mark somebody took away by hand.
func TestLeftoverProgress(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	to := version.MustParse("v1.31.1")
	for name, tt := range map[string]struct {
		target, leftTarget, leftDecision string
		last                             *inplace.Summary
	}{
		"of another MachineSet": {target: "new", leftTarget: "old", leftDecision: "now"},
		"of another MachineSet, from the one of the last update": {
			target: "new", leftTarget: "old", leftDecision: "now",
			last: &inplace.Summary{Target: "new", To: to},
		},
		"of another decision": {leftDecision: "before"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := inplace.Decide(inplace.Facts{
				Now: now, FreshID: "u2", Desired: to, Target: tt.target, Last: tt.last,
				Decision: &inplace.Decision{ID: "now", Target: tt.target, Steps: steps("files")},
				Progress: &inplace.Progress{
					ID: "u1", Decision: tt.leftDecision, Target: tt.leftTarget, To: to, Steps: steps("kubelet"), Phase: inplace.Soaking, Operation: "u1-1",
				},
				Node:   inplace.Node{Exists: true, Ready: true, ReadySince: now, Kubelet: to},
				Policy: policy.Policy{MaxAttempts: 1, AttemptTimeout: time.Minute},
			})
			if v.Progress == nil || v.Progress.ID != "u2" || v.Progress.Decision != "now" {
				t.Fatalf("%+v", v)
			}
			if diff := cmp.Diff(steps("kubelet", "files"), v.Progress.Steps); diff != "" {
				t.Errorf("it does (-want +got)\n%s", diff)
			}
		})
	}
}

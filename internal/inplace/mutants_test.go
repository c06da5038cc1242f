package inplace_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/windlass-dev/windlass/internal/inplace"
)

// edited returns a sound decider whose facts and verdicts are changed on the way in and out.
func edited(in func(*inplace.Facts), out func(inplace.Facts, *inplace.Verdict)) decider {
	wrap := func(f inplace.Facts, next func(inplace.Facts) inplace.Verdict) inplace.Verdict {
		changed := f
		if in != nil {
			in(&changed)
		}
		v := next(changed)
		if out != nil {
			out(f, &v)
		}
		return v
	}
	return decider{
		decide: func(f inplace.Facts) inplace.Verdict { return wrap(f, inplace.Decide) },
		ready: func(f inplace.Facts, r inplace.Readiness) inplace.Verdict {
			return wrap(f, func(f inplace.Facts) inplace.Verdict { return inplace.AnsweredCanBegin(f, r) })
		},
		drained: func(f inplace.Facts) inplace.Verdict { return wrap(f, inplace.Drained) },
		answered: func(f inplace.Facts, a inplace.Answer) inplace.Verdict {
			return wrap(f, func(f inplace.Facts) inplace.Verdict { return inplace.Answered(f, a) })
		},
	}
}

// editProgress changes a copy of the progress of the facts.
func editProgress(f *inplace.Facts, edit func(*inplace.Progress)) {
	if f.Progress != nil {
		p := *f.Progress
		edit(&p)
		f.Progress = &p
	}
}

// mutants are deciders and drivers that are broken in one way each, and what the exploration says about them.
func mutants() map[string]struct {
	decider decider
	plan    string
	soak    time.Duration
	budget  budget
	want    string
} {
	forgetful := sound()
	forgetful.forgetful = true
	type m = struct {
		decider decider
		plan    string
		soak    time.Duration
		budget  budget
		want    string
	}
	return map[string]m{
		"acts before it saves": {decider: forgetful, plan: "v", want: "before that is recorded"},
		"believes what the updater says": {
			decider: edited(func(f *inplace.Facts) {
				if f.Progress != nil && f.Progress.Phase != inplace.Draining {
					f.Node.Exists, f.Node.Ready, f.Node.Unknown, f.Node.Kubelet = true, true, "", f.Desired
				}
			}, nil),
			plan: "v", want: "finished, but the node is",
		},
		"takes another operation id each time": {
			decider: edited(nil, func(_ inplace.Facts, v *inplace.Verdict) {
				if p := v.Progress; p != nil && p.Phase == inplace.Updating {
					renamed := *p
					renamed.Operation += "x"
					v.Progress = &renamed
					if c, ok := v.Action.(inplace.Call); ok {
						v.Action = inplace.Call{Step: c.Step, Operation: renamed.Operation}
					}
				}
			}),
			plan: "v", want: "operation ids do not name attempts",
		},
		"keeps the operation id for the next attempt": {
			decider: edited(nil, func(_ inplace.Facts, v *inplace.Verdict) {
				if p := v.Progress; p != nil && len(p.Steps) > 0 {
					renamed := *p
					renamed.Operation = p.ID + "-1"
					v.Progress = &renamed
					if c, ok := v.Action.(inplace.Call); ok {
						v.Action = inplace.Call{Step: c.Step, Operation: renamed.Operation}
					}
				}
			}),
			plan: "v", want: "operation ids do not name attempts",
		},
		"runs a step again": {
			decider: edited(nil, func(f inplace.Facts, v *inplace.Verdict) {
				if p := v.Progress; p != nil && len(p.Done) == 1 && f.Progress != nil && len(f.Progress.Done) == 1 {
					again := *p
					again.Steps, again.Done = plan("cv"), nil
					v.Progress = &again
				}
			}),
			plan: "cv", want: "the end of a step is forgotten",
		},
		"runs steps in another order": {
			decider: edited(nil, func(_ inplace.Facts, v *inplace.Verdict) {
				if p := v.Progress; p != nil && len(p.Steps) == 2 && len(p.Done) == 0 {
					turned := *p
					turned.Steps = slices.Clone(p.Steps)
					slices.Reverse(turned.Steps)
					v.Progress = &turned
				}
			}),
			plan: "cv", want: "is not the plan's",
		},
		"skips a step": {
			decider: edited(nil, func(_ inplace.Facts, v *inplace.Verdict) {
				if p := v.Progress; p != nil && len(p.Steps) == 2 {
					skipping := *p
					skipping.Steps, skipping.Done = p.Steps[1:], append(slices.Clip(p.Done), inplace.Finished{Updater: p.Steps[0].Updater})
					v.Progress = &skipping
					if c, ok := v.Action.(inplace.Call); ok {
						v.Action = inplace.Call{Step: skipping.Steps[0], Operation: c.Operation}
					}
				}
			}),
			plan: "cv", want: "it is not its turn",
		},
		"allows an attempt too many": {
			decider: edited(func(f *inplace.Facts) { f.Policy.MaxAttempts++ }, nil), plan: "v", want: "attempt 3 of at most 2",
		},
		"tries again without being asked": {
			decider: edited(func(f *inplace.Facts) { f.Retry = true }, nil), plan: "v", want: "though nobody asked for it",
		},
		"does not soak": {
			decider: edited(func(f *inplace.Facts) { f.Policy.Soak = 0 }, nil), plan: "v", soak: soak, want: "Ready at v1.31.1 only since",
		},
		"soaks on when the kubelet falls back": {
			decider: edited(nil, func(f inplace.Facts, v *inplace.Verdict) {
				if p := v.Progress; p != nil && f.Progress != nil && f.Progress.Verified != nil && p.Verified == nil {
					kept := *p
					kept.Verified = f.Progress.Verified
					v.Progress = &kept
				}
			}),
			plan: "v", soak: soak, budget: budget{falls: 1}, want: "Ready at v1.31.1 only since",
		},
		"uncordons what it did not cordon": {
			decider: edited(func(f *inplace.Facts) {
				editProgress(f, func(p *inplace.Progress) { p.Cordoned = true })
			}, func(f inplace.Facts, v *inplace.Verdict) {
				if _, drains := v.Action.(inplace.Drain); !drains && v.Progress != nil && f.Progress != nil {
					kept := *v.Progress
					kept.Cordoned = f.Progress.Cordoned
					v.Progress = &kept
				}
			}),
			plan: "V", budget: budget{cordons: 1}, want: "somebody else cordoned it",
		},
		"drains whatever the updater says": {
			decider: edited(func(f *inplace.Facts) {
				editProgress(f, func(p *inplace.Progress) { p.CanBegin = p.Operation })
			}, nil),
			plan: "V", want: "drained before the updater said that it can begin",
		},
		"does not record that it cordons": {
			decider: edited(nil, func(_ inplace.Facts, v *inplace.Verdict) {
				if v.Progress != nil {
					kept := *v.Progress
					kept.Cordoned = false
					v.Progress = &kept
				}
			}),
			plan: "V", want: "cordoned before that is recorded",
		},
		"abandons at once": {
			decider: edited(nil, func(f inplace.Facts, v *inplace.Verdict) {
				if f.Abandon && f.OwnerMovedOn && f.Progress != nil {
					*v = inplace.Verdict{Progress: f.Progress, Action: inplace.AbandonUpdate{Uncordon: f.Progress.Cordoned}}
				}
			}),
			plan: "v", budget: budget{abandons: 1}, want: "abandoned while an updater may be at work",
		},
		"grants every wish to abandon": {
			decider: edited(func(f *inplace.Facts) { f.Abandon, f.OwnerMovedOn = true, true }, nil), plan: "v", want: "nobody asked for it",
		},
		"waits for ever": {
			decider: edited(nil, func(f inplace.Facts, v *inplace.Verdict) {
				if _, ends := v.Action.(inplace.Finish); ends {
					*v = inplace.Verdict{Progress: f.Progress, Action: inplace.Wait{After: time.Second, Reason: inplace.ReasonSoaking, Message: "soaking"}}
				}
			}),
			plan: "v", want: "a fair run does not end",
		},
		"leaves the node cordoned": {
			decider: edited(func(f *inplace.Facts) {
				if f.Progress != nil && f.Progress.Phase == inplace.Soaking {
					f.Node.Unschedulable = false
				}
			}, nil),
			plan: "V", soak: soak, want: "the node is still cordoned",
		},
		"does not count the others": {
			decider: edited(func(f *inplace.Facts) { f.Others.InFlight = 0 }, nil), plan: "v", budget: budget{others: 2}, want: "and maxInFlight is 2",
		},
		"takes the update for settled": {
			decider: edited(func(f *inplace.Facts) { f.Others.Settled = true }, nil), plan: "v", budget: budget{others: 1}, want: "of which none has ended the update",
		},
		"changes what it was given": {
			decider: edited(func(f *inplace.Facts) {
				if f.Progress != nil && f.Progress.Phase == inplace.Verifying {
					f.Progress.Attempt++
				}
			}, nil),
			plan: "v", want: "changes its input",
		},
	}
}

// TestMutants breaks the decider and the driver on purpose: each fault must be found, or the exploration proves nothing.
func TestMutants(t *testing.T) {
	t.Parallel()
	for name, tt := range mutants() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(tt.decider, tt.plan, 2, tt.soak)
			s.budget = tt.budget
			visited, _, violation := explore(s, 20_000)
			if !strings.Contains(violation, tt.want) {
				t.Errorf("the fault is not found in %d states: want %q, got\n%s", visited, tt.want, violation)
			}
			t.Logf("found in %d states:\n%s", visited, violation)
		})
	}
}

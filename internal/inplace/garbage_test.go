package inplace_test

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/pkg/version"
)

func TestUnusableProgress(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		progress inplace.Progress
		want     string
	}{
		"empty":                         {inplace.Progress{}, "it has no id"},
		"no phase":                      {inplace.Progress{ID: "u", Target: "new", To: newer}, "it has no phase"},
		"a phase from the future":       {inplace.Progress{ID: "u", Target: "new", To: newer, Phase: "Dreaming"}, `"Dreaming" is unknown to this release`},
		"draining for no step":          {inplace.Progress{ID: "u", To: newer, Phase: inplace.Draining, Operation: "u-1"}, "phase Draining, but no step is left"},
		"updating without a step":       {inplace.Progress{ID: "u", To: newer, Phase: inplace.Updating, Operation: "u-1"}, "phase Updating, but no step is left"},
		"updating without operation":    {inplace.Progress{ID: "u", To: newer, Phase: inplace.Updating, Steps: plan("v")}, "has no operation id"},
		"backing off without a step":    {inplace.Progress{ID: "u", To: newer, Phase: inplace.BackingOff, Operation: "u-1"}, "phase BackingOff, but no step is left"},
		"verifying without anything":    {inplace.Progress{To: newer, Phase: inplace.Verifying}, "it has no id"},
		"to another version than asked": {inplace.Progress{ID: "u", Target: "new", To: older, Phase: inplace.Soaking}, "its spec asks for v1.31.1 now"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(sound(), "v", 2, 0)
			tt.progress.Target, tt.progress.Decision = s.target, s.decision.ID
			s.saved = &tt.progress
			s.poll()
			refusal, ok := s.verdict.Action.(inplace.Refuse)
			if !ok || !strings.Contains(refusal.Message, tt.want) || !strings.Contains(refusal.Message, "windlass.dev/update-abandon") || s.verdict.Progress != &tt.progress {
				t.Errorf("%+v", s.verdict)
			}
			// A person's wish to give it up is granted at once: nothing can be at work that anybody knows of.
			s.abandon, s.moved, s.now = true, true, s.now.Add(time.Hour)
			s.poll()
			if _, ok := s.verdict.Action.(inplace.AbandonUpdate); !ok {
				t.Errorf("it cannot be abandoned: %+v", s.verdict)
			}
		})
	}
}

// TestLaterPhase: an updater may be at work in a phase of a later release, so nothing begins, whatever the
// Machine's owner asks for by now, and the update is given up only when an attempt's time is over.
func TestLaterPhase(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(*inplace.Facts){
		"the same update":  func(*inplace.Facts) {},
		"another decision": func(f *inplace.Facts) { f.Decision.ID = "later" },
		"another target":   func(f *inplace.Facts) { f.Target = "new" },
		"another version":  func(f *inplace.Facts) { f.Desired = older },
		"a retry":          func(f *inplace.Facts) { f.Retry = true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := underWay("Dreaming")
			edit(&f)
			if v := inplace.Decide(f); outcome(v) != "UnknownPhase" || v.Progress != f.Progress {
				t.Errorf("%+v", v)
			}
			f.Abandon, f.OwnerMovedOn = true, true
			if v := inplace.Decide(f); outcome(v) != "UnknownPhase" {
				t.Errorf("it is given up at once: %+v", v)
			}
			f.Now = f.Now.Add(f.Policy.AttemptTimeout + 1)
			if v := inplace.Decide(f); outcome(v) != "something else" {
				t.Errorf("it cannot be given up: %+v", v)
			}
		})
	}
}

// TestAnyProgress decides on whatever may stand in an annotation. Nothing panics, and no updater is called without a name for
// the attempt.
func TestAnyProgress(t *testing.T) {
	t.Parallel()
	phases := []inplace.Phase{"", "Dreaming", inplace.Draining, inplace.Updating, inplace.BackingOff, inplace.Verifying, inplace.Soaking, inplace.Failed}
	versions := []version.Version{{}, older, newer}
	rapid.Check(t, func(t *rapid.T) {
		at := func(name string) time.Time {
			return epoch.Add(time.Duration(rapid.Int64Range(-100_000, 100_000).Draw(t, name)) * time.Second)
		}
		may := func(name string) *time.Time {
			if rapid.Bool().Draw(t, name) {
				return nil
			}
			when := at(name)
			return &when
		}
		s := start(sound(), "v", rapid.IntRange(-1, 3).Draw(t, "attempts"), soak)
		s.node.Ready, s.node.Exists = rapid.Bool().Draw(t, "ready"), rapid.Bool().Draw(t, "exists")
		s.retry, s.abandon, s.moved = rapid.Bool().Draw(t, "retry"), rapid.Bool().Draw(t, "abandon"), rapid.Bool().Draw(t, "moved")
		s.saved = &inplace.Progress{
			ID: rapid.SampledFrom([]string{"", "u"}).Draw(t, "id"), Target: rapid.SampledFrom([]string{"", "new"}).Draw(t, "target"), To: rapid.SampledFrom(versions).Draw(t, "to"),
			Phase:   rapid.SampledFrom(phases).Draw(t, "phase"),
			Steps:   plan(rapid.SampledFrom([]string{"", "v", "cV"}).Draw(t, "steps")),
			Attempt: rapid.IntRange(-1, 2000).Draw(t, "attempt"), Operations: rapid.IntRange(-1, 5).Draw(t, "operations"),
			Operation: rapid.SampledFrom([]string{"", "u-1"}).Draw(t, "operation"),
			Started:   at("started"), NotBefore: may("notBefore"), Verified: may("verified"),
		}
		s.poll()
		for range 5 {
			if a, ok := s.verdict.Action.(inplace.Wait); ok && a.After <= 0 {
				t.Fatalf("%+v", a)
			}
			if a, ok := s.verdict.Action.(inplace.CanBegin); ok {
				if a.Operation == "" || a.Step.Updater == "" {
					t.Fatalf("%+v asks %+v", s.saved, a)
				}
				s.facts.Progress = s.verdict.Progress
				s.verdict = inplace.AnsweredCanBegin(s.facts, inplace.Readiness{})
			}
			if _, ok := s.verdict.Action.(inplace.Drain); ok {
				s.facts.Progress = s.verdict.Progress
				s.verdict = inplace.Drained(s.facts)
			}
			if a, ok := s.verdict.Action.(inplace.Call); ok {
				if a.Operation == "" || a.Step.Updater == "" {
					t.Fatalf("%+v calls %+v", s.saved, a)
				}
				s.facts.Progress = s.verdict.Progress
				outcome := inplace.Outcome(rapid.IntRange(-1, 4).Draw(t, "outcome"))
				s.verdict = inplace.Answered(s.facts, inplace.Answer{Outcome: outcome})
			}
		}
	})
}

package inplace

import (
	"testing"
	"time"

	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/pkg/version"
)

// TestDetail takes the engine's own messages: each is about the update that it was made of, and about no other step, attempt or
// phase.
func TestDetail(t *testing.T) {
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	with := func(change func(*Progress)) *Progress {
		p := &Progress{
			ID: "u", To: version.MustParse("v1.32.1"), Phase: Updating, Attempt: 1, Operation: "u-2", Started: now, StepBegan: now,
			Steps: []Step{{Updater: "kubelet", SetsVersion: true}}, Done: []Finished{{Updater: "files"}},
		}
		change(p)
		return p
	}
	facts := func(p *Progress) Facts {
		return Facts{
			Now: now, Progress: p, Desired: p.To, Node: Node{Exists: true, Kubelet: version.MustParse("v1.31.0")},
			Policy: policy.Policy{MaxAttempts: 3, AttemptTimeout: time.Hour, Soak: time.Hour},
		}
	}
	const node = "waiting because the node's kubelet reports v1.31.0, not v1.32.1"
	for _, made := range []struct {
		said    Phase
		verdict Verdict
		want    string
	}{
		{Draining, StillDraining(facts(with(func(p *Progress) { p.Phase = Draining })), "1 pod left"), "1 pod left"},
		{Updating, Answered(facts(with(func(*Progress) {})), Answer{Outcome: InProgress, Message: "half way"}), "half way"},
		{Verifying, Decide(facts(with(func(p *Progress) { p.Phase = Verifying }))), node},
		{Soaking, Decide(facts(with(func(p *Progress) {
			p.Phase, p.Done, p.Steps = Soaking, append(p.Done, Finished{Updater: "kubelet"}), nil
		}))), node},
	} {
		said := made.said
		w, ok := made.verdict.Action.(Wait)
		if !ok {
			t.Fatalf("%s: the action is %#v", said, made.verdict.Action)
		}
		message := "In-place update in progress: " + w.Message
		if !AboutStep(message) {
			t.Errorf("%q counts as being about no step", message)
		}
		for _, phase := range []Phase{Draining, Updating, Verifying, Soaking, BackingOff, Failed, "Dancing"} {
			detail, current := Detail(with(func(p *Progress) { p.Phase = phase }), message)
			if current != (phase == said) || current && detail != made.want {
				t.Errorf("in phase %s, %q gives %q, %t", phase, message, detail, current)
			}
		}
		for name, p := range map[string]*Progress{
			"next attempt": with(func(p *Progress) { p.Phase, p.Attempt = said, 2 }),
			"tenth":        with(func(p *Progress) { p.Phase, p.Attempt = said, 11 }),
			"other step":   with(func(p *Progress) { p.Phase, p.Done = said, nil }),
		} {
			if _, current := Detail(p, message); current && said != Soaking {
				t.Errorf("%s: %q counts as current", name, message)
			}
		}
	}
	for _, queued := range []string{
		"not started: as many machines as maxInFlight allows (1) are being updated",
		`In-place update in progress: not started: updater "x" lets no machine begin: night`,
	} {
		if AboutStep(queued) {
			t.Errorf("%q counts as being about a step", queued)
		}
	}
	said := `In-place update in progress: updater "x" (1 of 1), attempt 1: not started: updater "y" is busy`
	if !AboutStep(said) {
		t.Errorf("%q counts as being about no step", said)
	}
}

package inplace_test

import (
	"strings"
	"testing"
	"time"

	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/pkg/version"
)

// TestBounded lets an update that nobody asks for again end by itself, where one that Cluster API asks for waits.
func TestBounded(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	from, to := version.MustParse("v1.31.1"), version.MustParse("v1.31.2")
	well := inplace.Node{Exists: true, Ready: true, Kubelet: to, ReadySince: began}
	away := inplace.Node{Unknown: "no answer"}
	broken := inplace.Node{Exists: true, NotReady: "kubelet stopped", Kubelet: from}
	const limit, soak = time.Minute, 30 * time.Second
	steps := []inplace.Step{{Updater: "u", SetsVersion: true, NeedsDrain: true, Asks: true}}
	progress := func(phase inplace.Phase, drained bool) *inplace.Progress {
		p := &inplace.Progress{
			ID: "i", To: to, Phase: phase, Attempt: 1, Operations: 1, Operation: "i-1", CanBegin: "i-1", Steps: steps, Drained: drained,
			Began: began, StepBegan: began, Started: began,
		}
		if phase == inplace.Soaking {
			p.Steps, p.Verified = nil, &began
		}
		return p
	}
	for name, tt := range map[string]struct {
		phase   inplace.Phase
		drained bool
		node    inplace.Node
		after   time.Duration
		// unhealthy and noDrain edit the facts.
		unhealthy string
		noDrain   bool
		// bounded and endless are the phases of such an update, and of one of Cluster API's.
		bounded, endless inplace.Phase
		words            string
	}{
		"a drain has its time":              {phase: inplace.Draining, node: broken, after: limit, bounded: inplace.Draining, endless: inplace.Draining},
		"a drain that is blocked":           {phase: inplace.Draining, node: broken, after: limit + 1, bounded: inplace.BackingOff, endless: inplace.Draining, words: "was not drained within 1m0s"},
		"a drain of a node away":            {phase: inplace.Draining, node: away, after: limit, bounded: inplace.Draining, endless: inplace.Draining, words: "no answer"},
		"a drain of a node away for long":   {phase: inplace.Draining, node: away, after: limit + 1, bounded: inplace.Updating, endless: inplace.Draining},
		"done, away":                        {phase: inplace.Verifying, node: away, after: limit, bounded: inplace.Verifying, endless: inplace.Verifying},
		"done, away for long":               {phase: inplace.Verifying, node: away, after: limit + 1, bounded: inplace.BackingOff, endless: inplace.Verifying, words: "was not seen for 1m0s"},
		"soaking, away":                     {phase: inplace.Soaking, node: away, after: soak + limit, bounded: inplace.Soaking, endless: inplace.Soaking},
		"soaking, away for long":            {phase: inplace.Soaking, node: away, after: soak + limit + 1, bounded: inplace.Failed, endless: inplace.Soaking, words: "was not seen for 1m0s"},
		"soaking, not Ready for long":       {phase: inplace.Soaking, node: broken, after: soak + limit + 1, bounded: inplace.Failed, endless: inplace.Failed, words: "does not stay Ready"},
		"unhealthy":                         {phase: inplace.Verifying, node: well, unhealthy: "no etcd", bounded: inplace.Verifying, endless: inplace.Verifying, words: "no etcd"},
		"unhealthy and not Ready":           {phase: inplace.Verifying, node: broken, unhealthy: "no etcd", bounded: inplace.Verifying, endless: inplace.Verifying, words: "v1.31.1"},
		"next attempt":                      {phase: inplace.BackingOff, node: well, bounded: inplace.Draining, endless: inplace.Draining},
		"next attempt, not Ready":           {phase: inplace.BackingOff, node: broken, bounded: inplace.Updating, endless: inplace.Draining},
		"next attempt, gone":                {phase: inplace.BackingOff, bounded: inplace.Updating, endless: inplace.Draining},
		"next attempt, away":                {phase: inplace.BackingOff, node: away, bounded: inplace.Draining, endless: inplace.Draining},
		"next attempt, away, drained":       {phase: inplace.BackingOff, drained: true, node: away, bounded: inplace.Updating, endless: inplace.Draining},
		"next attempt, drained":             {phase: inplace.BackingOff, drained: true, node: cordoned(well), bounded: inplace.Updating, endless: inplace.Updating},
		"next attempt, drained, uncordoned": {phase: inplace.BackingOff, drained: true, node: well, bounded: inplace.Draining, endless: inplace.Draining},
		"next attempt, cordoned by another": {phase: inplace.BackingOff, node: cordoned(well), bounded: inplace.Draining, endless: inplace.Draining},
		"no drain by the policy":            {phase: inplace.BackingOff, node: well, noDrain: true, bounded: inplace.Updating, endless: inplace.Updating},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for bounded, want := range map[bool]inplace.Phase{true: tt.bounded, false: tt.endless} {
				f := inplace.Facts{
					Now: began.Add(tt.after), FreshID: "j", Desired: to, Node: tt.node, Unhealthy: tt.unhealthy, Bounded: bounded,
					Policy:   policy.Policy{Drain: !tt.noDrain, Soak: soak, MaxAttempts: 2, AttemptTimeout: limit},
					Progress: progress(tt.phase, tt.drained),
				}
				v := inplace.Decide(f)
				if v.Progress.Phase != want {
					t.Fatalf("bounded %t: phase %s, want %s", bounded, v.Progress.Phase, want)
				}
				said := v.Progress.LastError
				if wait, ok := v.Action.(inplace.Wait); ok {
					said += wait.Message
				}
				if bounded && !strings.Contains(said, tt.words) {
					t.Errorf("%q does not have the words %q", said, tt.words)
				}
			}
		})
	}
}

func cordoned(n inplace.Node) inplace.Node {
	n.Unschedulable = true
	return n
}

// TestStart names the policy in the record, and keeps what an earlier update did to the node.
func TestStart(t *testing.T) {
	t.Parallel()
	f := inplace.Facts{FreshID: "j", PolicyName: "keep", Desired: version.MustParse("v1.31.2"), Bounded: true}
	steps := []inplace.Step{{Updater: "u", SetsVersion: true}}
	p := inplace.Start(f, steps, nil, nil).Progress
	if p.Policy != "keep" || p.Cordoned || p.Drained || p.Unended {
		t.Errorf("%+v", p)
	}
	p = inplace.Start(f, steps, nil, &inplace.Progress{Cordoned: true, Drained: true, Unended: true}).Progress
	if !p.Cordoned || !p.Drained || !p.Unended {
		t.Errorf("%+v", p)
	}
}

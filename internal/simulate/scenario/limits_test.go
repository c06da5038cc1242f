package scenario_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/pool"
	"github.com/windlass-dev/windlass/internal/simulate/scenario"
)

// TestBadRollouts: what a policy's rollout says is checked, and named.
func TestBadRollouts(t *testing.T) {
	t.Parallel()
	const head = "clusters: [{name: c, from: v1.31.0, to: v1.32.0, versions: [v1.31.0, v1.32.0]}]\n" +
		"policies: [{name: p, strategy: InPlace, rollout: "
	for rollout, want := range map[string]string{
		"{canary: few}":     "policies[0].rollout.canary",
		"{canary: -1}":      "policies[0].rollout.canary",
		"{batches: [2, 0]}": "policies[0].rollout.batches[1]",
		"{partition: -2}":   "policies[0].rollout.partition",
		"{maxFailures: -1}": "policies[0].rollout.maxFailures",
		"{batches: [0%]}":   "policies[0].rollout.batches[0]",
		"{canary: 101%}":    "policies[0].rollout.canary",

		"{order: {oneAtATime: true}}":            "policies[0].rollout.order.oneAtATime",
		"{order: {labels: [a b]}}":               "policies[0].rollout.order.labels[0]",
		"{order: {last: {matchLabels: {a: +}}}}": "policies[0].rollout.order.last",
		"{machineDeadline: soon}":                "policies[0].rollout.machineDeadline",
		"{groupDeadline: -1h}":                   "policies[0].rollout.groupDeadline",
	} {
		file, err := scenario.Parse("file", []byte(head+rollout+"}]\n"))
		if err == nil {
			_, err = scenario.Translate(file, scenario.Options{})
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: the error is %v, want one about %s", rollout, err, want)
		}
	}
}

// TestOrderAndDeadlines: a policy's order, deadlines and soak time reach the limits, and a pool's
// labels its machines.
func TestOrderAndDeadlines(t *testing.T) {
	t.Parallel()
	const text = `
clusters:
- name: c
  from: v1.31.0
  to: v1.32.0
  pools: [{name: p, replicas: 2, policy: p, labels: [{rack: a}, {rack: b}]}]
policies:
- name: p
  strategy: Replace
  soak: 5m
  rollout:
    order: {labels: [rack], oneAtATime: true, last: {matchLabels: {tier: ingest}}}
    machineDeadline: 30m
    groupDeadline: 2h
`
	file, err := scenario.Parse("file", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	s, err := scenario.Translate(file, scenario.Options{})
	if err != nil {
		t.Fatal(err)
	}
	u := s.Config.Clusters[0].Pools[0].Update
	want := pool.Limits(policy.Default())
	want.Soak, want.MachineDeadline, want.GroupDeadline = 5*time.Minute, 30*time.Minute, 2*time.Hour
	want.Order = policy.Order{Labels: []string{"rack"}, OneAtATime: true}
	if diff := cmp.Diff(&want, u.Limits, cmpopts.IgnoreFields(policy.Order{}, "Last")); diff != "" {
		t.Errorf("the limits (-want +got):\n%s", diff)
	}
	if last := u.Limits.Order.Last.String(); last != "tier=ingest" {
		t.Errorf("the last ones are %q", last)
	}
	if diff := cmp.Diff([]map[string]string{{"rack": "a"}, {"rack": "b"}}, u.Labels); diff != "" {
		t.Errorf("the labels (-want +got):\n%s", diff)
	}
}

// TestLabelsOfNoMachine: labels that no Machine can have are reported.
func TestLabelsOfNoMachine(t *testing.T) {
	t.Parallel()
	const text = "clusters: [{name: c, from: v1.31.0, to: v1.32.0, pools: " +
		"[{name: p, replicas: 2, labels: [{rack: a}, {rack: \"?\"}]}]}]\n"
	file, err := scenario.Parse("file", []byte(text))
	if err == nil {
		_, err = scenario.Translate(file, scenario.Options{})
	}
	if err == nil || !strings.Contains(err.Error(), "clusters[0].pools[0].labels[1]") {
		t.Errorf("the error is %v", err)
	}
}

// TestLargeMaxInFlight holds that a maxInFlight beyond an int32 does not become another limit.
func TestLargeMaxInFlight(t *testing.T) {
	t.Parallel()
	const text = `
clusters: [{name: c, from: v1.31.0, to: v1.32.0, pools: [{name: p, replicas: 2, policy: p}]}]
policies: [{name: p, strategy: Replace, maxInFlight: 4294967297}]
`
	file, err := scenario.Parse("file", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	s, err := scenario.Translate(file, scenario.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Config.Clusters[0].Pools[0].Update.Policy.MaxInFlight; got != math.MaxInt32 {
		t.Errorf("maxInFlight is %d, want %d", got, math.MaxInt32)
	}
}

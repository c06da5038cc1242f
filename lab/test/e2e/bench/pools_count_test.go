package bench_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/lab/internal/requests"
	"github.com/windlass-dev/windlass/lab/internal/setup"
)

func TestCount(t *testing.T) {
	const manager = "system:serviceaccount:capi-system:capi-manager"
	patch := requests.Request{User: manager, Verb: "patch", Group: "cluster.x-k8s.io", Resource: "machines", Code: 200}
	with := func(change func(*requests.Request)) requests.Request {
		r := patch
		change(&r)
		return r
	}
	got := counted([]requests.Request{
		patch,
		with(func(r *requests.Request) { r.Verb, r.Code = "update", 409 }),
		with(func(r *requests.Request) { r.DryRun = true }),
		with(func(r *requests.Request) { r.Verb = "list" }),
		with(func(r *requests.Request) { r.User = testUser }),
		with(func(r *requests.Request) { r.Group, r.Resource, r.Verb = "events.k8s.io", "events", "create" }),
		with(func(r *requests.Request) { r.Group, r.Resource = "coordination.k8s.io", "leases" }),
		with(func(r *requests.Request) { r.User = "capi-in-memory" }),
	})
	want := outcome{
		Writes: 3, OtherWrites: 1, DryRuns: 1, Conflicts: 1, Requests: 6, ByRequest: map[string]int{
			"capi-manager patch machines": 1, "capi-manager update machines": 1, "capi-manager create events": 1,
			"capi-in-memory patch machines": 1,
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
	sum := outcome{Machines: 2, HandOver: []float64{1}}.plus(outcome{Machines: 1, HandOver: []float64{2}, Writes: 6})
	if sum.perMachine(sum.Writes) != 2 || meanHandOver(sum) != 1.5 {
		t.Errorf("the sum has %.1f writes for each machine and a hand-over of %.1f s, want 2 and 1.5",
			sum.perMachine(sum.Writes), meanHandOver(sum))
	}
}

func TestMarkdown(t *testing.T) {
	found := results{}
	found.add(pairsInPlace, setup.EngineStock, outcome{Machines: 2, Writes: 150, ByRequest: map[string]int{"a patch machines": 150}})
	found.add(pairsInPlace, setup.EngineWindlass, outcome{Machines: 2, Writes: 60, ByRequest: map[string]int{"a patch machines": 60}})
	found.add(fleetResting, setup.EngineWindlass, outcome{Machines: 10, Conflicts: 1})
	const want = `
| | stock | windlass | windlass / stock | wanted |
|---|--:|--:|--:|---|
| **in place, pools of 2** (2 machines) | | | | |
| writes per machine | 75.0 | 30.0 | 0.40 | ≤ 30 |
| ` + "`a patch machines`" + ` | 75.0 | 30.0 | 0.40 | |
| **fleet, at rest** (10 machines) | | | | |
| conflicts (409) | - | 1 | - |  |
`
	if diff := cmp.Diff(strings.TrimPrefix(want, "\n"), found.markdown()); diff != "" {
		t.Errorf("the table (-want +got):\n%s", diff)
	}
}

package scenario_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/windlass-dev/windlass/internal/gate"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/simulate/fleet"
	"github.com/windlass-dev/windlass/internal/simulate/scenario"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// sameValues compares what a scenario means. Functions are tested by what they return.
var sameValues = cmp.Options{
	cmp.AllowUnexported(fleet.Distribution{}), cmpopts.EquateEmpty(), cmpopts.IgnoreFields(fleet.Cluster{}, "Gates"), cmpopts.IgnoreTypes(fleet.Engine{}),
}

func translate(t *testing.T, text string) scenario.Simulation {
	t.Helper()
	f, err := scenario.Parse("s.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	s, err := scenario.Translate(f, scenario.Options{File: "s.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func v(text string) version.Version { return version.MustParse(text) }

func TestEverythingThatAScenarioSays(t *testing.T) {
	t.Parallel()
	got := translate(t, `
begin: 2026-03-01T22:00:00+01:00
runs: 7
seed: 11
clustersAtOnce: 2
clusters:
- name: edge
  count: 2
  from: v1.29.4
  to: v1.31.1
  versions: [v1.29.4, v1.30.2, v1.31.1]
  skewPolicy: k0s
  poolsAtOnce: 3
  controlPlane: {replicas: 5, maxSurge: 0, policy: snaps, durations: {create: 20m}}
  pools:
  - {name: pooled, kind: MachinePool, replicas: 2, maxSurge: 1, maxUnavailable: 0, durations: {updaters: {os: 9m}}}
  - name: md
    count: 2
    replicas: 7
    version: v1.28.0
    oldest: v1.27.3
    lagging: 2
    maxSurge: 50%
    maxUnavailable: 20%
    maxMinorStep: 2
    policy: snaps
    failureDomains: [a, b]
policies:
- name: snaps
  strategy: InPlace
  fallback: Replace
  maxInFlight: 4
  canary: 0
  drain: true
  soak: 2m
  maxAttempts: 5
  attemptTimeout: 12m
  remediate: true
  updaters:
  - {name: os, needsDrain: true, maxMinors: 3}
  - {name: k8s, maxMinors: 1}
durations:
  create: 10m..15m
  delete: 2m
  drain: p50=1m,p90=3m
  updater: 4m
  updaters: {os: "[6m,7m]"}
  settle: 5s
  react: 2s
  attend: 1h
  giveUp: 30m
failures: {createFails: 0.1, updateFails: 0.2, updateHangs: 0.3, outageEvery: 24h, outageTakes: 1h}
faults: {conflict: 0.01, stale: 0.02, lag: 3s, lost: 0.03, crash: 0.04, restart: 9s}
budget: {qps: 20, burst: 30}
costs: {replace: 100, inPlace: 20}
`)
	snaps := policy.Default()
	snaps.MaxInFlight, snaps.Alone, snaps.Drain, snaps.Soak = 4, 0, true, 2*time.Minute
	snaps.MaxAttempts, snaps.AttemptTimeout, snaps.Remediate = 5, 12*time.Minute, true
	update := fleet.Update{
		InPlace: true, PolicyName: "snaps",
		Steps:  []inplace.Step{{Updater: "os", NeedsDrain: true, MaxMinors: 3}, {Updater: "k8s", SetsVersion: true, MaxMinors: 1}},
		Policy: snaps,
		Timings: fleet.Timings{
			Create: fleet.Uniform(10*time.Minute, 15*time.Minute), Delete: fleet.FixedDuration(2 * time.Minute), Drain: fleet.LogNormal(time.Minute, 3*time.Minute),
			Updaters: map[string]fleet.Distribution{"": fleet.FixedDuration(4 * time.Minute), "os": fleet.Measured([]time.Duration{6 * time.Minute, 7 * time.Minute})},
			Settle:   fleet.FixedDuration(5 * time.Second), React: fleet.FixedDuration(2 * time.Second), Attend: fleet.FixedDuration(time.Hour), GiveUp: fleet.FixedDuration(30 * time.Minute),
			CreateFails: 0.1, UpdateFails: 0.2, UpdateHangs: 0.3,
		},
	}
	controlPlane := update
	controlPlane.Timings.Create = fleet.FixedDuration(20 * time.Minute)
	replaced := fleet.Update{Policy: policy.Default(), Timings: update.Timings}
	replaced.Timings.Updaters = map[string]fleet.Distribution{"": fleet.FixedDuration(4 * time.Minute), "os": fleet.FixedDuration(9 * time.Minute)}
	update.Domains = []string{"a", "b"}
	md := fleet.Pool{
		Kind: plan.MachineDeployment, Version: v("v1.28.0"), Oldest: v("v1.27.3"), Lagging: 2, Replicas: 7,
		MaxSurge: 4, MaxUnavailable: 1, MaxMinorStep: 2, Update: update,
	}
	pool := fleet.Pool{Name: "pooled", Kind: plan.MachinePool, Version: v("v1.29.4"), Replicas: 2, MaxSurge: 1, Update: replaced}
	skew, err := version.FindSkewPolicy("k0s")
	if err != nil {
		t.Fatal(err)
	}
	want := scenario.Simulation{Runs: 7, Seed: 11, Config: fleet.Config{
		Begin: time.Date(2026, time.March, 1, 21, 0, 0, 0, time.UTC), ClustersAtOnce: 2,
		Faults: fleet.Faults{
			Conflict: 0.01, Stale: 0.02, Lag: 3 * time.Second, Lost: 0.03, Crash: 0.04, Restart: 9 * time.Second,
			OutageEvery: fleet.FixedDuration(24 * time.Hour), Outage: fleet.FixedDuration(time.Hour),
		},
		Budget: fleet.Budget{QPS: 20, Burst: 30}, Costs: fleet.Costs{Replace: 100, InPlace: 20},
	}}
	for _, name := range []string{"edge-1", "edge-2"} {
		c := fleet.Cluster{
			Name: name, Target: v("v1.31.1"), Source: plan.VersionList{v("v1.29.4"), v("v1.30.2"), v("v1.31.1")}, Skew: skew, PoolsAtOnce: 3,
			ControlPlane: fleet.ControlPlane{Version: v("v1.29.4"), Replicas: 5, Update: controlPlane},
		}
		for _, p := range []string{"md-1", "md-2"} {
			one := md
			one.Name = p
			c.Pools = append(c.Pools, one)
		}
		c.Pools = append(c.Pools, pool)
		want.Config.Clusters = append(want.Config.Clusters, c)
	}
	if diff := cmp.Diff(want, got, sameValues); diff != "" {
		t.Errorf("the scenario means something else (-want +got):\n%s", diff)
	}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	got := translate(t, `
clusters:
- name: c
  from: v1.29.4
  to: v1.32.1
  pools: [{name: md, replicas: 3}, {name: fast, replicas: 1, policy: p}, {name: half, replicas: 1, policy: p, updaters: [a]}]
policies: [{name: p, strategy: InPlace, updaters: [{name: a, maxMinors: 1}, {name: b, maxMinors: 2}]}]
`)
	c := got.Config.Clusters[0]
	if diff := cmp.Diff(plan.VersionList{v("v1.30.0"), v("v1.31.0"), v("v1.32.1")}, c.Source); diff != "" {
		t.Errorf("other versions (-want +got):\n%s", diff)
	}
	if got.Runs != scenario.DefaultRuns || got.Seed != scenario.DefaultSeed || !got.Config.Begin.Equal(scenario.DefaultBegin()) {
		t.Errorf("runs %d, seed %d, begin %s", got.Runs, got.Seed, got.Config.Begin)
	}
	if c.ControlPlane.Replicas != 3 || c.ControlPlane.MaxSurge != 1 || c.ControlPlane.Update.InPlace {
		t.Errorf("the control plane is %+v", c.ControlPlane)
	}
	md, fast := c.Pools[0], c.Pools[1]
	if md.MaxSurge != 1 || md.MaxUnavailable != 0 || md.Version != v("v1.29.4") || md.MaxMinorStep != 0 {
		t.Errorf("the pool is %+v", md)
	}
	if !fast.Update.Guarded || fast.MaxMinorStep != 2 || !fast.Update.Steps[1].SetsVersion || fast.Update.Policy.MaxInFlight != 1 {
		t.Errorf("the pool updated in place is %+v", fast)
	}
	if fast.MaxSurge != 0 || fast.MaxUnavailable != 1 {
		t.Errorf("in place a machine is made first: %+v", fast)
	}
	half := c.Pools[2]
	if diff := cmp.Diff([]inplace.Step{{Updater: "a", SetsVersion: true, MaxMinors: 1}}, half.Update.Steps); diff != "" || half.MaxMinorStep != 1 {
		t.Errorf("the pool with one of the updaters is %+v", half)
	}
	want := []string{
		"a new machine is Ready after p50=5m,p90=8m (durations.create)",
		"deleting a machine, its drain included, takes 1m (durations.delete)",
		"an updater takes 3m (durations.updater)",
		"a node is Ready 10s after an update in place (durations.settle)",
		"a controller acts on a change after 1s (durations.react)",
		"machines that take longer than giveUp to be created are not given up; only those that createFails picks (durations.giveUp)",
		"no failures are given, so nothing fails (failures)",
		"where no versions are listed, there is taken to be a .0 of each minor between (clusters[].versions)",
		"the policy p leaves out what it has by default: maxInFlight 1, drain false, soak 0s, maxAttempts 3, attemptTimeout 30m (policies)",
		"where pools leave them out, maxSurge is 1 and maxUnavailable 0, and with an InPlace policy 0 and 1 (clusters[].pools)",
		"one pool of a kind is upgraded at a time in a cluster that says nothing else (clusters[].poolsAtOnce)",
		"Cluster API's own controllers are taken to write 130 times for a machine that is replaced, and 31.6 times for one that is updated in place (costs), as was measured with kubeadm; the writes of Windlass do not count Events, of which it makes one or more for each machine and update",
		"Windlass may make 100 requests a second, and 200 at once (budget), as it does by default",
	}
	if diff := cmp.Diff(want, got.Assumptions); diff != "" {
		t.Errorf("other assumptions (-want +got):\n%s", diff)
	}
}

func TestGates(t *testing.T) {
	t.Parallel()
	s := translate(t, `
clusters:
- {name: near, from: v1.29.4, to: v1.31.1}
- {name: far, count: 2, from: v1.29.4, to: v1.31.1}
gates:
- name: nights
  clusters: [far]
  steps: [{at: BeforeControlPlaneUpgrade, versions: [v1.30]}, {at: BeforeWorkersUpgrade}]
  windows: [{timeZone: Europe/Berlin, days: [Saturday, Sunday], from: "22:00", to: "04:00"}]
`)
	if s.Config.Clusters[0].Gates != nil {
		t.Error("a cluster without gates has some")
	}
	for _, tt := range []struct {
		step gate.Step
		want int
	}{
		{gate.Step{Hook: gate.BeforeControlPlaneUpgrade, Version: v("v1.30.9")}, 1},
		{gate.Step{Hook: gate.BeforeControlPlaneUpgrade, Version: v("v1.31.1")}, 0},
		{gate.Step{Hook: gate.BeforeWorkersUpgrade, Version: v("v1.31.1")}, 1},
		{gate.Step{Hook: gate.AfterWorkersUpgrade, Version: v("v1.31.1")}, 0},
	} {
		gates := s.Config.Clusters[2].Gates(tt.step)
		if len(gates) != tt.want {
			t.Errorf("%s: %d gates, not %d", tt.step, len(gates), tt.want)
		}
		for _, g := range gates {
			if words := g.Windows[0].String(); g.Name != "nights" || words != "Sat,Sun 22:00-04:00 Europe/Berlin" {
				t.Errorf("%s: gate %s with the window %s", tt.step, g.Name, words)
			}
		}
	}
}

func TestSourcesTakeThePlaceOfVersions(t *testing.T) {
	t.Parallel()
	f := scenario.File{Clusters: []scenario.Cluster{{Name: "c", From: "v1.29.0", To: "v1.30.0"}}}
	s, err := scenario.Translate(f, scenario.Options{Sources: map[string]plan.Source{"c": plan.NextMinor{}}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(plan.Source(plan.NextMinor{}), s.Config.Clusters[0].Source); diff != "" {
		t.Error(diff)
	}
}

func TestVariants(t *testing.T) {
	t.Parallel()
	text := `
clusters: [{name: c, count: 3, from: v1.29.4, to: v1.30.1, poolsAtOnce: 1, pools: [{name: md, replicas: 3, policy: p}]}]
policies: [{name: p, strategy: InPlace, maxInFlight: 2}]
durations: {updater: 4m, create: 9m}
compare:
- name: faster
  description: More at once.
  clustersAtOnce: 2
  poolsAtOnce: 5
  policies: [{name: p, strategy: InPlace, maxInFlight: 7}]
  durations: {updater: 1m}
- name: replaced
  policies: [{name: p, strategy: Replace}]
`
	s := translate(t, text)
	if len(s.Variants) != 2 {
		t.Fatalf("%d variants", len(s.Variants))
	}
	faster, replaced := s.Variants[0], s.Variants[1]
	md := faster.Config.Clusters[2].Pools[0]
	if faster.Name != "faster" || faster.Description != "More at once." || faster.Config.ClustersAtOnce != 2 || faster.Config.Clusters[2].PoolsAtOnce != 5 ||
		md.Update.Policy.MaxInFlight != 7 || md.Update.Timings.Updaters[""].At(0) != time.Minute || md.Update.Timings.Create.At(0) != 9*time.Minute {
		t.Errorf("the variant is %+v", faster)
	}
	if replaced.Config.Clusters[0].Pools[0].Update.InPlace || replaced.Config.ClustersAtOnce != 0 {
		t.Errorf("the variant is %+v", replaced)
	}
	before := s.Config.Clusters[0].Pools[0].Update
	if before.Policy.MaxInFlight != 2 || before.Timings.Updaters[""].At(0) != 4*time.Minute {
		t.Errorf("the scenario itself is changed: %+v", before)
	}
	for add, want := range map[string]string{
		"- name: replaced\n":                                       "compare[2].name: Duplicate value",
		"- name: other\n  poolsAtOnce: -1\n":                       "with compare[2]: clusters[0].poolsAtOnce: Invalid value: -1",
		"- description: no name\n":                                 "compare[2].name: Required value",
		"- name: other\n  policies: [{name: p, strategy: None}]\n": "with compare[2]: policies[0].strategy: Unsupported value",
	} {
		f, err := scenario.Parse("s.yaml", []byte(text+add))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := scenario.Translate(f, scenario.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, not %s", add, err, want)
		}
	}
}

func TestWhatIsSaidBesideObjects(t *testing.T) {
	t.Parallel()
	objects := scenario.File{
		Clusters: []scenario.Cluster{{Name: "c", From: "v1.29.0", To: "v1.30.0"}}, Policies: []scenario.Policy{{Name: "p"}},
		Gates: []scenario.Gate{{Name: "theirs"}}, Durations: scenario.Durations{Create: "1m", Delete: "2m", Updaters: map[string]string{"u": "3m", "w": "4m"}},
	}
	got, err := objects.With(scenario.File{
		Runs: 3, Gates: []scenario.Gate{{Name: "mine"}}, Durations: scenario.Durations{Create: "5m", Updaters: map[string]string{"u": "6m"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := scenario.File{
		Runs: 3, Clusters: objects.Clusters, Policies: objects.Policies, Gates: []scenario.Gate{{Name: "theirs"}, {Name: "mine"}},
		Durations: scenario.Durations{Create: "5m", Delete: "2m", Updaters: map[string]string{"u": "6m", "w": "4m"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("another scenario (-want +got):\n%s", diff)
	}
	if _, err := objects.With(scenario.File{Policies: objects.Policies}); err == nil {
		t.Error("policies of two places count")
	}
}

// TestGroupsThatClusterAPIRefuses: what its webhooks refuse, and what it would never update, is no scenario.
func TestGroupsThatClusterAPIRefuses(t *testing.T) {
	t.Parallel()
	const (
		policies = `
policies:
- {name: kept, strategy: InPlace}
- {name: either, strategy: InPlace, fallback: Replace}
- {name: replaced, strategy: Replace}
`
		surge   = "clusters[0].pools[0].maxSurge: Invalid value: "
		refuses = "clusters[0].controlPlane.maxSurge: Invalid value: 0: Cluster API refuses maxSurge 0 for a control plane of fewer than 3 replicas"
		few     = "clusters[0].controlPlane.policy: Invalid value: \"kept\": a control plane of 2 cannot be updated in place"
	)
	for name, tt := range map[string]struct {
		controlPlane, pool string
		// want is a problem; without one surge and unavailable are those of the pool, and controlPlaneSurge of the control plane.
		want                                  string
		controlPlaneSurge, surge, unavailable int
	}{
		"defaults":                          {controlPlaneSurge: 1, surge: 1},
		"in place":                          {controlPlane: "policy: kept", pool: "policy: kept", unavailable: 1},
		"in place or replaced":              {controlPlane: "policy: either", pool: "policy: either", unavailable: 1},
		"replaced by a policy":              {controlPlane: "policy: replaced", pool: "policy: replaced", controlPlaneSurge: 1, surge: 1},
		"one machine, with a new one first": {controlPlane: "replicas: 1", pool: "policy: kept, maxUnavailable: 50%", controlPlaneSurge: 1, unavailable: 2},
		"one machine in place or replaced":  {controlPlane: "replicas: 1, policy: either", controlPlaneSurge: 1, surge: 1},
		"a surge that may replace":          {controlPlane: "maxSurge: 1, policy: either", pool: "maxSurge: 2, policy: either", controlPlaneSurge: 1, surge: 2, unavailable: 1},
		"no surge that is none":             {controlPlane: "maxSurge: 0, policy: kept", pool: "maxSurge: 0%, policy: kept", unavailable: 1},
		"one machine, the old one first":    {controlPlane: "replicas: 1, maxSurge: 0", want: refuses},
		"and the policy may replace":        {controlPlane: "replicas: 2, maxSurge: 0, policy: either", want: refuses},
		"two guarded machines":              {controlPlane: "replicas: 2, policy: kept", want: few},
		"and a surge does not help":         {controlPlane: "replicas: 2, maxSurge: 1, policy: kept", want: few},
		"a guarded control plane's surge":   {controlPlane: "maxSurge: 1, policy: kept", want: "clusters[0].controlPlane.maxSurge: Invalid value: 1: maxSurge is 1: Cluster API creates a machine before it asks"},
		"a guarded pool's surge":            {pool: "maxSurge: 1, policy: kept", want: surge + "1: maxSurge is 1: Cluster API creates a machine before it asks"},
		"a guarded pool's part":             {pool: "maxSurge: 1%, policy: kept", want: surge + "1: maxSurge is 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, err := scenario.Parse("s.yaml", []byte("clusters: [{name: c, from: v1.29.4, to: v1.30.1, controlPlane: {"+tt.controlPlane+"}, pools: [{name: md, replicas: 4, "+tt.pool+"}]}]"+policies))
			if err != nil {
				t.Fatal(err)
			}
			s, err := scenario.Translate(f, scenario.Options{})
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("the error is %v, not %s", err, tt.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			c := s.Config.Clusters[0]
			got := []int{c.ControlPlane.MaxSurge, c.Pools[0].MaxSurge, c.Pools[0].MaxUnavailable}
			if diff := cmp.Diff([]int{tt.controlPlaneSurge, tt.surge, tt.unavailable}, got); diff != "" {
				t.Errorf("other limits (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPoolsOfOneClusterAreBounded(t *testing.T) {
	t.Parallel()
	file := func(count int) scenario.File {
		return scenario.File{Clusters: []scenario.Cluster{
			{Name: "c", Count: 3, From: "v1.29.0", To: "v1.30.0", Pools: []scenario.Pool{{Name: "md", Count: count - 1}, {Name: "other"}}},
		}}
	}
	s, err := scenario.Translate(file(scenario.MaxPools), scenario.Options{})
	if err != nil || len(s.Config.Clusters[2].Pools) != scenario.MaxPools {
		t.Errorf("the most that there may be: %v", err)
	}
	_, err = scenario.Translate(file(scenario.MaxPools+1), scenario.Options{})
	if want := "clusters[0].pools: Invalid value: 2001: a cluster has at most 2000 of them"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("one more: %v, not %s", err, want)
	}
	many := file(scenario.MaxPools)
	many.Clusters[0].Count = 50
	_, err = scenario.Translate(many, scenario.Options{})
	if want := "there are more than 100000 control planes and pools"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("many clusters: %v, not %s", err, want)
	}
}

// TestFailingMachinesAreGivenUpLater: a machine that fails and is made anew at the same instant would be so for ever.
func TestFailingMachinesAreGivenUpLater(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		file, pool, want string
		fails            float64
	}{
		{file: "0s", fails: 0.5, want: `durations.giveUp: Invalid value: "0s": must be above zero where failures.createFails is, such as 10m`},
		{file: "[0s]", fails: 0.5, want: "durations.giveUp: Invalid value"},
		{pool: "0s..0s", fails: 1, want: "clusters[0].pools[0].durations.giveUp: Invalid value"},
		{file: "0s", pool: "0s"},
		{file: "0s..1s", pool: "10ms", fails: 1},
		{fails: 1},
	} {
		_, err := scenario.Translate(scenario.File{
			Clusters: []scenario.Cluster{{
				Name: "c", From: "v1.29.0", To: "v1.30.0", Pools: []scenario.Pool{{Name: "md", Replicas: 1, Machines: scenario.Machines{Durations: scenario.Durations{GiveUp: tt.pool}}}},
			}},
			Durations: scenario.Durations{GiveUp: tt.file}, Failures: scenario.Failures{CreateFails: tt.fails},
		}, scenario.Options{})
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: the error is %v", tt, err)
		}
	}
}

func TestNamesOfVariants(t *testing.T) {
	t.Parallel()
	_, err := scenario.Translate(scenario.File{
		Clusters: []scenario.Cluster{{Name: "c", From: "v1.29.0", To: "v1.30.0"}},
		Compare:  []scenario.Variant{{Name: "mine"}, {Name: "theirs"}, {Name: "mine"}, {}},
	}, scenario.Options{File: "s.yaml", Reserved: []string{"theirs"}})
	want := `s.yaml: there are 3 problems
  compare[2].name: Duplicate value: "mine"
  compare[1].name: Invalid value: "theirs": another variant is always called so. Fix: choose another name
  compare[3].name: Required value: give it a name`
	if err == nil || err.Error() != want {
		t.Errorf("the error is %v", err)
	}
}

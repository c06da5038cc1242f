package whatif

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/pool"
	"github.com/windlass-dev/windlass/internal/simulate/fleet"
	"github.com/windlass-dev/windlass/pkg/version"
)

// diffConfigs compares configurations without functions.
func diffConfigs(a, b fleet.Config) string {
	return cmp.Diff(a, b, cmp.AllowUnexported(fleet.Distribution{}, version.Version{}))
}

func withUpdater(inPlace bool, maxInFlight int, maxMinors int) fleet.Update {
	return fleet.Update{
		InPlace: inPlace, Guarded: inPlace, PolicyName: "p", Policy: policy.Policy{MaxInFlight: int32(maxInFlight), MaxAttempts: 3},
		Steps: []inplace.Step{{Updater: "os"}, {Updater: "kubelet", SetsVersion: true, MaxMinors: maxMinors}, {Updater: "other", MaxMinors: 5}},
	}
}

func names(vs []Variant) []string {
	list := make([]string, 0, len(vs))
	for _, v := range vs {
		list = append(list, v.Name)
	}
	return list
}

func TestBuiltInVariants(t *testing.T) {
	twoMachines, fiveMachines := "twice the machines at once", "five times the machines at once"
	twoPools, fivePools := "twice the pools at once", "five times the pools at once"
	many := fleetOf(slices.Repeat([]fleet.Pool{{Replicas: 100, MaxUnavailable: 10}}, 8)...)
	clusters := fleet.Config{ClustersAtOnce: 1, Clusters: slices.Repeat([]fleet.Cluster{{PoolsAtOnce: 1}}, 3)}
	tests := map[string]struct {
		config fleet.Config
		want   []string
		first  string
	}{
		"nothing to vary": {
			config: fleetOf(), want: []string{AsConfigured},
			first: `The policies, limits and concurrency as they were given; this is also "replace at every minor"; this is also "efficient chain, replacing".`,
		},
		"replaced":                        {config: many, want: []string{AsConfigured, EveryMinor, twoMachines, fiveMachines, twoPools, fivePools}},
		"in place":                        {config: fleetOf(fleet.Pool{Replicas: 100, MaxUnavailable: 1000, Update: withUpdater(true, 10, 1)}), want: []string{AsConfigured, EveryMinor, EfficientReplacing, twoMachines, fiveMachines}},
		"could be in place":               {config: fleetOf(fleet.Pool{Replicas: 3, Update: withUpdater(false, 10, 1)}), want: []string{AsConfigured, EveryMinor, EfficientInPlace, twoMachines, fiveMachines}},
		"one machine, any number at once": {config: fleetOf(fleet.Pool{Replicas: 1, MaxMinorStep: 1, MaxUnavailable: 1}), want: []string{AsConfigured, EfficientReplacing}},
		"at every minor":                  {config: fleetOf(fleet.Pool{MaxMinorStep: 1}), want: []string{AsConfigured, EfficientReplacing}},
		"clusters":                        {config: clusters, want: []string{AsConfigured, "twice the clusters at once", "five times the clusters at once"}},
		"two pools":                       {config: fleetOf(fleet.Pool{Replicas: 1}, fleet.Pool{Replicas: 1}), want: []string{AsConfigured, EveryMinor, twoPools}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := Variants(test.config)
			if diff := cmp.Diff(test.want, names(got)); diff != "" {
				t.Errorf("variants:\n%s", diff)
			}
			if test.first != "" && got[0].Description != test.first {
				t.Errorf("the first is described as %s\nwant %s", got[0].Description, test.first)
			}
		})
	}
}

func change(t *testing.T, c fleet.Config, name string) fleet.Config {
	t.Helper()
	for _, v := range Variants(c) {
		if v.Name == name {
			return v.Change(c)
		}
	}
	t.Fatalf("no variant %q among %q", name, names(Variants(c)))
	return fleet.Config{}
}

func TestWhatVariantsChange(t *testing.T) {
	configured := fleetOf(
		fleet.Pool{Name: "replaced", Replicas: 50, MaxSurge: 2, Update: withUpdater(false, 10, 1)},
		fleet.Pool{Name: "in-place", Replicas: 50, MaxUnavailable: 15, MaxMinorStep: 2, Update: withUpdater(true, 10, 1)},
		fleet.Pool{Name: "small", Replicas: 3, MaxUnavailable: 2, Update: withUpdater(true, 0, 0)},
		fleet.Pool{Name: "without", Replicas: 50, MaxMinorStep: 1},
	)
	configured.Clusters[0].ControlPlane.Update = withUpdater(true, 0, 0)
	type facts struct {
		InPlace, Guarded                   bool
		MaxMinorStep                       uint32
		InFlight, MaxSurge, MaxUnavailable int
	}
	of := func(c fleet.Config) map[string]facts {
		got := map[string]facts{"control plane": {InPlace: c.Clusters[0].ControlPlane.Update.InPlace, Guarded: c.Clusters[0].ControlPlane.Update.Guarded}}
		for _, p := range c.Clusters[0].Pools {
			got[p.Name] = facts{p.Update.InPlace, p.Update.Guarded, p.MaxMinorStep, int(p.Update.Policy.MaxInFlight), p.MaxSurge, p.MaxUnavailable}
		}
		return got
	}
	tests := map[string]map[string]facts{
		EveryMinor: {
			"control plane": {}, "replaced": {false, false, 1, 10, 2, 0}, "in-place": {false, false, 1, 10, 0, 15}, "small": {false, false, 1, 0, 0, 2}, "without": {false, false, 1, 0, 0, 0},
		},
		EfficientReplacing: {
			"control plane": {}, "replaced": {false, false, 0, 10, 2, 0}, "in-place": {false, false, 0, 10, 0, 15}, "small": {false, false, 0, 0, 0, 2}, "without": {false, false, 0, 0, 0, 0},
		},
		EfficientInPlace: {
			"control plane": {InPlace: true, Guarded: true}, "replaced": {true, false, 1, 10, 2, 0}, "in-place": {true, true, 2, 10, 0, 15},
			"small": {true, true, 0, 0, 0, 2}, "without": {false, false, 1, 0, 0, 0},
		},
		"twice the machines at once": {
			"control plane": {InPlace: true, Guarded: true}, "replaced": {false, false, 0, 20, 4, 0}, "in-place": {true, true, 2, 20, 0, 30},
			"small": {true, true, 0, 0, 0, 3}, "without": {false, false, 1, 0, 0, 2},
		},
	}
	for name, want := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(want, of(change(t, configured, name))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func drawConfig(t *rapid.T) fleet.Config {
	update := rapid.Custom(func(t *rapid.T) fleet.Update {
		u := withUpdater(rapid.Bool().Draw(t, "inPlace"), rapid.IntRange(-1, 20).Draw(t, "maxInFlight"), rapid.IntRange(0, 2).Draw(t, "maxMinors"))
		if rapid.Bool().Draw(t, "none") {
			u = fleet.Update{}
		}
		return u
	})
	pool := rapid.Custom(func(t *rapid.T) fleet.Pool {
		return fleet.Pool{
			Replicas: rapid.IntRange(0, 30).Draw(t, "replicas"), MaxSurge: rapid.IntRange(-1, 5).Draw(t, "surge"),
			MaxUnavailable: rapid.IntRange(-1, 40).Draw(t, "unavailable"), MaxMinorStep: rapid.Uint32Range(0, 3).Draw(t, "step"), Update: update.Draw(t, "update"),
		}
	})
	cluster := rapid.Custom(func(t *rapid.T) fleet.Cluster {
		return fleet.Cluster{
			PoolsAtOnce: rapid.IntRange(-1, 6).Draw(t, "pools"), Pools: rapid.SliceOfN(pool, 0, 4).Draw(t, "pools"),
			ControlPlane: fleet.ControlPlane{Replicas: 3, Update: update.Draw(t, "control plane")},
		}
	})
	return fleet.Config{ClustersAtOnce: rapid.IntRange(-1, 4).Draw(t, "clustersAtOnce"), Clusters: rapid.SliceOfN(cluster, 0, 4).Draw(t, "clusters")}
}

// clone shares nothing that a variant could change.
func clone(c fleet.Config) fleet.Config {
	steps := func(u *fleet.Update) { u.Steps = slices.Clone(u.Steps) }
	return changeGroups(func(p *fleet.Pool) { steps(&p.Update) }, steps)(c)
}

func TestVariantsKeepTheirInput(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		config := drawConfig(t)
		before := clone(config)
		variants := Variants(config)
		var changed []fleet.Config
		for _, v := range variants {
			got := v.Change(config)
			if diff := diffConfigs(before, config); diff != "" {
				t.Fatalf("%q changed its input:\n%s", v.Name, diff)
			}
			for i, other := range changed {
				if same(got, other) {
					t.Fatalf("%q comes to the same as %q", v.Name, variants[i].Name)
				}
			}
			changed = append(changed, got)
			if !strings.HasSuffix(v.Description, ".") || v.Name == "" {
				t.Fatalf("variant %q is described as %q", v.Name, v.Description)
			}
		}
		if variants[0].Name != AsConfigured || diffConfigs(config, changed[0]) != "" {
			t.Fatalf("the first variant is %q", variants[0].Name)
		}
	})
}

// More at once never lowers a limit.
func TestMoreAtOnceIsNeverLess(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		config := drawConfig(t)
		for _, v := range []Variant{moreMachines(factors()[0]), morePools(factors()[1]), moreClusters(factors()[1])} {
			got := v.Change(config)
			if got.ClustersAtOnce < config.ClustersAtOnce {
				t.Fatalf("%q: %d clusters at once instead of %d", v.Name, got.ClustersAtOnce, config.ClustersAtOnce)
			}
			for i, cluster := range got.Clusters {
				if cluster.PoolsAtOnce < config.Clusters[i].PoolsAtOnce {
					t.Fatalf("%q: %d pools at once instead of %d", v.Name, cluster.PoolsAtOnce, config.Clusters[i].PoolsAtOnce)
				}
				for j, p := range cluster.Pools {
					was := config.Clusters[i].Pools[j]
					if max(p.MaxUnavailable, 0) < was.MaxUnavailable || p.MaxSurge < was.MaxSurge || p.Update.Policy.MaxInFlight < was.Update.Policy.MaxInFlight {
						t.Fatalf("%q lowers a limit of %+v to %+v", v.Name, was, p)
					}
				}
			}
		}
	})
}

// TestMoreMachinesRaisesLimits: maxInFlight of windlass manager is raised in a copy.
func TestMoreMachinesRaisesLimits(t *testing.T) {
	limits := &pool.Limits{MaxInFlight: 3}
	c := fleetOf(fleet.Pool{Name: "p", Replicas: 50, MaxUnavailable: 50,
		Update: fleet.Update{Limits: limits}})
	got := change(t, c, "twice the machines at once")
	if n := got.Clusters[0].Pools[0].Update.Limits.MaxInFlight; n != 6 || limits.MaxInFlight != 3 {
		t.Errorf("maxInFlight is %d, and that of the given fleet %d", n, limits.MaxInFlight)
	}
}

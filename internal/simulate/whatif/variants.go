package whatif

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/simulate/fleet"
)

// Variant is one way to do the upgrade.
type Variant struct {
	Name string
	// Description is one sentence about what is different.
	Description string
	// Change returns the configuration of this variant. It never changes its argument, nor anything that the argument refers to.
	Change func(fleet.Config) fleet.Config
}

// The names of built-in variants.
const (
	AsConfigured       = "as configured"
	EveryMinor         = "replace at every minor"
	EfficientReplacing = "efficient chain, replacing"
	EfficientInPlace   = "efficient chain, in place"
)

// ReservedNames are those of all built-in variants, whether they make sense for a configuration or not.
func ReservedNames() []string {
	reserved := []string{AsConfigured, EveryMinor, EfficientReplacing, EfficientInPlace}
	for _, v := range moreAtOnce() {
		reserved = append(reserved, v.Name)
	}
	return reserved
}

// Variants are the built-in variants that make sense for a configuration: the configuration itself, three ways to go through the minors, and more machines,
// pools or clusters at once. Of two that come to the same there is only the first, whose description says so.
func Variants(c fleet.Config) []Variant {
	candidates := []Variant{asConfigured(), everyMinor(), efficientReplacing()}
	if hasUpdaters(c) {
		candidates = append(candidates, efficientInPlace())
	}
	candidates = append(candidates, moreAtOnce()...)
	var kept []Variant
	var configs []fleet.Config
	for _, v := range candidates {
		changed := v.Change(c)
		at := slices.IndexFunc(configs, func(other fleet.Config) bool { return same(changed, other) })
		if at < 0 {
			kept, configs = append(kept, v), append(configs, changed)
			continue
		}
		// That more at once changes nothing needs no saying.
		if v.Name == EveryMinor || v.Name == EfficientReplacing || v.Name == EfficientInPlace {
			kept[at].Description = strings.TrimSuffix(kept[at].Description, ".") + fmt.Sprintf("; this is also %q.", v.Name)
		}
	}
	return kept
}

// factor is how many times as many.
type factor struct {
	n    int
	word string
}

func factors() []factor { return []factor{{2, "twice"}, {5, "five times"}} }

// moreAtOnce are the variants with more machines, pools or clusters under way at once.
func moreAtOnce() []Variant {
	var variants []Variant
	for _, more := range []func(factor) Variant{moreMachines, morePools, moreClusters} {
		for _, f := range factors() {
			variants = append(variants, more(f))
		}
	}
	return variants
}

func asConfigured() Variant {
	return Variant{
		Name: AsConfigured, Description: "The policies, limits and concurrency as they were given.",
		Change: func(c fleet.Config) fleet.Config { return c },
	}
}

func everyMinor() Variant {
	return Variant{
		Name: EveryMinor, Description: "Every machine is replaced at every minor, as without chained upgrades that skip versions.",
		Change: replaceAll(1),
	}
}

func efficientReplacing() Variant {
	return Variant{
		Name: EfficientReplacing, Description: "Every machine is replaced, workers only where version skew forces them to stop.",
		Change: replaceAll(0),
	}
}

// replaceAll has all machines replaced, and pools go so many minors at once; 0 is any number.
func replaceAll(maxMinorStep uint32) func(fleet.Config) fleet.Config {
	replace := func(u *fleet.Update) { u.InPlace, u.Guarded = false, false }
	return changeGroups(func(p *fleet.Pool) {
		replace(&p.Update)
		p.MaxMinorStep = maxMinorStep
	}, replace)
}

func efficientInPlace() Variant {
	return Variant{
		Name: EfficientInPlace, Description: "Machines stay and are updated where there are updaters for them, workers only where version skew or an updater forces them to stop.",
		Change: changeGroups(func(p *fleet.Pool) {
			if canUpdate(p.Update) && !p.Update.InPlace {
				p.Update.InPlace, p.MaxMinorStep = true, maxMinors(p.Update.Steps)
			}
		}, func(u *fleet.Update) { u.InPlace = u.InPlace || canUpdate(*u) }),
	}
}

// canUpdate reports whether there are updaters, and a policy that tells how often they may try.
func canUpdate(u fleet.Update) bool { return len(u.Steps) > 0 && u.Policy.MaxAttempts > 0 }

func hasUpdaters(c fleet.Config) bool {
	return slices.ContainsFunc(c.Clusters, func(cluster fleet.Cluster) bool {
		return canUpdate(cluster.ControlPlane.Update) || slices.ContainsFunc(cluster.Pools, func(p fleet.Pool) bool { return canUpdate(p.Update) })
	})
}

// maxMinors is how many minors an update can do at once: what the most limited updater can, or 0 for any number.
func maxMinors(steps []inplace.Step) uint32 {
	least := 0
	for _, s := range steps {
		if s.MaxMinors > 0 && (least == 0 || s.MaxMinors < least) {
			least = s.MaxMinors
		}
	}
	return uint32(least)
}

func moreMachines(f factor) Variant {
	return Variant{
		Name: f.word + " the machines at once",
		Description: fmt.Sprintf(
			"As configured, with maxInFlight %d times as high, and maxUnavailable and maxSurge too where they would be the limit.", f.n),
		Change: changeGroups(func(p *fleet.Pool) { raiseLimits(p, f.n) }, func(u *fleet.Update) {
			// Pools share its policy; control plane machines go one at a time all the same.
			u.Policy.MaxInFlight = raiseInFlight(u.Policy.MaxInFlight, f.n)
		}),
	}
}

// raiseLimits raises what bounds how many machines of a pool go at once, to not more than it has.
func raiseLimits(p *fleet.Pool, times int) {
	inFlight := max(int(p.Update.Policy.MaxInFlight), 0)
	p.Update.Policy.MaxInFlight = raiseInFlight(p.Update.Policy.MaxInFlight, times)
	if p.Update.Limits != nil {
		limits := *p.Update.Limits // Variants share it.
		limits.MaxInFlight = raiseInFlight(limits.MaxInFlight, times)
		p.Update.Limits = &limits
	}
	unavailable := max(p.MaxUnavailable, int(p.Limits().Unavailable))
	if p.Update.InPlace {
		if inFlight == 0 || unavailable < inFlight*times {
			p.MaxUnavailable = raise(unavailable, times, p.Replicas)
		}
		return
	}
	p.MaxUnavailable = raise(unavailable, times, p.Replicas)
	p.MaxSurge = raise(p.MaxSurge, times, p.Replicas)
}

// raise never lowers n.
func raise(n, times, most int) int { return max(n, min(n*times, most)) }

// raiseInFlight raises a maxInFlight; 0, which is any number, remains 0.
func raiseInFlight(limit int32, times int) int32 {
	return int32(raise(max(int(limit), 0), times, math.MaxInt32)) // #nosec G115 -- it fits
}

func morePools(f factor) Variant {
	return Variant{
		Name: f.word + " the pools at once", Description: fmt.Sprintf("As configured, with %d times as many pools of a cluster under way at once.", f.n),
		Change: changeClusters(func(c *fleet.Cluster) { c.PoolsAtOnce = raise(max(c.PoolsAtOnce, 1), f.n, len(c.Pools)) }),
	}
}

func moreClusters(f factor) Variant {
	return Variant{
		Name: f.word + " the clusters at once", Description: fmt.Sprintf("As configured, with %d times as many clusters under way at once.", f.n),
		Change: func(c fleet.Config) fleet.Config {
			if c.ClustersAtOnce >= 1 {
				c.ClustersAtOnce = raise(c.ClustersAtOnce, f.n, len(c.Clusters))
			}
			return c
		},
	}
}

// changeGroups changes copies of all pools and of all control planes' updates.
func changeGroups(pool func(*fleet.Pool), controlPlane func(*fleet.Update)) func(fleet.Config) fleet.Config {
	return changeClusters(func(c *fleet.Cluster) {
		controlPlane(&c.ControlPlane.Update)
		c.Pools = slices.Clone(c.Pools)
		for i := range c.Pools {
			pool(&c.Pools[i])
		}
	})
}

// changeClusters changes copies of all clusters.
func changeClusters(change func(*fleet.Cluster)) func(fleet.Config) fleet.Config {
	return func(c fleet.Config) fleet.Config {
		c.Clusters = slices.Clone(c.Clusters)
		for i := range c.Clusters {
			change(&c.Clusters[i])
		}
		return c
	}
}

// same reports whether two variants of one configuration come to the same. Built-in variants never change functions and sources, which cannot be compared.
func same(a, b fleet.Config) bool { return reflect.DeepEqual(normalise(a), normalise(b)) }

// normalise makes settings that mean the same equal, and leaves out what no variant changes. What control planes share with pools is compared there.
func normalise(c fleet.Config) fleet.Config {
	c.Engine = fleet.Engine{}
	c = changeGroups(func(p *fleet.Pool) {
		p.MaxUnavailable = int(p.Limits().Unavailable)
		normaliseUpdate(&p.Update)
	}, func(u *fleet.Update) {
		normaliseUpdate(u)
		u.Policy.MaxInFlight = 0
	})(c)
	return changeClusters(func(c *fleet.Cluster) {
		c.Gates, c.Source, c.PoolsAtOnce = nil, nil, max(c.PoolsAtOnce, 1)
	})(c)
}

// normaliseUpdate leaves out what does not count where machines are replaced.
func normaliseUpdate(u *fleet.Update) {
	if !u.InPlace {
		u.Guarded, u.Steps, u.Policy = false, nil, policy.Policy{}
	}
}

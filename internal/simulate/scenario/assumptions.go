package scenario

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/simulate/fleet"
)

// WithBegin is the file with the time that it begins at, where gates depend on it and nobody gave one.
func (f File) WithBegin() File {
	if f.Begin == "" && len(f.Gates) > 0 {
		f.Begin = DefaultBegin().Format(time.RFC3339)
	}
	return f
}

// assumptions are what a result rests on besides the scenario.
func (t *translation) assumptions() []string {
	return slices.Concat(t.assumedTimes(), t.assumedGates(), t.assumedGroups(), t.assumedRequests())
}

// assumedTimes are the durations and failures that nobody gave.
func (t *translation) assumedTimes() []string {
	var told []string
	for _, g := range guesses {
		switch {
		case !t.used[g.text]:
		case g.dist.IsZero():
			told = append(told, g.text)
		default:
			told = append(told, fmt.Sprintf(g.text, g.dist))
		}
	}
	if t.file.Failures == (Failures{}) {
		told = append(told, "no failures are given, so nothing fails (failures)")
	}
	return told
}

func (t *translation) assumedGates() []string {
	if len(t.file.Gates) == 0 {
		return nil
	}
	var told []string
	if t.file.Begin == "" {
		told = append(told, fmt.Sprintf("the simulation begins on %s (begin)", DefaultBegin().Format("Monday, 2006-01-02T15:04:05Z07:00")))
	}
	return append(told, "a step that has begun in a window continues after the window closes")
}

// assumedGroups are what clusters, pools and their policies leave out.
func (t *translation) assumedGroups() []string {
	var told []string
	if t.synthesised {
		told = append(told, "where no versions are listed, there is taken to be a .0 of each minor between (clusters[].versions)")
	}
	for _, p := range t.file.Policies {
		if left := p.leftOut(); t.usedPolicies[p.Name] && len(left) > 0 {
			told = append(told, fmt.Sprintf("the policy %s leaves out what it has by default: %s (policies)", p.Name, strings.Join(left, ", ")))
		}
	}
	pools := func(leftOut func(Pool) bool) bool {
		return slices.ContainsFunc(t.file.Clusters, func(c Cluster) bool { return slices.ContainsFunc(c.Pools, leftOut) })
	}
	if pools(func(p Pool) bool { return p.MaxSurge == nil || p.MaxUnavailable == nil }) {
		told = append(told, "where pools leave them out, maxSurge is 1 and maxUnavailable 0, and with an InPlace policy 0 and 1 (clusters[].pools)")
	}
	if atOnce := t.assumedAtOnce(); len(atOnce) > 0 {
		told = append(told, strings.Join(atOnce, "; "))
	}
	return told
}

// assumedAtOnce counts only where there are several.
func (t *translation) assumedAtOnce() []string {
	var told []string
	if t.file.ClustersAtOnce == 0 && len(t.config.Clusters) > 1 {
		told = append(told, "all clusters are upgraded at once (clustersAtOnce)")
	}
	if slices.ContainsFunc(t.config.Clusters, func(c fleet.Cluster) bool { return c.PoolsAtOnce == 0 && len(c.Pools) > 1 }) {
		told = append(told, "one pool of a kind is upgraded at a time in a cluster that says nothing else (clusters[].poolsAtOnce)")
	}
	return told
}

// leftOut are the fields that a policy does not have, with their defaults.
func (p Policy) leftOut() []string {
	if p.Strategy != StrategyInPlace {
		return nil
	}
	var left []string
	otherwise := policy.Default()
	for _, f := range []struct {
		given bool
		text  string
	}{
		{p.MaxInFlight > 0, fmt.Sprintf("maxInFlight %d", otherwise.MaxInFlight)},
		// Without it, one machine is updated at a time all the same.
		{p.Canary != nil || p.MaxInFlight <= 1, fmt.Sprintf("canary %d", otherwise.Alone)},
		{p.Drain != nil, fmt.Sprintf("drain %t", otherwise.Drain)},
		{p.Soak != "", fmt.Sprintf("soak %s", fleet.FixedDuration(otherwise.Soak))},
		{p.MaxAttempts > 0, fmt.Sprintf("maxAttempts %d", otherwise.MaxAttempts)},
		{p.AttemptTimeout != "", fmt.Sprintf("attemptTimeout %s", fleet.FixedDuration(otherwise.AttemptTimeout))},
	} {
		if !f.given {
			left = append(left, f.text)
		}
	}
	return left
}

// assumedRequests are about the load of the API server.
func (t *translation) assumedRequests() []string {
	var told []string
	if t.file.Costs == nil {
		c := DefaultCosts()
		told = append(told, fmt.Sprintf("Cluster API's own controllers are taken to write %g times for a machine that is replaced, and %g times for one that is updated in place (costs), as was measured with kubeadm; the writes of Windlass do not count Events, of which it makes one or more for each machine and update",
			c.Replace, c.InPlace))
	}
	if t.file.Budget == nil {
		b := DefaultBudget()
		told = append(told, fmt.Sprintf("Windlass may make %g requests a second, and %d at once (budget), as it does by default", b.QPS, b.Burst))
	}
	return told
}

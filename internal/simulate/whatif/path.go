package whatif

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/windlass-dev/windlass/internal/simulate/fleet"
	"github.com/windlass-dev/windlass/internal/text"
)

const (
	// alone is the part of its share's time from which a group is named as if it were the only one, and standsOut that from which it is named with the others counted.
	alone, standsOut = 0.95, 0.5
	// worthSaying is the part of the duration from which a second share is part of the sentence, and waitWorthSaying that for waits.
	worthSaying, waitWorthSaying = 0.15, 0.01
	// maxClauses bounds the sentence.
	maxClauses = 3
)

// shareKey is what segments have in common that are added up.
type shareKey struct {
	kind  Kind
	limit string
}

type groupKey struct{ cluster, group string }

func kindOf(group string) Kind {
	switch group {
	case "":
		return Wait
	case fleet.ControlPlaneGroup:
		return ControlPlane
	default:
		return Pool
	}
}

// computePath adds up the critical path of a run by kind and limit.
func computePath(c fleet.Config, run fleet.Run) CriticalPath {
	total := time.Duration(0)
	times := make(map[shareKey]map[groupKey]time.Duration)
	for _, s := range run.Path {
		key, group := shareKey{kindOf(s.Group), s.Limit}, groupKey{s.Cluster, s.Group}
		if times[key] == nil {
			times[key] = make(map[groupKey]time.Duration)
		}
		times[key][group] += s.Took
		total += s.Took
	}
	whole := max(total, run.Duration).Seconds()
	path := CriticalPath{Shares: make([]Share, 0, len(times))}
	for key, groups := range times {
		path.Shares = append(path.Shares, computeShare(key, groups, whole))
	}
	slices.SortFunc(path.Shares, func(a, b Share) int {
		return cmp.Or(cmp.Compare(b.Seconds, a.Seconds), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Limit, b.Limit))
	})
	path.Sentence = describePath(c, path.Shares)
	return path
}

func computeShare(key shareKey, groups map[groupKey]time.Duration, whole float64) Share {
	share := Share{Kind: key.kind, Limit: key.limit, Groups: len(groups)}
	sum, most, longest := time.Duration(0), time.Duration(-1), groupKey{}
	for g, took := range groups {
		sum += took
		if took > most || took == most && cmp.Or(strings.Compare(g.cluster, longest.cluster), strings.Compare(g.group, longest.group)) < 0 {
			most, longest = took, g
		}
	}
	share.Seconds, share.LongestSeconds = seconds(sum), seconds(most)
	share.LongestCluster, share.Longest = longest.cluster, longest.group
	share.Share = ratio(sum.Seconds(), whole, 1e4)
	return share
}

// describePath says what most of the time goes into: the largest share, another one that is large too, and waits.
func describePath(c fleet.Config, shares []Share) string {
	var clauses []string
	for i, s := range shares {
		least := worthSaying
		if s.Kind == Wait || s.Limit == fleet.Attention {
			least = waitWorthSaying
		}
		if len(clauses) == maxClauses || i > 0 && s.Share < least || s.Seconds == 0 {
			continue
		}
		percent := fmt.Sprintf("%.0f %%", s.Share*100)
		if len(clauses) == 0 {
			percent += " of the time"
		}
		clauses = append(clauses, percent+" goes into "+describeShare(c, s))
	}
	return strings.Join(clauses, "; ")
}

func describeShare(c fleet.Config, s Share) string {
	if s.Kind == Wait {
		if s.Limit == "" {
			return "waiting"
		}
		return "waiting for " + s.Limit
	}
	limit := s.Limit
	if strings.HasPrefix(limit, "max") {
		limit = "at " + limit
	}
	groups, one := describeGroups(c, s)
	switch {
	case s.Limit == fleet.Attention:
		return "waiting for " + limit + " of " + groups
	case one:
		return joinWords(groups, separator(limit), limit)
	case s.Kind == ControlPlane:
		return joinWords(groups+describeClustersAtOnce(c), ", each ", limit)
	default:
		return describePools(c, s, groups, limit)
	}
}

// describeGroups names the groups of a share, and reports whether it names a single one.
func describeGroups(c fleet.Config, s Share) (words string, one bool) {
	switch {
	case s.Groups == 1 || s.LongestSeconds >= alone*s.Seconds:
		return describeGroup(c, s), true
	case s.LongestSeconds >= standsOut*s.Seconds:
		others := "more pool"
		if s.Kind == ControlPlane {
			others = "more control plane"
		}
		return describeGroup(c, s) + " and " + text.Count(s.Groups-1, others), false
	case s.Kind == ControlPlane:
		return fmt.Sprintf("%d control planes", s.Groups), false
	default:
		return fmt.Sprintf("%d pools", s.Groups), false
	}
}

// joinWords leaves out the separator where there is nothing to separate.
func joinWords(a, separator, b string) string {
	if b == "" {
		return a
	}
	return a + separator + b
}

func separator(limit string) string {
	if strings.HasPrefix(limit, "at ") {
		return " "
	}
	return ", "
}

func describeGroup(c fleet.Config, s Share) string {
	of := ""
	if len(c.Clusters) > 1 {
		of = " of " + s.LongestCluster
	}
	if s.Kind == ControlPlane {
		return "the control plane" + of
	}
	return "pool " + s.Longest + of
}

// describePools says how pools with the same limit come one after another. maxInFlight is shared by pools, so it is not each pool's.
func describePools(c fleet.Config, s Share, groups, limit string) string {
	words, between := groups, " "
	if strings.Contains(groups, " more ") {
		between = ", "
	}
	if atOnce, same := samePoolsAtOnce(c); same {
		switch {
		case atOnce == 1:
			words += between + "one at a time (upgrade-concurrency 1)"
		case atOnce >= mostPools(c):
			words += fmt.Sprintf(", all of a cluster under way at once (upgrade-concurrency %d)", atOnce)
		default:
			words += between + fmt.Sprintf("one after another, with %d under way at once (upgrade-concurrency %d)", atOnce, atOnce)
		}
	}
	words += describeClustersAtOnce(c)
	if strings.HasPrefix(s.Limit, "maxInFlight") {
		return joinWords(words, " ", limit)
	}
	return joinWords(words, ", each ", limit)
}

func describeClustersAtOnce(c fleet.Config) string {
	switch n := len(c.Clusters); {
	case n < 2 || c.ClustersAtOnce < 1 || c.ClustersAtOnce >= n:
		return ""
	case c.ClustersAtOnce == 1:
		return ", one cluster after another"
	default:
		return fmt.Sprintf(", %d clusters at once", c.ClustersAtOnce)
	}
}

// samePoolsAtOnce returns how many pools of a cluster go at once, where that is the same for all clusters.
func samePoolsAtOnce(c fleet.Config) (atOnce int, same bool) {
	for i, cluster := range c.Clusters {
		n := max(cluster.PoolsAtOnce, 1)
		if i > 0 && n != atOnce {
			return 0, false
		}
		atOnce = n
	}
	return atOnce, len(c.Clusters) > 0
}

func mostPools(c fleet.Config) int {
	most := 0
	for _, cluster := range c.Clusters {
		most = max(most, len(cluster.Pools))
	}
	return most
}

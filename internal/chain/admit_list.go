package chain

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/windlass-dev/windlass/internal/text"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// ItemRefusal says why an item of a class's list is refused.
type ItemRefusal struct {
	// Index counts from 0.
	Index int
	// Problem says what is wrong and what would be right, without a capital or full stop.
	Problem string
}

// CheckList checks a class's list of versions: from old to new, each once, and at least one of every minor in between. Builds that
// have no order of their own are ordered by the list, so they may stand in any order. Zero versions stand for items that could not be
// read; they are passed over.
func CheckList(versions []version.Version) []ItemRefusal {
	var refusals []ItemRefusal
	previous := -1
	for i, v := range versions {
		if v.IsZero() {
			continue
		}
		if problem := checkItem(versions[:i], previous, v); problem != "" {
			refusals = append(refusals, ItemRefusal{Index: i, Problem: problem})
		}
		previous = i
	}
	return refusals
}

// checkItem checks one version against all before it, the last of which is at previous. That one alone is not enough: over builds without
// an order a list could lead back.
func checkItem(before []version.Version, previous int, v version.Version) string {
	for _, earlier := range slices.Backward(before) {
		if c := version.Compare(v, earlier); !earlier.IsZero() && (c == version.Less || c == version.Equal) {
			return fmt.Sprintf("it must be newer than %s, or another build of it: list the versions from old to new, each once", earlier)
		}
	}
	if previous < 0 {
		return ""
	}
	last := before[previous].Minor()
	lag, sameMajor := last.Lag(v.Minor())
	switch {
	case !sameMajor:
		return fmt.Sprintf("no upgrade between major versions is defined, and %s stands before it: use a ClusterClass for each", before[previous])
	case lag > 1:
		return fmt.Sprintf("the control plane moves one minor at a time: put a %s version before it", last.Next())
	default:
		return ""
	}
}

// Use is a Cluster that has a class.
type Use struct {
	// Cluster names it in messages.
	Cluster string
	// Target is its topology's version; zero where that cannot be read.
	Target version.Version
	// ControlPlane is the version that its control plane has or is on its way to; zero where there is none.
	ControlPlane version.Version
}

// CheckUses checks that a class may offer newer in place of older: every Cluster's version is in the list, if there is one, and no
// Cluster loses the way to its target. A way that older did not have either is not lost; nor is one that an extension finds.
// The sentences are sorted by version, and so many at most that a person can read them.
func CheckUses(older, newer Offer, uses []Use) []string {
	missing, lost := map[version.Version][]string{}, map[way][]string{}
	for _, u := range uses {
		w := way{from: u.ControlPlane, to: u.Target}
		switch {
		case u.Target.IsZero():
		case newer.CheckVersion(u.Target) != nil:
			missing[u.Target] = append(missing[u.Target], u.Cluster)
		case older.leads(w) && !newer.leads(w):
			lost[w] = append(lost[w], u.Cluster)
		}
	}
	sentences := make([]string, 0, min(len(missing)+len(lost), maxRefusals))
	for _, v := range sortedKeys(missing, compareText) {
		sentences = append(sentences, fmt.Sprintf("%s is the version of %s: keep it in the list until then", v, nameClusters(missing[v])))
	}
	for _, w := range sortedKeys(lost, way.compare) {
		sentences = append(sentences, fmt.Sprintf("it leaves no way from %s to %s, which is ahead of %s: keep the versions on that way until it is done",
			w.from, w.to, nameClusters(lost[w])))
	}
	return sentences[:min(len(sentences), maxRefusals)]
}

// way is what is left of an upgrade of a control plane.
type way struct{ from, to version.Version }

func (w way) compare(o way) int { return cmp.Or(compareText(w.to, o.to), compareText(w.from, o.from)) }

// leads reports whether a control plane can go that way. Workers can always follow: where they stop depends on minors only, and every
// way leads through the same ones. With an extension every way forward is taken to be there.
func (o Offer) leads(w way) bool {
	return w.from.IsZero() || o.check(plan.Inventory{ControlPlane: w.from}, w.to) == nil
}

// compareText orders all versions, also builds that have no order of their own, as a message needs it.
func compareText(a, b version.Version) int {
	switch version.Compare(a, b) {
	case version.Less:
		return -1
	case version.Greater:
		return 1
	case version.Equal, version.Unordered:
		return cmp.Compare(a.String(), b.String())
	default:
		return 0
	}
}

func sortedKeys[K comparable](m map[K][]string, compare func(a, b K) int) []K {
	return slices.SortedFunc(maps.Keys(m), compare)
}

func nameClusters(names []string) string {
	slices.Sort(names)
	if len(names) == 1 {
		return "Cluster " + names[0]
	}
	return "Clusters " + text.JoinSome(names, maxClustersNamed, ", ")
}

package version

import (
	"slices"
	"strings"

	"github.com/blang/semver/v4"
)

// Ordering is the outcome of comparing two versions. Versions form a partial order: two builds of one release that
// carry different words have no order of their own.
type Ordering int8

// The outcomes of Compare(a, b).
const (
	// Less: a is older than b.
	Less Ordering = -1
	// Equal: neither is older. It follows from a == b; the converse fails only for builds that are spelled in
	// two ways: with leading zeros, or behind "-" and behind "+".
	Equal Ordering = 0
	// Greater: a is newer than b.
	Greater Ordering = 1
	// Unordered: a and b are builds of the same release, and nothing in them says which came first. Only a list that
	// holds both decides (a control plane plan, or ClusterClass.spec.kubernetesVersions).
	Unordered Ordering = 2
)

// Compare orders a against b: release and pre-release of Kubernetes by semver, then the builds of a
// distribution. It orders builds as Cluster API does with build tags: identifiers from left to right,
// numbers by value, numbers before words, different words Unordered, and with a common prefix the longer
// one is newer. Two rules are added. A build that is spelled as a pre-release is a build: Cluster API has
// v1.33.1-k0s.0 older than v1.33.1, and no semver library knows which of v1.33.5-eks-1-33-9 and -17 is
// newer. And the numbers in the builds of known distributions count; see [Version.build].
func Compare(a, b Version) Ordering {
	if a == b {
		return Equal
	}
	if c := compareNumbers(a, b); c != Equal {
		return c
	}
	if c := comparePreReleases(a.pre(), b.pre()); c != Equal {
		return c
	}
	return compareBuilds(a.build(), b.build())
}

func compareNumbers(a, b Version) Ordering {
	switch {
	case a.major != b.major:
		return orderOf(a.major < b.major)
	case a.minor != b.minor:
		return orderOf(a.minor < b.minor)
	case a.patch != b.patch:
		return orderOf(a.patch < b.patch)
	default:
		return Equal
	}
}

func orderOf(less bool) Ordering {
	if less {
		return Less
	}
	return Greater
}

// orderingOf translates the outcome of a comparison that orders everything.
func orderingOf(c int) Ordering {
	if c == 0 {
		return Equal
	}
	return orderOf(c < 0)
}

func comparePreReleases(a, b string) Ordering {
	if a == b {
		return Equal
	}
	return orderingOf(preReleaseOf(a).Compare(preReleaseOf(b)))
}

// preReleaseOf lifts a pre-release back into the semver library, which knows its precedence.
func preReleaseOf(pre string) semver.Version {
	var v semver.Version
	if pre == "" {
		return v
	}
	for identifier := range strings.SplitSeq(pre, ".") {
		// Parse has accepted the identifier already, so the library cannot refuse it here.
		parsed, err := semver.NewPRVersion(identifier)
		if err != nil {
			parsed = semver.PRVersion{VersionStr: identifier}
		}
		v.Pre = append(v.Pre, parsed)
	}
	return v
}

func compareBuilds(as, bs []string) Ordering {
	for i := range min(len(as), len(bs)) {
		if c := compareBuildIdentifiers(as[i], bs[i]); c != Equal {
			return c
		}
	}
	if len(as) == len(bs) {
		return Equal
	}
	return orderOf(len(as) < len(bs))
}

func compareBuildIdentifiers(a, b string) Ordering {
	if a == b {
		return Equal
	}
	switch aNumeric, bNumeric := isNumeric(a), isNumeric(b); {
	case aNumeric && bNumeric:
		return compareDigits(strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0"))
	case aNumeric || bNumeric:
		return orderOf(aNumeric)
	default:
		return Unordered
	}
}

func isNumeric(identifier string) bool {
	return strings.IndexFunc(identifier, func(r rune) bool { return r < '0' || r > '9' }) == -1
}

// compareDigits compares two numbers of any size, without leading zeros: a build number may be a timestamp that does
// not fit in 64 bits.
func compareDigits(a, b string) Ordering {
	if len(a) != len(b) {
		return orderOf(len(a) < len(b))
	}
	return orderingOf(strings.Compare(a, b))
}

// Sorted returns a sorted copy, oldest first. Versions that are Unordered keep the order in which they were given.
func Sorted(versions []Version) []Version {
	sorted := slices.Clone(versions)
	// Insertion sort on purpose: Unordered is not transitive, so no comparison sort of the library may be used, and lists
	// of versions are short and nearly sorted.
	for i := 1; i < len(sorted); i++ {
		for j := i; j > 0 && Compare(sorted[j-1], sorted[j]) == Greater; j-- {
			sorted[j-1], sorted[j] = sorted[j], sorted[j-1]
		}
	}
	return sorted
}

package gate

import (
	"fmt"
	"strings"

	"github.com/windlass-dev/windlass/pkg/version"
)

// Hook is a place in an upgrade where Cluster API asks whether to go on. Its value is the name of the lifecycle hook.
type Hook string

// The hooks, in the order of a chain's steps.
const (
	BeforeClusterUpgrade      Hook = "BeforeClusterUpgrade"
	BeforeControlPlaneUpgrade Hook = "BeforeControlPlaneUpgrade"
	AfterControlPlaneUpgrade  Hook = "AfterControlPlaneUpgrade"
	BeforeWorkersUpgrade      Hook = "BeforeWorkersUpgrade"
	AfterWorkersUpgrade       Hook = "AfterWorkersUpgrade"
	AfterClusterUpgrade       Hook = "AfterClusterUpgrade"
)

// words are how hooks are spoken of.
var words = []struct {
	hook  Hook
	words string
}{
	{BeforeClusterUpgrade, "before cluster"},
	{BeforeControlPlaneUpgrade, "before control plane"},
	{AfterControlPlaneUpgrade, "after control plane"},
	{BeforeWorkersUpgrade, "before workers"},
	{AfterWorkersUpgrade, "after workers"},
	{AfterClusterUpgrade, "after cluster"},
}

// String is the hook in words, such as "before workers"; of a hook that is none, its name.
func (h Hook) String() string {
	for _, w := range words {
		if w.hook == h {
			return w.words
		}
	}
	return string(h)
}

// Step is one place in one upgrade.
type Step struct {
	Hook Hook
	// Version is the one that the step leads to, or has led to.
	Version version.Version
}

// String is the step in words, such as "before workers v1.32.4".
func (s Step) String() string { return s.Hook.String() + " " + s.Version.String() }

// Covers reports whether an approval of the step is one of another: of the same, or, as in the versions of a gate, of any build of
// it, where the step names none. Who approves v1.32.4 in advance need not know that it will be v1.32.4+rke2r1.
func (s Step) Covers(other Step) bool {
	return StepPattern{Hook: s.Hook, Release: Release{exact: s.Version}}.Matches(other)
}

// StepPattern selects steps: those at a hook, at a release.
type StepPattern struct {
	Hook    Hook
	Release Release
}

// ParseStepPattern reads a hook in words, or by its name, and a release, such as "before workers v1.32", "after control plane v1.31.4"
// or "AfterWorkersUpgrade v1.32". Without "before" and "after" it is "before".
func ParseStepPattern(s string) (StepPattern, error) {
	fields := strings.Fields(s)
	if len(fields) < 2 {
		return StepPattern{}, fmt.Errorf("%q is not a step. Fix: write one such as %q", s, "before workers v1.32")
	}
	release, err := ParseRelease(fields[len(fields)-1])
	if err != nil {
		return StepPattern{}, fmt.Errorf("%q is not a step: %w", s, err)
	}
	spoken := strings.Join(fields[:len(fields)-1], " ")
	for _, w := range words {
		if strings.EqualFold(spoken, w.words) || strings.EqualFold("before "+spoken, w.words) || strings.EqualFold(spoken, string(w.hook)) {
			return StepPattern{Hook: w.hook, Release: release}, nil
		}
	}
	known := make([]string, 0, len(words))
	for _, w := range words {
		known = append(known, w.words)
	}
	return StepPattern{}, fmt.Errorf("%q is not a step. Fix: begin it with one of: %s", s, strings.Join(known, ", "))
}

// Matches reports whether a pattern selects a step.
func (p StepPattern) Matches(s Step) bool { return p.Hook == s.Hook && p.Release.Matches(s.Version) }

// IsCoveredBy reports whether a pattern names one whole version, and an approval of the step is one of that.
func (p StepPattern) IsCoveredBy(s Step) bool {
	exact, ok := p.Release.Exact()
	return ok && s.Covers(Step{Hook: p.Hook, Version: exact})
}

// Release is a minor release with all its versions, or one version. The zero Release matches nothing.
type Release struct {
	minor version.Minor
	exact version.Version
}

// ParseRelease reads a minor release such as v1.32, or a version such as v1.32.4. The error is a *version.ParseError.
func ParseRelease(s string) (Release, error) {
	if minor, err := version.ParseMinor(s); err == nil {
		return Release{minor: minor}, nil
	}
	exact, err := version.Parse(s)
	return Release{exact: exact}, err
}

// Exact returns the version, of a release that is one.
func (r Release) Exact() (v version.Version, ok bool) { return r.exact, !r.exact.IsZero() }

// Matches reports whether a version is of the release. A release without a build stands for all its builds: v1.32.4 also for
// v1.32.4+rke2r1, since a gate that overlooks a build would be open.
func (r Release) Matches(v version.Version) bool {
	if r.exact.IsZero() {
		return !v.IsZero() && v.Minor() == r.minor
	}
	return v == r.exact || !strings.Contains(r.exact.String(), "+") && v.SameRelease(r.exact)
}

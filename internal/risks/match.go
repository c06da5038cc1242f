package risks

import (
	"fmt"
	"slices"
	"strings"

	"github.com/windlass-dev/windlass/internal/text"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// Range holds versions from AtLeast, which it includes, to Before, which it does not. A bound
// without a build or pre-release is about the release: every build and pre-release of it counts as
// it. A build that has no order with a bound is in the range. A zero bound is none.
type Range struct {
	AtLeast version.Version `json:"atLeast,omitzero"`
	Before  version.Version `json:"before,omitzero"`
}

// Contains reports whether the range holds a version.
func (r Range) Contains(v version.Version) bool {
	if !r.AtLeast.IsZero() && compare(v, r.AtLeast) == version.Less {
		return false
	}
	if r.Before.IsZero() {
		return true
	}
	order := compare(v, r.Before)
	return order == version.Less || order == version.Unordered
}

// compare orders a version against a bound.
func compare(v, bound version.Version) version.Ordering {
	if v.SamePatch(bound) && !strings.ContainsAny(bound.String(), "-+") {
		return version.Equal
	}
	return version.Compare(v, bound)
}

func (r Range) check() error {
	if r.AtLeast.IsZero() || r.Before.IsZero() ||
		version.Compare(r.AtLeast, r.Before) == version.Less {
		return nil
	}
	return fmt.Errorf("no version is at least %s and before %s. Fix: exchange them",
		r.AtLeast, r.Before)
}

func anyContains(ranges []Range, v version.Version) bool {
	return slices.ContainsFunc(ranges, func(r Range) bool { return r.Contains(v) })
}

// Step is a step of an upgrade.
type Step struct {
	From, To version.Version
	// Workers says that workers make it, not the control plane.
	Workers bool
	// Oldest is the oldest version that a node runs while the control plane makes the step; zero if it
	// is not known, and then From counts. OfAll finds it for steps of the control plane.
	Oldest version.Version
}

// Facts are what is known of a cluster. Zero values are not known.
type Facts struct {
	// Distribution is what the control plane is made of. Without it the builds of versions tell.
	Distribution Distribution
	// Etcd is where etcd runs.
	Etcd EtcdTopology
	// Machines is the number of machines of the control plane.
	Machines int
	// RunningEtcd is the oldest etcd that runs while the control plane has the version RunningAt.
	RunningEtcd, RunningAt version.Version
	// PinnedEtcd is the version of etcd that the configuration asks for whatever the version of
	// Kubernetes.
	PinnedEtcd version.Version
	// EtcdStays says that an upgrade of the control plane does not change etcd, whatever its version is.
	EtcdStays bool
	// Hosts are the machines, each kind of them once; none if they are not known. One of which nothing is
	// known is the zero Host.
	Hosts []Host
	// Cluster are the facts of the workload cluster; one that is missing is not known.
	Cluster map[ClusterFact]Answer
}

// Applied is a risk of a step.
type Applied struct {
	*Risk

	// Step is the step.
	Step Step
	// Etcd says which versions of etcd the step is between, where that counted; else empty.
	Etcd string
	// Confirmed says that facts show the cluster to be concerned: the risk has no condition that could
	// not be checked. Seen is what shows it, where that is more than the condition.
	Confirmed bool
	Seen      string
}

// String names the risk and what happens, without a full stop.
func (a Applied) String() string {
	named := a.ID + ": " + strings.TrimSuffix(a.Summary, ".")
	if a.Etcd != "" {
		named += " (" + a.Etcd + ")"
	}
	return named
}

// Of returns the risks of a step, in the order of the list. A step to the same version or to an older
// one has none.
func (s *Set) Of(f Facts, step Step) []Applied {
	order := version.Compare(step.From, step.To)
	if order == version.Equal || order == version.Greater {
		return nil
	}
	var found []Applied
	for i := range s.Risks {
		r := &s.Risks[i]
		if step.Workers && !r.Workers {
			continue
		}
		if a, ok := s.match(r, f, step); ok {
			found = append(found, a)
		}
	}
	return found
}

// match returns the risk by the alternative that confirms it, else by the first one that matches.
func (s *Set) match(r *Risk, f Facts, step Step) (found Applied, ok bool) {
	for _, m := range r.Match {
		if !m.matchesVersions(step) || !m.matchesCluster(f, step.To) {
			continue
		}
		a := Applied{Risk: r, Step: step, Confirmed: m.confirms(r, f), Seen: m.answer(f).Seen}
		if m.Etcd != (EtcdMatcher{}) {
			if f.EtcdStays {
				continue
			}
			before, after := s.etcdOf(f, step)
			if !matchesEtcd(m.Etcd.From, before) || !matchesEtcd(m.Etcd.To, after) {
				continue
			}
			a.Etcd = fmt.Sprintf("etcd %s -> %s", nameOf(before), nameOf(after))
		}
		if a.Confirmed {
			return a, true
		}
		if !ok {
			found, ok = a, true
		}
	}
	return found, ok
}

func (m Matcher) matchesVersions(s Step) bool {
	return anyContains(m.To, s.To) && !anyContains(m.To, s.From) &&
		(len(m.From) == 0 || anyContains(m.From, s.From)) &&
		(len(m.Oldest) == 0 || anyContains(m.Oldest, older(s.Oldest, s.From)))
}

// older returns the older one of two versions, the second one if they have no order or the first one
// is zero.
func older(a, b version.Version) version.Version {
	if !a.IsZero() && (b.IsZero() || version.Compare(a, b) == version.Less) {
		return a
	}
	return b
}

func (m Matcher) matchesCluster(f Facts, to version.Version) bool {
	return m.ControlPlane.matches(f) && m.Machines.matches(f) && m.matchesFact(f) &&
		(len(m.Distributions) == 0 || slices.Contains(m.Distributions, f.DistributionOf(to)))
}

func (c ControlPlaneMatcher) matches(f Facts) bool {
	if c.Etcd != "" && f.Etcd != "" && c.Etcd != f.Etcd {
		return false
	}
	return f.Machines == 0 ||
		f.Machines >= c.MinMachines && (c.MaxMachines == 0 || f.Machines <= c.MaxMachines)
}

func matchesEtcd(r Range, v version.Version) bool { return v.IsZero() || r.Contains(v) }

func nameOf(etcd version.Version) string {
	if etcd.IsZero() {
		return "of unknown version"
	}
	return etcd.String()
}

// etcdOf returns the etcd before and after a step, zero where it is not known.
func (s *Set) etcdOf(f Facts, step Step) (before, after version.Version) {
	before, after = f.PinnedEtcd, f.PinnedEtcd
	if after.IsZero() && f.Etcd != External {
		before = s.broughtBy(f.DistributionOf(step.From), step.From)
		after = s.broughtBy(f.DistributionOf(step.To), step.To)
	}
	if !f.RunningEtcd.IsZero() && f.RunningAt == step.From {
		before = f.RunningEtcd
	}
	return before, after
}

// broughtBy returns the etcd of a version of a distribution, zero where the list does not say.
func (s *Set) broughtBy(d Distribution, v version.Version) version.Version {
	for _, row := range s.EtcdVersions {
		if row.Distribution == d && row.Kubernetes.Contains(v) {
			return row.Etcd
		}
	}
	return version.Version{}
}

// EtcdOfTag returns the version that the tag of an image of etcd names, such as 3.5.24-0; zero if
// it names none.
func EtcdOfTag(tag string) version.Version {
	release, _, _ := strings.Cut(tag, "-")
	v, err := version.Parse(release)
	if err != nil {
		return version.Version{}
	}
	return v
}

// Found is a risk of some steps.
type Found struct {
	*Risk

	// At are the steps, at least one, in their order.
	At []Applied
}

// OfAll returns the risks of steps, each once, in the order of the list. The steps are in the order in
// which they are made.
func (s *Set) OfAll(f Facts, steps []Step) []Found {
	at, seen := map[string][]Applied{}, map[Step]bool{}
	for i, step := range steps {
		if !step.Workers {
			step.Oldest = oldestOf(steps[i:])
		}
		if seen[step] {
			continue // Another group makes the same step.
		}
		seen[step] = true
		for _, a := range s.Of(f, step) {
			at[a.ID] = append(at[a.ID], a)
		}
	}
	var found []Found
	for i := range s.Risks {
		if r := &s.Risks[i]; len(at[r.ID]) > 0 {
			found = append(found, Found{Risk: r, At: at[r.ID]})
		}
	}
	return found
}

// oldestOf returns the oldest version from which steps start: workers run it until their step.
func oldestOf(steps []Step) (oldest version.Version) {
	for _, step := range steps {
		oldest = older(step.From, oldest)
	}
	return oldest
}

// Confirmed reports whether facts show that the cluster is concerned, and by what, which may be empty.
func (f Found) Confirmed() (seen string, ok bool) {
	for _, a := range f.At {
		if a.Confirmed {
			return a.Seen, true
		}
	}
	return "", false
}

// Where names the steps, and the versions of etcd where these counted.
func (f Found) Where() string {
	const most = 3
	named := text.Some{Most: most}
	for _, a := range f.At {
		words := a.Step.String()
		if a.Etcd != "" {
			words += " (" + a.Etcd + ")"
		}
		named.Add(words)
	}
	return named.Join(", ")
}

// String names the step.
func (s Step) String() string {
	who := "CP"
	if s.Workers {
		who = "workers"
	}
	return fmt.Sprintf("%s %s -> %s", who, s.From, s.To)
}

// Steps returns the steps of a plan.
func Steps(operations []plan.Operation) []Step {
	steps := make([]Step, 0, len(operations))
	for _, o := range operations {
		steps = append(steps, Step{From: o.From, To: o.To, Workers: o.Kind == plan.WorkersUpgrade})
	}
	return steps
}

package gate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // Time zones must be there in an image without a file system, too.

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/keyed"
	"github.com/windlass-dev/windlass/internal/labelselector"
)

// Cluster is what counts of a Cluster.
type Cluster struct {
	Namespace, Name, UID string
	Labels               map[string]string
}

// Store keeps what the specs of UpgradeGates contain, parsed once for each version of a gate. It is
// safe for concurrent use. The zero value is ready.
type Store keyed.Versions[*parsedSpec]

// parsedSpec is the part of a gate that its spec alone decides. It is shared, so nobody changes it.
type parsedSpec struct {
	selector labelselector.Selector
	gate     Gate
}

// Select returns what [Select] does. gates are all that the Cluster's namespace has.
func (s *Store) Select(gates []v1alpha1.UpgradeGate, c Cluster, step Step) []Gate {
	versions := (*keyed.Versions[*parsedSpec])(s)
	specs := versions.Compute(c.Namespace, len(gates), func(i int) (string, keyed.Version) {
		g := &gates[i]
		return g.Name, keyed.VersionOf(g)
	}, func(i int) *parsedSpec {
		g := &gates[i]
		return &parsedSpec{selector: labelselector.Parse(g.Spec.ClusterSelector), gate: parse(g)}
	})
	var selected []Gate
	for i := range gates {
		g := &gates[i]
		if g.Namespace != c.Namespace {
			continue
		}
		forCluster, clusterProblem := selectsCluster(g, specs[i].selector, c)
		atStep, stepProblem := selectsStep(g, step)
		if !forCluster || !atStep {
			continue
		}
		found := specs[i].gate
		found.Problem = cmp.Or(clusterProblem, stepProblem, found.Problem)
		_, found.Approved = FindApproval(g, c, step)
		found.ApprovedBefore = slices.ContainsFunc(g.Status.Approvals, isFor(c, step))
		found.HowToApprove = howToApprove(g, c, step)
		selected = append(selected, found)
	}
	return selected
}

// Select returns the gates that are at a step of a Cluster's upgrade, in the given order. A gate that
// does not parse is among them, with its problem, if it may be for that step: it holds the upgrade.
func Select(gates []v1alpha1.UpgradeGate, c Cluster, step Step) []Gate {
	return new(Store).Select(gates, c, step)
}

// howToApprove names the step: pasted an hour later, the command must not approve what waits by then.
func howToApprove(g *v1alpha1.UpgradeGate, c Cluster, step Step) string {
	return fmt.Sprintf("windlass approve %s -n %s --gate %s --step %q", c.Name, c.Namespace, g.Name, step)
}

// SelectsCluster reports whether a gate is for a Cluster of its namespace. One whose selector does not parse might be, and then has a problem.
func SelectsCluster(g *v1alpha1.UpgradeGate, c Cluster) (selected bool, problem string) {
	return selectsCluster(g, labelselector.Parse(g.Spec.ClusterSelector), c)
}

func selectsCluster(
	g *v1alpha1.UpgradeGate, selector labelselector.Selector, c Cluster,
) (selected bool, problem string) {
	if g.Spec.ClusterName != "" {
		return g.Spec.ClusterName == c.Name, ""
	}
	if err := selector.Err(); err != nil {
		return true, fmt.Sprintf("spec.clusterSelector: %v", err)
	}
	return selector.MayMatch(c.Labels), ""
}

func selectsStep(g *v1alpha1.UpgradeGate, step Step) (selected bool, problem string) {
	for i, s := range g.Spec.Steps {
		if Hook(s.At) != step.Hook {
			continue
		}
		if len(s.Versions) == 0 {
			return true, ""
		}
		for j, v := range s.Versions {
			release, err := ParseRelease(string(v))
			if err != nil {
				return true, describeVersion(i, j, err)
			}
			if release.Matches(step.Version) {
				return true, ""
			}
		}
	}
	return false, ""
}

// parse reads what a gate requires. What cannot be read is the gate's problem.
func parse(g *v1alpha1.UpgradeGate) Gate {
	parsed := Gate{Name: g.Name, NeedsApproval: g.Spec.Requires.Approval != nil}
	for i, w := range g.Spec.Requires.Windows {
		window, err := ParseWindow(w)
		if err != nil {
			parsed.Problem = fmt.Sprintf("spec.requires.windows[%d]: %v", i, err)
			return parsed
		}
		parsed.Windows = append(parsed.Windows, window)
	}
	for _, c := range g.Spec.Requires.Checks {
		parsed.Checks = append(parsed.Checks, Check(c))
	}
	slices.Sort(parsed.Checks)
	return parsed
}

// ParseWindow translates a window. The error names the field, and says what would be right.
func ParseWindow(w v1alpha1.GateWindow) (Window, error) {
	location, err := time.LoadLocation(w.TimeZone)
	if err != nil || strings.EqualFold(w.TimeZone, "local") || w.TimeZone == "" {
		return Window{}, fmt.Errorf("timeZone: %q is not in the time zone database. Fix: write a name such as Europe/Berlin or UTC", w.TimeZone)
	}
	window := Window{Location: location}
	if window.From, err = ParseClock(w.From); err != nil {
		return Window{}, fmt.Errorf("from: %w", err)
	}
	if window.To, err = ParseClock(w.To); err != nil {
		return Window{}, fmt.Errorf("to: %w", err)
	}
	for _, name := range w.Days {
		day, err := ParseDay(name)
		if err != nil {
			return Window{}, fmt.Errorf("days: %w", err)
		}
		window.Days = append(window.Days, day)
	}
	return window, nil
}

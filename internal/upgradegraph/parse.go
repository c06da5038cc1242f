package upgradegraph

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/text"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// maxProblems bounds how many problems an InvalidError names: enough to fix a graph in one go, few enough to read.
const maxProblems = 5

// InvalidError says which fields of a graph do not parse or contradict each other.
type InvalidError struct {
	// Problems is never empty and in the order of the spec.
	Problems field.ErrorList
}

func (e *InvalidError) Error() string {
	some := text.Some{Most: maxProblems}
	for _, p := range e.Problems {
		some.Add(p.Error())
	}
	return some.Join("; ")
}

// Parse translates a graph for the planner. It is strict: a graph with a part that can have no effect, such as a blocked
// version that is not listed, is refused, because such a part is a slip and what it was meant to stop would happen.
// The error is an *InvalidError, which names fields such as spec.blocked[2].from.
//
// The API server refuses most of what is refused here. Graphs that are read from files, or were stored under an older
// schema, have not passed its checks. Here a version may lack its leading v.
//
// Graph.Stops is left to Stops, and Graph.Hazard to Hazard, because they depend on a cluster.
func Parse(spec v1alpha1.UpgradeGraphSpec) (plan.Graph, error) {
	p := parser{}
	root := field.NewPath("spec")
	var g plan.Graph
	g.Versions = p.versions(root.Child("versions"), spec.Versions)
	p.listed = g.Versions
	p.classes(root.Child("classes"), spec.Classes)
	for i, b := range spec.Blocked {
		g.Blocked = append(g.Blocked, p.blockedEdge(root.Child("blocked").Index(i), b))
	}
	for i, f := range spec.Floors {
		g.Floors = append(g.Floors, p.floor(root.Child("floors").Index(i), f))
	}
	for i, w := range spec.Workers {
		p.workersRule(root.Child("workers").Index(i), w)
	}
	p.knownRisks(root.Child("knownRisks"), spec.KnownRisks)
	if len(p.problems) > 0 {
		return plan.Graph{}, &InvalidError{Problems: p.problems}
	}
	return g, nil
}

// parser collects problems, so that all are reported at once.
type parser struct {
	listed   []version.Version
	problems field.ErrorList
}

func (p *parser) report(problem *field.Error) { p.problems = append(p.problems, problem) }

func (p *parser) versions(path *field.Path, items []v1alpha1.Version) []version.Version {
	if len(items) == 0 {
		p.report(field.Required(path, "list the versions that clusters may run or go to"))
		return nil
	}
	versions := make([]version.Version, 0, len(items))
	seen := make(map[version.Version]struct{}, len(items))
	for i, item := range items {
		v, ok := p.version(path.Index(i), string(item))
		if !ok {
			continue
		}
		if _, twice := seen[v]; twice {
			p.report(field.Duplicate(path.Index(i), string(item)))
			continue
		}
		seen[v] = struct{}{}
		versions = append(versions, v)
	}
	return versions
}

func (p *parser) version(path *field.Path, s string) (version.Version, bool) {
	v, err := version.Parse(s)
	return v, p.accept(path, s, err)
}

func (p *parser) minor(path *field.Path, s string) (version.Minor, bool) {
	m, err := version.ParseMinor(s)
	return m, p.accept(path, s, err)
}

// accept reports err as a problem of the field, and whether there was none.
func (p *parser) accept(path *field.Path, s string, err error) bool {
	if err == nil {
		return true
	}
	detail := err.Error()
	if syntax, ok := errors.AsType[*version.ParseError](err); ok {
		s, detail = syntax.Input, syntax.Problem
	}
	p.report(field.Invalid(path, s, detail))
	return false
}

func (p *parser) classes(path *field.Path, classes []v1alpha1.ClassReference) {
	for i, c := range classes {
		if c.Name == "" {
			p.report(field.Required(path.Index(i).Child("name"), "name the ClusterClass"))
		}
	}
}

// end is one end of a blocked edge: a version, a minor, or neither.
type end struct {
	version version.Version
	minor   version.Minor
}

func (e end) match() plan.Match {
	switch {
	case !e.version.IsZero():
		return plan.MatchVersion(e.version)
	case e.minor != version.Minor{}:
		return plan.MatchMinor(e.minor)
	default:
		return plan.Match{}
	}
}

func (p *parser) blockedEdge(path *field.Path, b v1alpha1.BlockedEdge) plan.BlockedEdge {
	if b.From == "" && b.To == "" {
		p.report(field.Required(path, "set from, to, or both: without either, every upgrade would be blocked"))
	}
	if b.Reason == "" {
		p.report(field.Required(path.Child("reason"), "say why, to the people whose upgrade meets the block"))
	}
	from, fromOK := p.end(path.Child("from"), b.From)
	to, toOK := p.end(path.Child("to"), b.To)
	if fromOK && toOK && b.From != "" && b.To != "" {
		p.checkStep(path.Child("to"), b, from, to)
	}
	return plan.BlockedEdge{From: from.match(), To: to.match(), Reason: b.Reason}
}

func (p *parser) end(path *field.Path, m v1alpha1.VersionMatch) (end, bool) {
	if m == "" {
		return end{}, true
	}
	e, ok := p.parseEnd(path, m)
	if !ok {
		return end{}, false
	}
	if slices.ContainsFunc(p.listed, e.match().Matches) {
		return e, true
	}
	p.report(field.Invalid(path, string(m), "it matches none of spec.versions; correct it, or add the version to the list"))
	return end{}, false
}

// parseEnd parses one that is not empty.
func (p *parser) parseEnd(path *field.Path, m v1alpha1.VersionMatch) (e end, ok bool) {
	if strings.Count(string(m), ".") == 1 {
		e.minor, ok = p.minor(path, string(m))
		return e, ok
	}
	e.version, ok = p.version(path, string(m))
	e.minor = e.version.Minor()
	return e, ok
}

// checkStep refuses an edge that no step of a control plane can ever be.
func (p *parser) checkStep(path *field.Path, b v1alpha1.BlockedEdge, from, to end) {
	lag, ok := from.minor.Lag(to.minor)
	switch {
	case ok && lag > 1:
		p.report(field.Invalid(path, string(b.To), fmt.Sprintf(
			"a control plane moves one minor at a time, so no step goes there from %s; block the steps to %s or from %s",
			b.From, from.minor.Next(), from.minor)))
	case !ok || !from.version.IsZero() && !to.version.IsZero() && !mayFollow(from.version, to.version):
		p.report(field.Invalid(path, string(b.To), fmt.Sprintf("it is not newer than %s, and nothing is ever downgraded", b.From)))
	}
}

// mayFollow reports whether a step may go from a to b: it is newer, or a build without an order of its own.
func mayFollow(a, b version.Version) bool {
	c := version.Compare(b, a)
	return c == version.Greater || c == version.Unordered
}

func (p *parser) floor(path *field.Path, f v1alpha1.Floor) plan.Floor {
	if f.Reason == "" {
		p.report(field.Required(path.Child("reason"), "say why, to the people whose upgrade meets the floor"))
	}
	before, beforeOK := p.minor(path.Child("before"), string(f.Before))
	atLeast, atLeastOK := p.version(path.Child("atLeast"), string(f.AtLeast))
	if beforeOK && atLeastOK && !atLeast.Minor().Before(before) {
		p.report(field.Invalid(path.Child("atLeast"), string(f.AtLeast), fmt.Sprintf(
			"it must be of a minor older than %s: no control plane can reach it before it enters %s", before, before)))
	}
	return plan.Floor{Before: before, AtLeast: atLeast, Reason: f.Reason}
}

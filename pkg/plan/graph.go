package plan

import (
	"github.com/windlass-dev/windlass/pkg/version"
)

// Graph is an upgrade graph: the versions that there are, which steps between them are blocked, and which versions must
// be reached before a minor. It is about the control plane's route. Workers stop on it where they must, and where Stops
// make them.
type Graph struct {
	// Versions on offer. The order decides only between builds that have no order of their own. The current version
	// need not be among them.
	Versions []version.Version
	Blocked  []BlockedEdge
	Floors   []Floor
	// Stops are the rules for groups of workers. The first that holds a group decides.
	Stops []StopRule
	// Hazard returns what is against a step of the control plane, nil if nothing is. It must depend on the versions
	// only. Nil means that nothing ever is.
	Hazard func(from, to version.Version) *Hazard
}

// Hazard is what is against a step.
type Hazard struct {
	// Name is a short phrase, Problem says what would happen, Fix what a person can do; all are without a capital or full
	// stop.
	Name, Problem, Fix string
}

// BlockedEdge forbids the control plane steps from any version that From matches to any that To matches.
type BlockedEdge struct {
	From, To Match
	// Reason is shown to people who meet the block.
	Reason string
}

// Floor forbids entering the minor Before, or a later one, from a version older than AtLeast.
type Floor struct {
	Before  version.Minor
	AtLeast version.Version
	// Reason is shown to people who meet the floor; it may be empty.
	Reason string
}

// Match selects versions: one, a whole minor, or, when zero, all.
type Match struct {
	version version.Version
	minor   version.Minor
}

// MatchVersion matches one version.
func MatchVersion(v version.Version) Match { return Match{version: v} }

// MatchMinor matches every version of a minor.
func MatchMinor(m version.Minor) Match { return Match{minor: m} }

// Matches reports whether v is selected.
func (m Match) Matches(v version.Version) bool {
	switch {
	case !m.version.IsZero():
		return m.version == v
	case m.minor != version.Minor{}:
		return m.minor == v.Minor()
	default:
		return true
	}
}

func (Graph) workers() []version.Version  { return nil }
func (g Graph) stops() []StopRule         { return g.Stops }
func (g Graph) listed() []version.Version { return g.Versions }

func (g Graph) controlPlane(current, target version.Version) ([]controlPlaneStep, error) {
	if current == target {
		return nil, nil
	}
	if err := checkOffered(g.Versions, "the upgrade graph", current, target); err != nil {
		return nil, err
	}
	s := newGraphSearch(g, current, target)
	path := s.path()
	if path == nil {
		return nil, s.obstacle()
	}
	return s.steps(path), nil
}

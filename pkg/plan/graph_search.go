package plan

import (
	"fmt"

	"github.com/windlass-dev/windlass/pkg/version"
)

// graphSearch is a breadth-first search over the versions from current, the first node, to target, the last.
type graphSearch struct {
	graph  Graph
	nodes  []version.Version
	listed map[version.Version]int
	// toTarget counts the steps from each node to the target; noWay where there are none.
	toTarget []int
}

const noWay = -1

func newGraphSearch(g Graph, current, target version.Version) *graphSearch {
	s := &graphSearch{graph: g, listed: make(map[version.Version]int, len(g.Versions))}
	for i, v := range g.Versions {
		if _, twice := s.listed[v]; !twice {
			s.listed[v] = i
		}
	}
	s.nodes = append(s.nodes, current)
	for i, v := range g.Versions {
		if s.listed[v] == i && v != target && s.newer(current, v) && s.newer(v, target) {
			s.nodes = append(s.nodes, v)
		}
	}
	s.nodes = append(s.nodes, target)
	s.measure()
	return s
}

// newer reports whether b comes after a. Between builds without an order of their own the graph's list decides; one that
// it does not hold is older.
func (s *graphSearch) newer(a, b version.Version) bool {
	switch version.Compare(b, a) {
	case version.Greater:
		return true
	case version.Unordered:
		positionOfA, known := s.listed[a]
		positionOfB, offered := s.listed[b]
		return offered && (!known || positionOfA < positionOfB)
	case version.Less, version.Equal:
		return false
	default:
		return false
	}
}

// adjacent reports whether the control plane could step from a to b if the graph held nothing against it.
func (s *graphSearch) adjacent(a, b version.Version) bool {
	lag, ok := a.Minor().Lag(b.Minor())
	return ok && lag <= 1 && s.newer(a, b)
}

// barrier is what a graph holds against a step: a floor, or else a blocked edge, or else a hazard.
type barrier struct {
	floor  *Floor
	edge   *BlockedEdge
	hazard *Hazard
}

// detail is the reason of a barrier that is no floor.
func (b barrier) detail() string {
	if b.edge != nil {
		return b.edge.Reason
	}
	return b.hazard.Name
}

func (s *graphSearch) barrier(a, b version.Version) (barrier, bool) {
	for i := range s.graph.Floors {
		f := &s.graph.Floors[i]
		crosses := a.Minor().Before(f.Before) && !b.Minor().Before(f.Before)
		if crosses && a != f.AtLeast && !s.newer(f.AtLeast, a) {
			return barrier{floor: f}, true
		}
	}
	for i := range s.graph.Blocked {
		if e := &s.graph.Blocked[i]; e.From.Matches(a) && e.To.Matches(b) {
			return barrier{edge: e}, true
		}
	}
	if s.graph.Hazard != nil {
		if hazard := s.graph.Hazard(a, b); hazard != nil {
			return barrier{hazard: hazard}, true
		}
	}
	return barrier{}, false
}

func (s *graphSearch) legal(from, to int) bool {
	a, b := s.nodes[from], s.nodes[to]
	if !s.adjacent(a, b) {
		return false
	}
	_, barred := s.barrier(a, b)
	return !barred
}

// measure fills toTarget, backwards from the target.
func (s *graphSearch) measure() {
	s.toTarget = make([]int, len(s.nodes))
	for i := range s.toTarget {
		s.toTarget[i] = noWay
	}
	target := len(s.nodes) - 1
	s.toTarget[target] = 0
	for queue := []int{target}; len(queue) > 0; queue = queue[1:] {
		for i := range s.nodes {
			if s.toTarget[i] == noWay && s.legal(i, queue[0]) {
				s.toTarget[i] = s.toTarget[queue[0]] + 1
				queue = append(queue, i)
			}
		}
	}
}

// path returns the nodes of a shortest way, the current version first; where several are equally short, the newest
// version at every step. It is nil when there is no way.
func (s *graphSearch) path() []int {
	if s.toTarget[0] == noWay {
		return nil
	}
	path := []int{0}
	for at := 0; s.toTarget[at] > 0; {
		next := noWay
		for candidate := range s.nodes {
			onWay := s.toTarget[candidate] == s.toTarget[at]-1 && s.legal(at, candidate)
			if onWay && (next == noWay || s.newer(s.nodes[next], s.nodes[candidate])) {
				next = candidate
			}
		}
		path = append(path, next)
		at = next
	}
	return path
}

func (s *graphSearch) steps(path []int) []controlPlaneStep {
	steps := make([]controlPlaneStep, 0, len(path)-1)
	for i := 1; i < len(path); i++ {
		steps = append(steps, controlPlaneStep{version: s.nodes[path[i]], reason: s.reason(path, i)})
	}
	return steps
}

// reason says why the i-th node of a path is on it. A second stop within a minor is there only because going on from
// the first is barred.
func (s *graphSearch) reason(path []int, i int) Reason {
	v := s.nodes[path[i]]
	if i == len(path)-1 {
		return Reason{Code: ReasonTarget, Version: v}
	}
	if previous := s.nodes[path[i-1]]; previous.Minor() == v.Minor() {
		following := s.nodes[path[i+1]]
		if b, barred := s.barrier(previous, following); barred {
			if b.floor != nil {
				return Reason{Code: ReasonFloor, Version: b.floor.AtLeast, Before: b.floor.Before, Detail: b.floor.Reason}
			}
			return Reason{Code: ReasonDetour, Version: v, Detail: b.detail()}
		}
	}
	for _, other := range s.nodes {
		if other.Minor() != v.Minor() || !s.newer(v, other) {
			continue
		}
		r := Reason{Code: ReasonDetour, Version: v}
		if b, barred := s.barrier(s.nodes[path[i-1]], other); barred && b.floor == nil {
			r.Detail = fmt.Sprintf("%s is blocked: %s", other, b.detail())
		}
		return r
	}
	return Reason{Code: ReasonLatestOfMinor, Version: v}
}

// obstacle explains why there is no way: what bars the newest version that can still be reached from going on.
func (s *graphSearch) obstacle() error {
	reached := s.reachable()
	at := 0
	for i := range s.nodes {
		if reached[i] && s.newer(s.nodes[at], s.nodes[i]) {
			at = i
		}
	}
	current, target := s.nodes[0], s.nodes[len(s.nodes)-1]
	next := s.nodes[at].Minor()
	if next != target.Minor() {
		next = next.Next()
	}
	candidate := noWay
	for i, v := range s.nodes {
		if v.Minor() == next && !reached[i] && (candidate == noWay || s.newer(s.nodes[candidate], v)) {
			candidate = i
		}
	}
	if candidate == noWay {
		return missingMinorError("the upgrade graph", next, current, target)
	}
	return s.barredError(s.nodes[at], s.nodes[candidate], target)
}

func (s *graphSearch) reachable() []bool {
	reached := make([]bool, len(s.nodes))
	reached[0] = true
	for queue := []int{0}; len(queue) > 0; queue = queue[1:] {
		for i := range s.nodes {
			if !reached[i] && s.legal(queue[0], i) {
				reached[i] = true
				queue = append(queue, i)
			}
		}
	}
	return reached
}

func (s *graphSearch) barredError(from, to, target version.Version) error {
	b, _ := s.barrier(from, to)
	if b.floor != nil {
		return &Error{
			Rule: RuleFloor, Item: Item(b.floor.Before.String()), Version: to,
			Problem: fmt.Sprintf("the upgrade graph asks for at least %s before %s%s, and %s is the newest version that can be reached",
				b.floor.AtLeast, b.floor.Before, because(b.floor.Reason), from),
			Fix: fmt.Sprintf("add %s or a newer %s version to the graph", b.floor.AtLeast, b.floor.AtLeast.Minor()),
		}
	}
	if b.hazard != nil {
		return &Error{
			Rule: RuleKnownRisk, Item: Item(fmt.Sprintf("%s -> %s", from, to)), Problem: b.hazard.Problem, Fix: b.hazard.Fix,
		}
	}
	detail, fix := "", "lift the block"
	if b.edge != nil {
		detail = because(b.edge.Reason)
		switch {
		case b.edge.To.version == target:
			fix = "choose another target, or lift the block"
		case !b.edge.To.version.IsZero():
			fix = fmt.Sprintf("add another %s version to the graph, or lift the block", to.Minor())
		}
	}
	return &Error{
		Rule: RuleBlocked, Item: Item(fmt.Sprintf("%s -> %s", from, to)),
		Problem: "the upgrade graph blocks this step" + detail,
		Fix:     fix,
	}
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return " (" + reason + ")"
}

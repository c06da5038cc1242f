package inplace_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/pkg/version"
)

// budget bounds what goes wrong on one path.
type budget struct{ crashes, flaps, outages, falls, cordons, retries, abandons, changes, others int8 }

// state is a world between two calls of the hook, and what may still go wrong in it.
type state struct {
	world
	budget
}

// oldest bounds the ages that are told apart: no rule of the decider looks farther back.
func oldest(p policy.Policy) time.Duration { return p.AttemptTimeout + p.Soak + 2*time.Second }

// key names a state. Ages count, not times, and only those that are younger than any rule looks at.
func (s *state) key() string {
	b := make([]byte, 0, 160)
	origin := s.now
	b = appendProgress(b, s.saved, origin.Add(-oldest(s.policy)))
	b = append(b, '|')
	b = appendFlags(b, s.retry, s.abandon, s.moved, s.last != nil, s.node.Exists, s.node.Unknown != "", s.node.Ready, s.node.Unschedulable, s.node.Kubelet == s.desired)
	b = appendAge(b, s.node.ReadySince, origin.Add(-oldest(s.policy)))
	b = appendAge(b, s.goodSince, origin.Add(-oldest(s.policy)))
	b = appendAge(b, s.unseen, origin.Add(-oldest(s.policy)))
	b = append(b, '0'+byte(s.cordonedBy), '|')
	l := &s.ledger
	b = appendInts(b, l.epoch, l.ended, s.begun)
	b = appendFlags(b, l.claimed, l.running, s.saved != nil && l.ready == s.saved.Operation)
	b = appendAge(b, l.startedAt, origin.Add(-oldest(s.policy)))
	b = appendAge(b, l.lastEnd, origin.Add(-oldest(s.policy)))
	for _, c := range l.calls {
		b = append(b, c.operation...)
		b = appendInts(b, c.step, c.epoch, c.attempt)
		b = appendFlags(b, c.closed)
	}
	b = append(b, '|')
	b = appendInts(b, int(s.crashes), int(s.flaps), int(s.outages), int(s.falls), int(s.cordons), int(s.retries), int(s.abandons), int(s.changes))
	b = appendInts(b, int(s.budget.others), s.world.others.InFlight, s.world.others.Group)
	b = appendFlags(b, s.world.others.Settled)
	return string(append(b, s.over...))
}

// appendProgress writes what decisions depend on. Times before origin are all alike.
func appendProgress(b []byte, p *inplace.Progress, origin time.Time) []byte {
	if p == nil {
		return append(b, "none"...)
	}
	b = append(b, p.ID...)
	b = append(append(append(b, ' '), p.Phase...), ' ')
	b = append(append(b, p.Operation...), ' ')
	b = appendInts(b, p.Attempt, p.Operations, len(p.Steps), len(p.Done))
	b = appendFlags(b, p.Cordoned, p.NotBefore != nil, p.Verified != nil, p.Drained, p.Unanswered, p.CanBegin == p.Operation)
	b = appendAge(b, p.Started, origin)
	if p.NotBefore != nil {
		b = appendAge(b, *p.NotBefore, origin)
	}
	if p.Verified != nil {
		b = appendAge(b, *p.Verified, origin)
	}
	return b
}

func appendAge(b []byte, t, origin time.Time) []byte {
	if t.IsZero() {
		return append(b, '-', ' ')
	}
	return append(strconv.AppendInt(b, max(0, int64(t.Sub(origin)/time.Second)), 10), ' ')
}

func appendInts(b []byte, list ...int) []byte {
	for _, n := range list {
		b = append(strconv.AppendInt(b, int64(n), 10), ' ')
	}
	return b
}

func appendFlags(b []byte, list ...bool) []byte {
	for _, f := range list {
		if f {
			b = append(b, 'y')
		} else {
			b = append(b, 'n')
		}
	}
	return append(b, ' ')
}

// answers are what an updater may do and say. The effect and the answer are independent: that is what lies are made of.
var answers = []struct {
	name    string
	effect  bool
	outcome inplace.Outcome
}{
	{"works", false, inplace.InProgress},
	{"done", true, inplace.Finishes},
	{"lies", false, inplace.Finishes},
	{"fails", false, inplace.Fails},
	{"unknown", false, inplace.Unknown},
	{"done in silence", true, inplace.Unknown},
}

// step is a way from one state to another.
type step struct {
	to    state
	label string
}

// hook returns all ways in which one call of the hook can go, with a crash at every point.
func hook(s state) []step {
	s.poll()
	return settle(s, "poll")
}

func settle(s state, label string) []step {
	var all []step
	crash := func(s state, where string) {
		if s.crashes > 0 && s.violation == "" {
			s.crashes--
			s.crash()
			all = append(all, step{s, label + ", crash " + where})
		}
	}
	crash(s, "before saving")
	s.save()
	crash(s, "after saving")
	if s.violation != "" {
		return append(all, step{s, label})
	}
	if a, ok := s.asking(); ok {
		for _, said := range []inplace.Readiness{{}, {Refused: "no"}, {Unknown: "away"}} {
			next := s
			next.canBegin(a, said)
			all = append(all, settle(next, label+", can begin "+a.Operation+" "+said.Refused+said.Unknown)...)
		}
		return all
	}
	if c, ok := s.calling(); ok {
		for _, a := range answers {
			if !c.Step.SetsVersion && (a.name == "lies" || a.effect && a.outcome == inplace.Unknown) {
				continue
			}
			next := s
			next.answer(c, a.effect, inplace.Answer{Outcome: a.outcome, Message: a.name})
			all = append(all, settle(next, label+", "+c.Operation+" "+a.name)...)
		}
		return all
	}
	if _, ok := s.verdict.Action.(inplace.Drain); ok {
		for _, done := range []bool{true, false} {
			next := s
			next.drain(done, "blocked")
			all = append(all, settle(next, fmt.Sprintf("%s, drained %v", label, done))...)
		}
		return all
	}
	if a, ok := s.verdict.Action.(inplace.AbandonUpdate); ok && a.Uncordon {
		half := s
		half.checkAbandon()
		half.uncordon()
		crash(half, "after uncordoning")
	}
	name := fmt.Sprintf("%T", s.verdict.Action)
	label += ", " + strings.TrimPrefix(name, "inplace.")
	if s.carryOut() {
		return append(all, settle(s, label)...)
	}
	s.facts, s.verdict, s.called = inplace.Facts{}, inplace.Verdict{}, false
	return append(all, step{s, label})
}

// surroundings returns all that can happen between two calls of the hook.
func surroundings(s state) []step {
	var all []step
	add := func(label string, possible bool, edit func(*state)) {
		if possible {
			next := s
			edit(&next)
			all = append(all, step{next, label})
		}
	}
	for _, d := range []time.Duration{10 * time.Second, s.policy.AttemptTimeout + time.Second} {
		add("tick "+d.String(), true, func(s *state) { s.now = s.now.Add(d) })
	}
	add("node NotReady", s.flaps > 0 && s.node.Ready, func(s *state) {
		s.flaps--
		s.setNode(func(n *inplace.Node) { n.Ready, n.NotReady = false, "flap" })
	})
	add("node Ready", !s.node.Ready, func(s *state) {
		s.setNode(func(n *inplace.Node) { n.Ready, n.NotReady, n.ReadySince = true, "", s.now })
	})
	add("outage", s.outages > 0 && s.node.Unknown == "", func(s *state) { s.outages--; s.node.Unknown = "outage" })
	add("outage over", s.node.Unknown != "", func(s *state) { s.node.Unknown = "" })
	add("kubelet falls back", s.falls > 0 && s.node.Kubelet == s.desired, func(s *state) {
		s.falls--
		s.setNode(func(n *inplace.Node) { n.Kubelet = older })
	})
	add("somebody cordons", s.cordons > 0 && !s.node.Unschedulable, func(s *state) {
		s.cordons--
		s.cordonedBy = somebody
		if s.saved != nil && s.saved.Cordoned {
			// Nobody can tell this cordon from Windlass's own.
			s.cordonedBy = windlass
		}
		s.node.Unschedulable = true
	})
	add("retry", s.retries > 0 && !s.retry && s.saved != nil, func(s *state) { s.retries--; s.retry = true })
	add("abandon", s.abandons > 0 && !s.abandon, func(s *state) { s.abandons--; s.abandon, s.moved = true, true })
	add("another begins", s.budget.others > 0, func(s *state) {
		s.budget.others--
		s.world.others.InFlight++
		s.world.others.Group++
	})
	add("another fails finally", s.world.others.Group > 0, func(s *state) {
		s.world.others.Group--
		s.world.others.Settled = true
	})
	add("all others finish", s.world.others.InFlight > 0, func(s *state) { s.world.others = inplace.Others{Settled: true} })
	add("the others leave the group", s.world.others != (inplace.Others{}), func(s *state) { s.world.others = inplace.Others{} })
	add("spec changes", s.changes > 0 && s.saved != nil, func(s *state) { s.changes--; s.desired = version.MustParse("v1.31.2") })
	return all
}

var (
	older = version.MustParse("v1.30.2")
	newer = version.MustParse("v1.31.1")
)

// explorer visits states breadth first.
type explorer struct {
	states []state
	from   []int32
	labels []string
	index  map[string]struct{}
	// good are states from which a fair run ends.
	good map[string]struct{}
}

// explore visits the states that can be reached from s, at most limit of them, and returns how many it visited, whether that
// was all, and the shortest way to a violation.
func explore(s state, limit int) (visited int, all bool, violation string) {
	return exploreEach(s, limit, func(state) string { return "" })
}

// exploreEach is explore with a check of each state, which returns a violation.
func exploreEach(s state, limit int, check func(state) string) (visited int, all bool, violation string) {
	e := &explorer{index: map[string]struct{}{s.key(): {}}, good: map[string]struct{}{}, states: []state{s}, from: []int32{-1}, labels: []string{"begin"}}
	for at := 0; at < len(e.states); at++ {
		current := e.states[at]
		if stuck := e.fair(current); stuck != "" {
			return len(e.states), false, e.trace(at, "", stuck)
		}
		if wrong := check(current); wrong != "" {
			return len(e.states), false, e.trace(at, "", wrong)
		}
		if current.over != "" {
			continue
		}
		for _, next := range append(hook(current), surroundings(current)...) {
			if next.to.violation != "" {
				return len(e.states), false, e.trace(at, next.label, next.to.violation)
			}
			key := next.to.key()
			if _, known := e.index[key]; known {
				continue
			}
			if len(e.states) >= limit {
				return len(e.states), false, ""
			}
			e.index[key] = struct{}{}
			e.states, e.from, e.labels = append(e.states, next.to), append(e.from, int32(at)), append(e.labels, next.label)
		}
		// Only its key is needed any longer.
		e.states[at] = state{}
	}
	return len(e.states), true, ""
}

func (e *explorer) trace(at int, last, violation string) string {
	lines := []string{last}
	for ; at > 0; at = int(e.from[at]) {
		lines = append([]string{e.labels[at]}, lines...)
	}
	return strings.Join(lines, "\n") + "\nVIOLATION: " + violation
}

// fair lets everything behave from now on, and says what keeps the update from its end.
func (e *explorer) fair(s state) string {
	const most = 60
	var seen []string
	retried := false
	for range most {
		if s.over != "" {
			break
		}
		key := fmt.Sprint(s.key(), retried)
		if _, ok := e.good[key]; ok {
			break
		}
		seen = append(seen, key)
		behave(&s)
		s.callHook(true, inplace.Answer{Outcome: inplace.Finishes})
		if s.violation != "" {
			return "in a fair run: " + s.violation
		}
		if a, ok := s.reply.(inplace.Wait); ok {
			s.now = s.now.Add(a.After)
		}
		if a, ok := s.reply.(inplace.Refuse); ok {
			switch {
			case a.Reason == inplace.ReasonDesiredChanged:
				// A person does what the message says, and is patient.
				s.abandon, s.moved = true, true
				s.now = s.now.Add(s.policy.AttemptTimeout / 2)
			case a.Reason == inplace.ReasonFailed && !retried:
				s.retry, retried = true, true
			default:
				return fmt.Sprintf("a fair run is refused: %+v", a)
			}
		}
		s.facts, s.verdict, s.called, s.reply = inplace.Facts{}, inplace.Verdict{}, false, nil
	}
	if len(seen) == most {
		return fmt.Sprintf("a fair run does not end: %s", appendProgress(nil, s.saved, s.now))
	}
	for _, key := range seen {
		e.good[key] = struct{}{}
	}
	return ""
}

// callHook makes one call of the hook, in which updaters can begin and give an answer, and drains
// end.
func (s *state) callHook(effect bool, a inplace.Answer) {
	s.poll()
	for more := true; more && s.violation == ""; {
		s.save()
		if asks, ok := s.asking(); ok {
			s.canBegin(asks, inplace.Readiness{})
		} else if c, ok := s.calling(); ok {
			s.answer(c, effect, a)
		} else if _, ok := s.verdict.Action.(inplace.Drain); ok {
			s.drain(true, "")
		} else {
			more = s.carryOut()
		}
	}
}

// behave fixes the node. The kubelet is where updaters bring it; one that fell back after them comes back.
func behave(s *state) {
	s.node.Unknown, s.world.others = "", inplace.Others{Settled: true}
	s.setNode(func(n *inplace.Node) {
		if !n.Ready {
			n.Ready, n.NotReady, n.ReadySince = true, "", s.now
		}
		if s.ledger.ended == len(s.decision.Steps) || s.saved != nil && len(s.saved.Steps) > 0 && !s.saved.Steps[0].SetsVersion && s.ledger.ended > 0 {
			n.Kubelet = s.desired
		}
	})
}

// plan makes steps from letters: v sets the version, c does not; upper case needs a drain, and the
// updater is asked before it.
func plan(letters string) []inplace.Step {
	var steps []inplace.Step
	for i, l := range letters {
		steps = append(steps, inplace.Step{
			Updater: fmt.Sprintf("%c%d", l, i+1), SetsVersion: l == 'v' || l == 'V', NeedsDrain: l == 'V' || l == 'C', Asks: l == 'V' || l == 'C',
		})
	}
	return steps
}

func start(d decider, letters string, attempts int, soak time.Duration) state {
	w := world{
		decider: d, now: epoch, desired: newer, target: "new", decision: &inplace.Decision{ID: "d", Target: "new", Steps: plan(letters)},
		policy: policy.Policy{MaxInFlight: 2, Alone: 1, Drain: true, Soak: soak, MaxAttempts: attempts, AttemptTimeout: time.Minute},
	}
	w.setNode(func(n *inplace.Node) {
		*n = inplace.Node{Exists: true, Ready: true, ReadySince: epoch.Add(-time.Hour), Kubelet: older}
	})
	return state{world: w}
}

const soak = 20 * time.Second

var explorations = map[string]struct {
	plan     string
	attempts int
	soak     time.Duration
	budget   budget
}{
	"one step, everything goes wrong": {"V", 2, soak, budget{crashes: 1, flaps: 1, outages: 1, cordons: 1, retries: 1, abandons: 1}},
	"one step, one failure":           {"V", 1, 0, budget{crashes: 1, retries: 1}},
	"one step, three attempts":        {"v", 3, soak, budget{crashes: 2, flaps: 1, retries: 1}},
	"two steps, crashes":              {"cV", 2, 0, budget{crashes: 3, retries: 1}},
	"two steps, abandon":              {"Vc", 2, soak, budget{crashes: 1, outages: 1, abandons: 1}},
	"two steps, somebody cordons":     {"cV", 2, soak, budget{crashes: 1, outages: 1, cordons: 1}},
	"three steps, three attempts":     {"cvc", 3, 0, budget{crashes: 1}},
	"three steps, crashes":            {"CvC", 2, 0, budget{crashes: 2, cordons: 1}},
	"no step":                         {"", 2, soak, budget{crashes: 1, flaps: 2, outages: 1, retries: 2, abandons: 1}},
	"the spec changes":                {"cv", 2, 0, budget{crashes: 1, changes: 1}},
	"others are first":                {"v", 2, 0, budget{crashes: 1, others: 3}},
	"the kubelet falls back":          {"v", 2, soak, budget{falls: 2, retries: 1}},
}

// TestExplore visits all that can happen to a machine, within bounds, and checks after every step what must always hold; see
// world.violate. From every state it also lets updaters and node behave, and checks that the update then ends.
func TestExplore(t *testing.T) {
	t.Parallel()
	limit := 12_000
	if os.Getenv("WINDLASS_LONG") == "1" {
		limit = 400_000
	}
	for name, tt := range explorations {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(sound(), tt.plan, tt.attempts, tt.soak)
			s.budget = tt.budget
			visited, all, violation := explore(s, limit)
			if violation != "" {
				t.Fatal(violation)
			}
			t.Logf("%d states, all of them: %v", visited, all)
			if visited < 100 {
				t.Errorf("only %d states: the model does not move", visited)
			}
		})
	}
}

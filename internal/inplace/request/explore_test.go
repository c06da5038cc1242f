package request_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/inplace/request"
)

const (
	optionA = "channel=1.31-classic/stable"
	optionB = "revision=7"
)

// budget bounds what goes wrong, and what people do, on one path.
type budget struct{ crashes, failures, edits, retries, flaps int8 }

type state struct {
	world
	budget
	// released says that all machines had a release on record at the beginning, and asks that the
	// updater is asked before a drain whether it can begin.
	released, asks bool
}

type step struct {
	to    state
	label string
}

func (s *state) copy() state {
	return state{world: s.clone(), budget: s.budget, released: s.released, asks: s.asks}
}

// key names a state: ages count, not times, and only as far as rules look.
func (s *state) key() string {
	b := []byte(fmt.Sprintf("%v|%v|%t|%s|%t|%v", s.budget, s.marks, s.retry, s.holder, s.byHand, s.recordKey()))
	for i := range s.machines {
		m := &s.machines[i]
		marks := m.marks
		if marks.LastFailed != "" {
			marks.LastFailed = "before"
		}
		b = fmt.Appendf(b, "|%v %t %s %s %t %t %t %t", marks, m.retry, m.installed, m.running, m.cordoned, m.node.Ready && m.node.Unknown == "", m.node.Unschedulable, m.upgrade == nil)
		if s.released {
			b = fmt.Appendf(b, " %t", m.asked)
		}
		if s.canary > 0 {
			b = fmt.Appendf(b, " %s", m.brought)
		}
		if u := m.upgrade; u != nil {
			b = fmt.Appendf(b, " %s %s %t %t %t", u.Option, u.Reason, u.Cancelled, u.Cordoned, u.Progress == nil)
			if p := u.Progress; p != nil {
				b = fmt.Appendf(b, " %t", p.CanBegin == p.Operation)
				b = fmt.Appendf(b, " %s %d %d %t %t %t %t %t %s", p.Phase, p.Attempt, len(p.Steps), p.Cordoned, p.Drained, p.Unanswered, p.Operation == m.operation, p.Unended, s.age(p.Started))
				if p.NotBefore != nil {
					b = fmt.Appendf(b, " %t", s.now.Before(*p.NotBefore))
				}
			}
		}
	}
	return string(b)
}

func (s *state) recordKey() string {
	if s.record == nil {
		return "none"
	}
	return fmt.Sprintf("%s %v %t %s %t", s.record.Option, s.record.Superseded, s.record.Ended != nil, s.record.Message, s.record.RetryAsked != nil)
}

// age says on which side of the attempt's time limit a time is.
func (s *state) age(t time.Time) string {
	if s.now.Sub(t) > s.policy.AttemptTimeout {
		return "old"
	}
	return "young"
}

// reconcileMachine returns all ways in which one reconcile of a machine can go, with a crash at every point.
func reconcileMachine(s state, i int) []step {
	return settle(s, i, request.DecideMachine(s.facts(i)), "machine "+s.machines[i].name, 0)
}

func settle(s state, i int, v request.MachineVerdict, label string, depth int) []step {
	if depth > 12 {
		s.violate("machine %s: no end of actions", s.machines[i].name)
	}
	if s.violation != "" {
		return []step{{s, label}}
	}
	var all []step
	crash := func(s state, where string) {
		if s.crashes > 0 {
			s.crashes--
			all = append(all, step{s, label + ", crash " + where})
		}
	}
	crash(s.copy(), "before saving")
	s = s.copy()
	s.save(i, v)
	crash(s.copy(), "after saving")
	again := func(next state, v request.MachineVerdict, label string) {
		all = append(all, settle(next, i, v, label, depth+1)...)
	}
	f := s.facts(i)
	switch a := v.Action.(type) {
	case request.Ask:
		again(s, request.Planned(f, request.Plan{Steps: []inplace.Step{{Updater: "u", SetsVersion: true, Asks: s.asks}}}), label+", planned")
		for _, plan := range []request.Plan{{Refused: "no updater"}, {Unknown: "updater away"}} {
			if next := s.copy(); next.failures > 0 {
				next.failures--
				again(next, request.Planned(f, plan), label+", "+plan.Refused+plan.Unknown)
			}
		}
	case request.Run:
		all = append(all, run(s, i, inplace.Decide(f.Facts()), label, depth+1)...)
	case request.Follow:
		for _, way := range ask(s, i, wish{Operation: a.Operation, Option: s.machines[i].upgrade.Option, Follow: true}) {
			crash(way.copy(), "after calling")
			again(way.state, request.Followed(way.facts(i), way.said), label+", "+way.label)
		}
	case request.TakeLock, request.ReleaseLock, request.Uncordon, request.EnableScaleDown,
		request.Rest, request.Wait:
		if s.carryOut(i, a) {
			f := s.facts(i)
			again(s, request.DecideMachine(f), label+fmt.Sprintf(", %T", a))
			return all
		}
		all = append(all, step{s, label + fmt.Sprintf(", %T", a)})
	}
	return all
}

// way is one of the ways in which a request to an updater can go.
type way struct {
	state
	label string
	said  inplace.Answer
}

// ask returns all ways in which a request to the updater of a machine can go.
func ask(s state, i int, r wish) []way {
	var all []way
	for _, answer := range []string{"done", "works", "fails", "done in silence", "lost", "unreachable"} {
		next := s.copy()
		if answer != "done" && answer != "works" {
			if next.failures == 0 {
				continue
			}
			next.failures--
		}
		said := next.call(i, r, answer)
		next.check()
		all = append(all, way{next, answer, said})
	}
	return all
}

// run returns all ways in which the engine can carry on an upgrade, with a crash at every point.
func run(s state, i int, d inplace.Verdict, label string, depth int) []step {
	if depth > 12 {
		s.violate("machine %s: no end of actions", s.machines[i].name)
	}
	if s.violation != "" {
		return []step{{s, label}}
	}
	var all []step
	crash := func(s state, where string) {
		if s.crashes > 0 {
			s.crashes--
			all = append(all, step{s, label + ", crash " + where})
		}
	}
	crash(s.copy(), "before saving")
	s = s.copy()
	s.keep(i, d, func(v request.MachineVerdict) { s.save(i, v) })
	crash(s.copy(), "after saving")
	next := func(s state, d inplace.Verdict, label string) {
		all = append(all, run(s, i, d, label, depth+1)...)
	}
	switch a := d.Action.(type) {
	case inplace.CanBegin:
		for _, said := range []inplace.Readiness{{}, {Refused: "no"}, {Unknown: "away"}} {
			way := s.copy()
			if said != (inplace.Readiness{}) {
				if way.failures == 0 {
					continue
				}
				way.failures--
			}
			f := way.facts(i)
			next(way, inplace.AnsweredCanBegin(f.Facts(), said), label+", can begin "+said.Refused+said.Unknown)
		}
	case inplace.Drain:
		s.machines[i].node.Unschedulable, s.machines[i].cordoned = true, true
		crash(s.copy(), "after draining")
		f := s.facts(i)
		drained := inplace.Drained(f.Facts())
		next(s, drained, label+", drained")
		// The drain may have taken the time of this reconcile.
		late := s.copy()
		late.save(i, request.Carried(f, drained.Progress))
		all = append(all, step{late, label + ", drained late"})
	case inplace.Call:
		for _, way := range ask(s, i, s.requestOf(i, a)) {
			crash(way.copy(), "after calling")
			f := way.facts(i)
			next(way.state, inplace.Answered(f.Facts(), way.said), label+", "+way.label)
		}
	case inplace.Uncordon:
		s.carryOut(i, request.Uncordon{})
		f := s.facts(i)
		next(s, inplace.Decide(f.Facts()), label+", uncordoned")
	case inplace.Finish, inplace.Refuse:
		return append(all, settle(s, i, request.DecideMachine(s.facts(i)), label+fmt.Sprintf(", %T", a), depth+1)...)
	case inplace.Wait, inplace.AbandonUpdate, inplace.Complete:
		all = append(all, step{s, label + fmt.Sprintf(", %T", a)})
	}
	return all
}

// reconcileGroup returns all ways in which one reconcile of the group can go.
func reconcileGroup(s state) []step {
	v := request.DecideGroup(s.group())
	var all []step
	next := s.copy()
	next.saveGroup(v)
	if next.crashes > 0 {
		half := next.copy()
		half.crashes--
		all = append(all, step{half, "group, crash after saving"})
	}
	next.carryOutGroup(v.Action)
	next.check()
	return append(all, step{next, fmt.Sprintf("group, %T", v.Action)})
}

// surroundings returns what time, people and nodes can do between two reconciles.
func surroundings(s state) []step {
	var all []step
	add := func(label string, possible bool, edit func(*state)) {
		if possible {
			next := s.copy()
			edit(&next)
			all = append(all, step{next, label})
		}
	}
	add("a quarter", true, func(s *state) { s.now = s.now.Add(15 * time.Second) })
	add("two minutes", true, func(s *state) { s.now = s.now.Add(2 * time.Minute) })
	for _, to := range []string{optionA, optionB, "nonsense", ""} {
		add("group to "+to, s.edits > 0 && s.marks.To != to, func(s *state) { s.edits--; s.marks.To = to })
		add("m0 to "+to, s.edits > 0 && s.machines[0].marks.To != to, func(s *state) { s.edits--; s.byHand = true; s.machines[0].marks.To = to })
	}
	last := len(s.machines) - 1
	add("m-last to B", s.edits > 0 && last > 0, func(s *state) { s.edits--; s.byHand = true; s.machines[last].marks.To = optionB })
	add("retry group", s.retries > 0 && !s.retry, func(s *state) { s.retries--; s.retry = true })
	away := s.machines[0].node.Unknown != ""
	add("cluster away", s.flaps > 0 && !away, func(s *state) { s.flaps--; s.setUnknown("away") })
	add("cluster back", away, func(s *state) { s.setUnknown("") })
	for i := range s.machines {
		m := &s.machines[i]
		add("retry "+m.name, s.retries > 0 && !m.retry && m.upgrade.IsFinal(), func(s *state) { s.retries--; s.machines[i].retry = true })
		add(m.name+" NotReady", s.flaps > 0 && m.node.Ready, func(s *state) {
			s.flaps--
			s.machines[i].node.Ready, s.machines[i].node.NotReady = false, "flap"
		})
		add(m.name+" Ready", !m.node.Ready, func(s *state) {
			n := &s.machines[i].node
			n.Ready, n.NotReady, n.ReadySince = true, "", s.now
		})
	}
	return all
}

func (s *state) setUnknown(why string) {
	for i := range s.machines {
		s.machines[i].node.Unknown = why
	}
}

func successors(s state) []step {
	all := append(reconcileGroup(s), surroundings(s)...)
	for i := range s.machines {
		all = append(all, reconcileMachine(s, i)...)
	}
	return all
}

// fair runs the world to its end, with nothing going wrong any more, and says what is wrong with the end.
func fair(s state) string {
	s = s.copy()
	s.budget = budget{}
	for i := range s.machines {
		s.machines[i].node.Ready, s.machines[i].node.NotReady, s.machines[i].node.Unknown = true, "", ""
	}
	quiet := 0
	for range 200 {
		before := s.key()
		next := reconcileGroup(s)
		s = next[len(next)-1].to
		for i := range s.machines {
			s = reconcileMachine(s, i)[0].to
			if s.violation != "" {
				return s.violation
			}
		}
		s.now = s.now.Add(20 * time.Second)
		if quiet++; s.key() != before {
			quiet = 0
		}
		if quiet > 8 {
			return unfinished(s)
		}
	}
	return "it does not come to rest"
}

// unfinished says what is wrong with a world at rest.
func unfinished(s state) string {
	failed := false
	for i := range s.machines {
		m := &s.machines[i]
		switch {
		case m.upgrade.IsFinal() && m.marks.To != "" && m.upgrade.Why() != "":
			failed = true
		case m.upgrade != nil:
			return m.name + " rests in an unfinished upgrade"
		case m.marks.To != "" && (s.holder == "" || s.holder == m.name):
			return m.name + " rests with " + m.marks.To + " asked for"
		case s.released && !m.asked && m.marks.Release == "":
			return m.name + " rests without its release, and no updater was asked"
		case m.cordoned && !m.upgrade.IsFinal():
			return m.name + " rests cordoned"
		}
	}
	switch {
	case s.holder != "" && !failed:
		return "the lock rests with " + s.holder
	case s.marks.To != "" && s.marks.Status != request.Failed && !failed:
		return "the group rests with " + s.marks.To + " asked for"
	}
	return ""
}

// explore visits the states that can be reached, at most limit of them, and returns how many there were and the shortest way to a violation.
func explore(first state, limit int) (visited int, violation string) {
	states, from, labels := []state{first}, []int{-1}, []string{"begin"}
	known := map[string]struct{}{first.key(): {}}
	trace := func(at int, label, problem string) string {
		lines := []string{label}
		for ; at >= 0; at = from[at] {
			lines = append([]string{labels[at]}, lines...)
		}
		return problem + ":\n  " + strings.Join(lines, "\n  ")
	}
	for at := 0; at < len(states) && len(states) < limit; at++ {
		if problem := fair(states[at]); problem != "" {
			return len(states), trace(at, "", problem)
		}
		for _, next := range successors(states[at]) {
			if next.to.violation != "" {
				return len(states), trace(at, next.label, next.to.violation)
			}
			key := next.to.key()
			if _, ok := known[key]; ok {
				continue
			}
			known[key] = struct{}{}
			states, from, labels = append(states, next.to), append(from, at), append(labels, next.label)
		}
	}
	return len(states), ""
}

// TestExplore visits what can happen to a group of machines: crashes at every point, attempts that fail, annotations that people set, change and remove at
// any moment, nodes that flap. From everywhere a fair run must end well.
func TestExplore(t *testing.T) {
	t.Parallel()
	limit := 6_000
	if os.Getenv("WINDLASS_LONG") != "" {
		limit = 1_500_000
	}
	for name, tt := range map[string]struct {
		controlPlane bool
		machines     int
		budget       budget
		// released says that the machines have a release on record, asks that the updater is asked.
		released, asks bool
		// limit is how many workers may be in flight where a canary goes first; 0 for one, without a canary.
		limit int
		// proven says that the first machine has optionA already.
		proven bool
	}{
		"single control plane machine": {controlPlane: true, machines: 1, budget: budget{crashes: 2, failures: 2, edits: 3, retries: 1, flaps: 1}},
		"control plane, crashes":       {controlPlane: true, machines: 3, budget: budget{crashes: 2, edits: 1, failures: 1}},
		"control plane, edits":         {controlPlane: true, machines: 2, budget: budget{edits: 3, failures: 1}},
		"control plane, failures and retries": {
			controlPlane: true, machines: 2, budget: budget{failures: 3, retries: 2, edits: 1},
		},
		"workers, crashes":             {machines: 2, budget: budget{crashes: 2, edits: 2}},
		"workers, edits":               {machines: 2, budget: budget{edits: 3, failures: 1}},
		"worker with a release":        {machines: 1, budget: budget{crashes: 1, edits: 2, failures: 1}, released: true},
		"worker with a release, asked": {machines: 1, budget: budget{crashes: 1, failures: 1, edits: 2}, released: true, asks: true},
		"control plane with releases":  {controlPlane: true, machines: 2, budget: budget{edits: 2}, released: true},
		"workers, flaps":               {machines: 2, budget: budget{flaps: 2, failures: 2, edits: 1}},
		"workers, canary":              {machines: 3, budget: budget{edits: 1, failures: 1}, limit: 3},
		"workers, canary fails":        {machines: 3, budget: budget{failures: 3, retries: 1}, limit: 2},
		"workers, canary, crashes":     {machines: 2, budget: budget{crashes: 1, edits: 2}, limit: 2},
		"workers, another option":      {machines: 3, budget: budget{edits: 1}, limit: 2, proven: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := state{world: newWorld(tt.controlPlane, tt.machines), budget: tt.budget}
			s.marks.To, s.released, s.asks = optionA, tt.released, tt.asks
			if tt.limit > 0 {
				s.limit, s.canary = tt.limit, 1
			}
			if tt.proven {
				s.machines[0].marks = request.Marks{Status: request.Done, Release: optionA}
				s.machines[0].installed, s.machines[0].brought = optionA, optionA+" "
			}
			for i := range s.machines {
				if tt.released {
					s.machines[i].marks.Release = s.machines[i].installed
				}
			}
			visited, violation := explore(s, limit)
			t.Logf("%d states", visited)
			if violation != "" {
				t.Error(violation)
			}
		})
	}
}

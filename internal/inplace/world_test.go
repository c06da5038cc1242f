package inplace_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/record"
	"github.com/windlass-dev/windlass/pkg/version"
)

// decider is what is tested, and what the mutants break.
type decider struct {
	decide   func(inplace.Facts) inplace.Verdict
	ready    func(inplace.Facts, inplace.Readiness) inplace.Verdict
	drained  func(inplace.Facts) inplace.Verdict
	answered func(inplace.Facts, inplace.Answer) inplace.Verdict
	// forgetful makes the driver act without recording anything first.
	forgetful bool
}

func sound() decider {
	return decider{decide: inplace.Decide, ready: inplace.AnsweredCanBegin, drained: inplace.Drained, answered: inplace.Answered}
}

// epoch is when the tests begin. All times are whole seconds, as on the Machine.
var epoch = time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)

// party is who cordoned the node.
type party int

const (
	nobody party = iota
	windlass
	somebody
)

// call is one attempt that an updater was called for, as the world saw it.
type call struct {
	operation            string
	step, epoch, attempt int
	// closed says that the end of the attempt is recorded.
	closed bool
}

// ledger is what really happened in the current update. The invariants are checked against it, never against what the decider
// has recorded.
type ledger struct {
	calls []call
	// epoch counts retries that people asked for, ended the steps whose end is recorded.
	epoch, ended int
	// ready is the operation that the updater said it can begin.
	ready string
	// claimed says that the current step's updater said that it is done.
	claimed bool
	// running says that the updater may be at work, since startedAt at the latest.
	running   bool
	startedAt time.Time
	// lastEnd is when the last step's updater said that it is done.
	lastEnd time.Time
}

// world is one machine and all that surrounds it. It is copied freely: what pointers and slices lead to is never changed.
type world struct {
	decider
	now      time.Time
	decision *inplace.Decision
	policy   policy.Policy
	desired  version.Version
	target   string
	drifted  []cover.Pointer
	others   inplace.Others

	// saved, last, retry and abandon are on the Machine.
	saved                 *inplace.Progress
	last                  *inplace.Summary
	retry, abandon, moved bool
	// over says how the update ended: "finished" or "abandoned".
	over string

	node       inplace.Node
	cordonedBy party
	// goodSince is since when the node has really been Ready at the desired version; zero if it is not.
	goodSince time.Time
	// unseen is goodSince from before the kubelet fell back, while nobody has looked: if it comes back, nobody can know.
	unseen time.Time

	begun  int
	ledger ledger

	// clock reads the node's times. It is part of the process, and no state depends on it before a jump.
	clock *record.Clock
	// facts, verdict and called are the memory of the process. A crash loses them.
	facts   inplace.Facts
	verdict inplace.Verdict
	called  bool
	// reply is what the last call of the hook was answered with.
	reply inplace.Action

	violation string
}

func (w *world) violate(format string, args ...any) {
	if w.violation == "" {
		w.violation = fmt.Sprintf(format, args...)
	}
}

// poll begins a call of the hook: it reads the facts and decides.
func (w *world) poll() {
	w.called, w.reply = false, nil
	w.facts = inplace.Facts{
		FreshID: fmt.Sprintf("u%d", w.begun+1), Desired: w.desired, Target: w.target, Decision: w.decision, Drifted: w.drifted,
		Progress: w.saved, Last: w.last, Policy: w.policy, Others: w.others,
		Retry: w.retry, Abandon: w.abandon, OwnerMovedOn: w.moved,
	}
	w.look()
	w.take(func() inplace.Verdict { return w.decide(w.facts) })
}

// look reads clock and node.
func (w *world) look() {
	w.facts.Now, w.facts.Node = w.now, w.node
	if w.node.Unknown == "" {
		w.unseen = time.Time{}
	} else {
		w.facts.Node = inplace.Node{Unknown: w.node.Unknown}
	}
	w.facts.Node.ReadySince = w.clock.Past("ns", w.facts.Node.ReadySince, w.now)
}

// take checks that what decides changes none of its inputs.
func (w *world) take(decide func() inplace.Verdict) {
	before := appendProgress(nil, w.facts.Progress, epoch)
	w.verdict = decide()
	if after := appendProgress(nil, w.facts.Progress, epoch); !bytes.Equal(before, after) {
		w.violate("deciding changes its input from %s to %s", before, after)
	}
	if w.verdict.Action == nil {
		w.violate("a verdict without an action")
	}
	recorded := w.facts.Progress.At(w.facts.Now)
	if _, refuses := w.verdict.Action.(inplace.Refuse); refuses && !same(recorded, w.verdict.Progress) && w.verdict.Progress.Phase != inplace.Failed {
		w.violate("a refusal changes the progress, and not to %s", inplace.Failed)
	}
}

// save records progress, as the engine does before it acts.
func (w *world) save() {
	_, finishes := w.verdict.Action.(inplace.Finish)
	if finishes || w.verdict.Progress == nil || same(w.saved, w.verdict.Progress) {
		return
	}
	if w.forgetful {
		w.facts.Progress = w.verdict.Progress
		return
	}
	w.record(w.verdict.Progress)
	w.facts.Progress, w.facts.Retry = w.saved, false
}

func (w *world) record(p *inplace.Progress) {
	read := roundTrip(w, p)
	if !same(p, read) {
		w.violate("progress is not read as it was written: %s, %s", appendProgress(nil, p, epoch), appendProgress(nil, read, epoch))
	}
	if w.saved == nil || w.saved.ID != p.ID {
		if w.saved != nil {
			w.violate("update %s takes the place of %s, which has not ended", p.ID, w.saved.ID)
		}
		w.begun++
		w.ledger = ledger{}
		w.checkBegin()
	} else {
		w.checkRecord(w.saved, p)
	}
	w.checkPlan(p)
	w.saved, w.retry = read, false
}

// checkBegin checks that no other machine keeps this one from beginning.
func (w *world) checkBegin() {
	switch o := w.others; {
	case o.InFlight >= int(w.policy.MaxInFlight):
		w.violate("begun beside %d others, and maxInFlight is %d", o.InFlight, w.policy.MaxInFlight)
	case o.Group >= w.policy.Alone && !o.Settled:
		w.violate("begun beside %d of its group, of which none has ended the update", o.Group)
	}
}

// checkRecord compares two records of one update.
func (w *world) checkRecord(before, after *inplace.Progress) {
	l := &w.ledger
	if len(after.Done) < len(before.Done) {
		w.violate("the end of a step is forgotten")
	}
	if len(after.Done) > len(before.Done) && !l.claimed {
		w.violate("the end of step %d is recorded, but its updater never said so", len(before.Done)+1)
	}
	if after.Operations < before.Operations {
		w.violate("operations are counted down from %d to %d", before.Operations, after.Operations)
	}
	if before.Phase == inplace.Failed && after.Phase != inplace.Failed {
		if !w.retry {
			w.violate("a failed update goes on though nobody asked for it")
		}
		l.epoch++
	}
	ends := len(after.Done) > len(before.Done)
	if ends {
		l.ended, l.claimed = len(after.Done), false
	}
	if ends || after.Phase == inplace.BackingOff || after.Phase == inplace.Failed {
		l.calls = slices.Clone(l.calls)
		for i := range l.calls {
			l.calls[i].closed = l.calls[i].closed || l.calls[i].operation == before.Operation
		}
		l.running = false
	}
}

// checkPlan checks that done and remaining steps make the plan that was decided on.
func (w *world) checkPlan(p *inplace.Progress) {
	if w.decision == nil {
		w.violate("progress without a decision")
		return
	}
	if len(p.Done)+len(p.Steps) != len(w.decision.Steps) {
		w.violate("%d done and %d remaining steps, but the plan has %d", len(p.Done), len(p.Steps), len(w.decision.Steps))
		return
	}
	for i, s := range w.decision.Steps {
		if i < len(p.Done) && p.Done[i].Updater != s.Updater || i >= len(p.Done) && p.Steps[i-len(p.Done)] != s {
			w.violate("step %d of the record is not the plan's", i+1)
		}
	}
}

// crash loses what only memory holds.
func (w *world) crash() {
	w.facts, w.verdict, w.called, w.reply = inplace.Facts{}, inplace.Verdict{}, false, nil
}

// calling returns the call that is to be carried out next.
func (w *world) calling() (inplace.Call, bool) {
	c, ok := w.verdict.Action.(inplace.Call)
	return c, ok && !w.called
}

// answer carries a Call out: the updater works, if effect, and answers.
func (w *world) answer(c inplace.Call, effect bool, a inplace.Answer) {
	w.checkCall(c)
	w.called = true
	l := &w.ledger
	l.running = a.Outcome == inplace.InProgress || a.Outcome == inplace.Unknown
	if w.saved != nil {
		l.startedAt = w.saved.Started
	}
	l.claimed = a.Outcome == inplace.Finishes
	if l.claimed {
		l.lastEnd = w.now
	}
	if effect && c.Step.SetsVersion {
		w.setNode(func(n *inplace.Node) { n.Kubelet = w.desired })
	}
	w.look()
	w.take(func() inplace.Verdict { return w.answered(w.facts, a) })
}

func (w *world) checkCall(c inplace.Call) {
	p, l := w.saved, &w.ledger
	if p == nil || p.Phase != inplace.Updating || p.Operation != c.Operation || len(p.Steps) == 0 || p.Steps[0] != c.Step {
		w.violate("updater %s is called with operation %s before that is recorded", c.Step.Updater, c.Operation)
		return
	}
	if c.Operation == "" {
		w.violate("updater %s is called without an operation id", c.Step.Updater)
	}
	if l.ended >= len(w.decision.Steps) || w.decision.Steps[l.ended] != c.Step {
		w.violate("updater %s is called, but %d steps have ended: it ran already, or it is not its turn", c.Step.Updater, l.ended)
		return
	}
	made := call{operation: c.Operation, step: l.ended, epoch: l.epoch, attempt: p.Attempt}
	attempts, known := 0, false
	for _, old := range l.calls {
		sameAttempt := old.step == made.step && old.epoch == made.epoch && old.attempt == made.attempt
		if sameAttempt != (old.operation == made.operation) {
			w.violate("operation ids do not name attempts: %+v, then %+v", old, made)
		}
		if old.operation == made.operation && old.closed {
			w.violate("operation %s is called again though its end is recorded", old.operation)
		}
		known = known || sameAttempt
		if old.step == made.step && old.epoch == made.epoch {
			attempts++
		}
	}
	if known {
		return
	}
	if attempts >= w.policy.MaxAttempts {
		w.violate("updater %s is called for attempt %d of at most %d", c.Step.Updater, attempts+1, w.policy.MaxAttempts)
	}
	l.calls = append(slices.Clip(l.calls), made)
}

// asking returns the question that is to be carried out next.
func (w *world) asking() (inplace.CanBegin, bool) {
	a, ok := w.verdict.Action.(inplace.CanBegin)
	return a, ok && !w.called
}

// canBegin has the updater say whether it can begin.
func (w *world) canBegin(a inplace.CanBegin, said inplace.Readiness) {
	if p := w.saved; p == nil || p.Operation != a.Operation || len(p.Steps) == 0 || p.Steps[0] != a.Step {
		w.violate("updater %s is asked about operation %s before that is recorded", a.Step.Updater, a.Operation)
	}
	if said == (inplace.Readiness{}) {
		w.ledger.ready = a.Operation
	}
	w.look()
	w.take(func() inplace.Verdict { return w.ready(w.facts, said) })
}

// drain carries a Drain out.
func (w *world) drain(done bool, message string) {
	if w.saved == nil || w.ledger.ready != w.saved.Operation {
		w.violate("the node is drained before the updater said that it can begin")
	}
	w.cordon()
	if !done {
		w.take(func() inplace.Verdict { return inplace.StillDraining(w.facts, message) })
		return
	}
	w.take(func() inplace.Verdict { return w.drained(w.facts) })
}

func (w *world) cordon() {
	if !w.node.Exists {
		return
	}
	if !w.node.Unschedulable {
		if w.saved == nil || w.saved.Phase != inplace.Draining || !w.saved.Cordoned && w.node.Unknown == "" {
			w.violate("the node is cordoned before that is recorded")
		}
		w.cordonedBy = windlass
	}
	w.setNode(func(n *inplace.Node) { n.Unschedulable = true })
}

// uncordon makes the node schedulable.
func (w *world) uncordon() {
	if w.cordonedBy == somebody {
		w.violate("the node is uncordoned, but somebody else cordoned it")
	}
	w.cordonedBy = nobody
	w.setNode(func(n *inplace.Node) { n.Unschedulable = false })
}

// carryOut carries out what needs no choice. It reports whether another verdict follows.
func (w *world) carryOut() (more bool) {
	switch a := w.verdict.Action.(type) {
	case inplace.Uncordon:
		w.checkDone("uncordoned")
		w.uncordon()
		w.look()
		w.take(func() inplace.Verdict { return w.decide(w.facts) })
		if _, again := w.verdict.Action.(inplace.Uncordon); again {
			w.violate("the node is uncordoned for ever")
		}
		return true
	case inplace.Finish:
		w.finish(a)
	case inplace.AbandonUpdate:
		w.checkAbandon()
		if a.Uncordon && w.node.Unschedulable {
			w.uncordon()
		}
		if w.cordonedBy == windlass {
			w.violate("the update is abandoned, and the node stays cordoned")
		}
		w.saved, w.last, w.abandon, w.over = nil, nil, false, "abandoned"
	case inplace.Wait:
		if a.After <= 0 || a.Message == "" || a.Reason == "" {
			w.violate("a wait without time, reason or message: %+v", a)
		}
	case inplace.Refuse:
		if a.Message == "" || a.Reason == "" {
			w.violate("a refusal without reason or message: %+v", a)
		}
	case inplace.Complete:
		if w.saved != nil {
			w.violate("the update counts as complete, but its progress is on record")
		}
	case inplace.Drain, inplace.Call, inplace.CanBegin:
		// Call and CanBegin: a hook makes one request at most. Drain: the caller's.
	}
	if w.forgetful && w.verdict.Progress != nil && !same(w.saved, w.verdict.Progress) && w.over == "" {
		w.record(w.verdict.Progress)
	}
	w.reply = w.verdict.Action
	return false
}

// checkDone checks that the node has been what it should be for the soak time.
func (w *world) checkDone(what string) {
	switch n := w.node; {
	case n.Unknown != "" || !n.Exists || !n.Ready || n.Kubelet != w.desired:
		w.violate("%s, but the node is %+v", what, n)
	case w.goodSince.IsZero() || w.now.Sub(w.goodSince) < w.policy.Soak:
		w.violate("%s, but the node is Ready at %s only since %s", what, w.desired, w.now.Sub(w.goodSince))
	case !w.ledger.lastEnd.IsZero() && w.now.Sub(w.ledger.lastEnd) < w.policy.Soak:
		w.violate("%s before the soak is over", what)
	}
	steps := len(w.decision.Steps)
	if w.ledger.ended < steps-1 || w.ledger.ended == steps-1 && !w.ledger.claimed {
		w.violate("%s, but only %d of %d steps have ended", what, w.ledger.ended, steps)
	}
}

func (w *world) finish(a inplace.Finish) {
	w.checkDone("finished")
	if w.cordonedBy == windlass {
		w.violate("finished, but the node is still cordoned")
	}
	names := func(d inplace.Finished) string { return d.Updater }
	if len(a.Summary.Done) != len(w.decision.Steps) || !slices.EqualFunc(a.Summary.Done, w.decision.Steps, func(d inplace.Finished, s inplace.Step) bool { return names(d) == s.Updater }) {
		w.violate("finished, but the summary has other steps than the plan: %+v", a.Summary.Done)
	}
	if !slices.Equal(a.Dirty, w.decision.Dirty) {
		w.violate("finished, but other fields are dirty than decided: %+v", a.Dirty)
	}
	w.last = roundTrip(w, &a.Summary)
	w.saved, w.abandon, w.retry, w.over = nil, false, false, "finished"
	// Cluster API may ask again before it has noted the end.
	again := *w
	again.poll()
	if _, ok := again.verdict.Action.(inplace.Complete); !ok || again.verdict.Progress != nil {
		w.violate("finished, but asked again the answer is %+v", again.verdict)
	}
}

func (w *world) checkAbandon() {
	if !w.abandon || !w.moved {
		w.violate("abandoned though nobody asked for it, or though the owner desires just what the spec says")
	}
	if w.ledger.running && w.now.Sub(w.ledger.startedAt) <= w.policy.AttemptTimeout {
		w.violate("abandoned while an updater may be at work")
	}
}

// setNode changes the node, and keeps account of since when it is good.
func (w *world) setNode(edit func(*inplace.Node)) {
	edit(&w.node)
	good := w.node.Exists && w.node.Ready && w.node.Kubelet == w.desired
	switch {
	case !w.node.Ready:
		w.goodSince, w.unseen = time.Time{}, time.Time{}
	case !good && !w.goodSince.IsZero():
		w.goodSince, w.unseen = time.Time{}, w.goodSince
	case good && !w.unseen.IsZero():
		w.goodSince, w.unseen = w.unseen, time.Time{}
	case good && w.goodSince.IsZero():
		w.goodSince = w.now
	}
}

func roundTrip[T any](w *world, value *T) *T {
	data, err := json.Marshal(value)
	if err != nil {
		w.violate("encoding: %v", err)
		return value
	}
	read := new(T)
	if err := json.Unmarshal(data, read); err != nil {
		w.violate("decoding %s: %v", data, err)
	}
	return read
}

func same(a, b *inplace.Progress) bool {
	if a == nil || b == nil {
		return a == b
	}
	origin := epoch.Add(-48 * time.Hour) // A clock may have jumped back since.
	return a == b || bytes.Equal(appendProgress(nil, a, origin), appendProgress(nil, b, origin)) &&
		a.Began.Equal(b.Began) && a.StepBegan.Equal(b.StepBegan) && a.LastError == b.LastError
}

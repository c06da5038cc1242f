package explore

import (
	"context"
	"errors"
	"iter"
	"strings"
	"time"

	"github.com/windlass-dev/windlass/internal/chain"
	"github.com/windlass-dev/windlass/pkg/version"
)

// run is one action of an engine in a world, with one outcome of all that can go either way.
type run struct {
	*model
	// w is the world as it becomes, asRead what the engine saw of it.
	w      *world
	asRead world
	// stock says that it is the other engine's action.
	stock bool
	// changed says that somebody has changed the Cluster since it was read.
	changed bool
	// choices are the outcomes, ways how many there are of each. Beyond the choices that it begins
	// with, a run takes the first.
	choices, ways []uint8
	// dead says that the process has been cut off.
	dead bool
	// reason is why the engine decided what it did, said what happened, violation which invariants
	// do not hold.
	reason    chain.Reason
	said      []string
	violation string
}

var _ chain.Effects = (*run)(nil)

var (
	errCut      = errors.New("cut off")
	errConflict = errors.New("the object has been modified")
	errHook     = errors.New("the extension cannot be reached")
)

// choose takes the next outcome out of n.
func (r *run) choose(n int) int {
	at := len(r.ways)
	r.ways = append(r.ways, uint8(n)) //nolint:gosec // a handful
	if at == len(r.choices) {
		r.choices = append(r.choices, 0)
	}
	return int(r.choices[at])
}

// others returns the choices of the outcome after this one, counting from the last choice; none
// after the last outcome.
func (r *run) others() []uint8 {
	last := len(r.choices) - 1
	for last >= 0 && r.choices[last]+1 == r.ways[last] {
		last--
	}
	next := r.choices[:last+1]
	if last >= 0 {
		next[last]++
	}
	return next
}

func (r *run) say(format string, args ...any) {
	if r.labelled {
		r.said = append(r.said, r.format(format, args...))
	}
}

// spend takes one from a budget that has one.
func spend(budget *uint8) bool {
	if *budget == 0 {
		return false
	}
	if *budget != Unlimited {
		*budget--
	}
	return true
}

// disturbed takes one of three outcomes. All but the first, which is that all goes well, use up a
// disturbance.
func (r *run) disturbed(budget *uint8) int {
	if *budget == 0 {
		return 0
	}
	outcome := r.choose(3)
	if outcome > 0 {
		spend(budget)
	}
	return outcome
}

// attempt makes an effect that may be lost, or be done without an answer.
func (r *run) attempt(what string, effect func()) error {
	if r.dead {
		return errCut
	}
	switch r.disturbed(&r.w.faults.Cuts) {
	case 1:
		r.say("%v is lost", what)
		return errCut
	case 2:
		effect()
		r.say("%v is done, its answer is lost", what)
		return errCut
	default:
		effect()
		return nil
	}
}

// Record implements chain.Effects.
func (r *run) Record(_ context.Context, recorded chain.Recorded) error {
	if r.changed {
		r.say("a conflict")
		return errConflict
	}
	return r.attempt("the record", func() {
		old := *r.w
		r.write(r.w, recorded)
		r.recorded(&old)
	})
}

// write puts on the Cluster what is recorded.
func (m *model) write(w *world, recorded chain.Recorded) {
	generation := w.generation()
	w.pending, w.intent, w.chainTarget, w.chainAt, w.edited = 0, intent{}, 0, 0, false
	w.stepTo, w.insteadOf, w.lacked = 0, 0, 0
	for _, name := range recorded.Pending {
		if h := hookOf(name); h != 0 {
			w.pending = w.pending.with(h)
		}
	}
	if i := recorded.Intent; i != nil {
		isAhead := i.Passed.After(epoch)
		aged := isAhead || !i.Passed.After(longAgo)
		w.intent = intent{from: m.rung(i.From), to: m.rung(i.To), workers: i.Workers, aged: aged, ahead: isAhead}
	}
	if recorded.Chain != nil {
		w.edited = recorded.Chain.Generation != generation
		w.chainTarget, w.chainAt = m.rung(recorded.Chain.Target), m.rung(recorded.Chain.At)
		if last := len(recorded.Chain.Steps) - 1; last >= 0 {
			step := recorded.Chain.Steps[last]
			w.stepTo, w.insteadOf, w.lacked = m.rung(step.To), m.rung(step.InsteadOf), m.membersOf(step.Lacked)
		}
	}
	w.upgradeStep, w.okToDelete = m.rung(recorded.UpgradeStep), recorded.OKToDelete
}

// Call implements chain.Effects. Of a call whose answer is lost the engine knows as little as of one that fails.
func (r *run) Call(_ context.Context, call chain.CallHook, _ chain.Decision) (chain.Reply, error) {
	if r.dead {
		return chain.Reply{}, errCut
	}
	return r.call(hookOf(call.Hook), r.rung(call.Step))
}

func (r *run) call(h hook, step rung) (chain.Reply, error) {
	answer := r.disturbed(&r.w.faults.Answers)
	r.called(h, step, answer == 0)
	name := strings.TrimSpace(h.String() + " " + r.version(step).String())
	switch answer {
	case 1:
		r.say("%v blocks", name)
		return chain.Reply{RetryAfter: time.Second, Message: "not now"}, nil
	case 2:
		r.say("%v fails", name)
		return chain.Reply{}, errHook
	default:
		r.say("%v passes", name)
		return chain.Reply{}, nil
	}
}

// Apply implements chain.Effects. As in the product, one group's failure does not keep it from the others.
func (r *run) Apply(_ context.Context, objects chain.Objects, stamp version.Version) error {
	if r.dead {
		return errCut
	}
	r.check(!r.asRead.paused && !r.asRead.deleting, "objects are written though the Cluster is paused or goes")
	r.check(!objects.Leave, "objects are written that are to be left alone")
	if err := r.applyControlPlane(objects.ControlPlane, r.rung(stamp)); err != nil {
		return err
	}
	var failures []error
	for _, o := range objects.Groups {
		i := r.group(o.Name)
		if i < 0 || !r.asRead.groups[i].inTopology {
			r.check(false, "%v %q is written, and there is no such group", o.Kind, o.Name)
			continue
		}
		r.check(o.Kind == r.Groups[i].Kind, "%q is written as a %v", o.Name, o.Kind)
		failures = append(failures, r.applyGroup(i, o))
	}
	for i := range r.Groups {
		failures = append(failures, r.deletesGroup(i))
	}
	err := errors.Join(failures...)
	if err != nil {
		// A group that was kept back comes after others that were not.
		r.w.ledger.turn = 0
	}
	return err
}

func (r *run) applyControlPlane(o chain.Object, stamp rung) error {
	w, to := r.w, r.rung(o.Version)
	if !w.cp.exists {
		return r.create(to, stamp)
	}
	switch {
	case o.Hold:
		return nil
	case to != w.cp.spec:
		r.say("the control plane goes to %v", o.Version)
		return r.attempt("that", func() { r.raisesControlPlane(to, stamp) })
	}
	r.check(to == r.asRead.target || r.asRead.cp.lags, "the control plane waits at %v for its upgrade, and is written to", o.Version)
	if stamp == w.cp.stamp {
		return nil
	}
	return r.attempt("the stamp", func() { w.cp.stamp = stamp })
}

// create makes the control plane and what comes before it.
func (r *run) create(to, stamp rung) error {
	r.check(r.w.ledger.create == complete, "the topology is created, and BeforeClusterCreate did not let it pass")
	r.check(to == r.asRead.target, "the control plane is created at %v", to)
	if !r.w.begun {
		if err := r.attempt("the infrastructure", func() { r.w.begun = true }); err != nil {
			return err
		}
	}
	return r.attempt("the control plane", func() {
		r.say("the control plane is created at %v", to)
		r.w.cp = controlPlane{exists: true, spec: to, stamp: stamp}
	})
}

func (r *run) applyGroup(i int, o chain.Object) error {
	g, seen, to := &r.w.groups[i], r.asRead.groups[i], r.rung(o.Version)
	switch {
	case o.Hold || !g.inTopology || isGoing(*g, seen):
		return nil
	case seen.exists && !g.exists:
		r.say("%v is gone", o.Name)
		return errCut
	case !g.exists:
		r.check(to == r.asRead.target, "%v is created at %v", o.Name, o.Version)
		return r.attempt(o.Name, func() {
			r.say("%v is created at %v", o.Name, o.Version)
			r.createsGroup(i, to)
		})
	case to != g.version || seen.lags && to != seen.oldest:
		return r.sendGroup(i, o)
	default:
		r.check(to == r.asRead.target || seen.lags, "%v waits at %v for its upgrade, and is written to", o.Name, o.Version)
		return nil
	}
}

// isGoing reports whether a group is being deleted, or was when the engine read it.
func isGoing(g, seen group) bool { return g.deleting || seen.deleting }

// sendGroup sends a group to another version. The product looks at the group once more before.
func (r *run) sendGroup(i int, o chain.Object) error {
	seen, to := r.asRead.groups[i], r.rung(o.Version)
	if seen.lags && to != seen.oldest {
		r.say("a conflict")
		return errConflict
	}
	r.say("%v goes to %v", o.Name, o.Version)
	return r.attempt("that", func() { r.raisesGroup(i, to) })
}

// deletesGroup deletes a group that had left the topology when that was read. Its machines run until it is gone.
func (r *run) deletesGroup(i int) error {
	g := &r.w.groups[i]
	if !r.asRead.groups[i].leaving() || !g.exists || g.deleting {
		return nil
	}
	return r.attempt(r.Groups[i].Name, func() {
		r.say("%v is deleted", r.Groups[i].Name)
		g.deleting, g.lags = true, false
		r.w.replan()
	})
}

func (r *run) createsGroup(i int, to rung) {
	w := r.w
	calm := w.cp.spec == to && !w.cp.upgrading() && !w.ledger.controlPlane.open()
	r.check(r.stock || calm, "%v is created while the control plane changes", r.Groups[i].Name)
	w.groups[i].exists, w.groups[i].version, w.groups[i].oldest = true, to, to
	w.ledger.followed = w.ledger.followed.with(i)
	r.checkGroupSkew(i)
}

func (m *model) carry(r *run, state chain.State, recorded chain.Recorded, d chain.Decision) {
	r.reason = d.Reason
	r.say("%v: %v", d.Reason, d.Message)
	outcome, err := m.Engine.Carry(context.Background(), state, recorded, d, epoch, r)
	if err != nil {
		return
	}
	if wait, ok := d.Action.(chain.Wait); ok {
		r.check(wait.Until.IsZero() || outcome.RequeueAfter > 0, "nobody comes back after %v", d.Message)
	}
	if a := outcome.Answer; a != nil {
		r.w.answer = answer{hook: hookOf(a.Hook), step: r.rung(a.Step), failed: a.Failed}
		r.check(outcome.RequeueAfter > 0, "nobody comes back to call %v again", a.Hook)
		r.check(a.Message != "" && a.Until.After(epoch) && !a.Since.IsZero(), "an answer without message or times: %+v", *a)
	}
}

// outcomes are the runs of the engine in every way that its action can go.
func (m *model) outcomes(asRead, w world, changed bool) iter.Seq[*run] {
	return func(yield func(*run) bool) {
		var state chain.State
		var recorded chain.Recorded
		var decision chain.Decision
		if !asRead.stock {
			state, recorded = m.read(&asRead)
			decision = m.Engine.Decide(state, epoch)
		}
		var choices []uint8
		for {
			next := w
			r := &run{model: m, w: &next, asRead: asRead, changed: changed, choices: choices, stock: asRead.stock}
			if r.stock {
				r.otherEngine()
			} else {
				m.carry(r, state, recorded, decision)
			}
			if !yield(r) {
				return
			}
			if choices = r.others(); len(choices) == 0 {
				return
			}
		}
	}
}

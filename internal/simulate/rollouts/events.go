package rollouts

import (
	"fmt"
	"slices"

	"github.com/windlass-dev/windlass/internal/simulate/search"
)

// step is a way from one scene to another.
type step = search.Step[scene]

// md is the number of the MachineDeployment controller among the controllers.
const md = maxTemplates

// steps are all that can happen next, always in the same order.
func (e *explorer) steps(w *scene) []step {
	var all []step
	for by := range maxTemplates + 1 {
		all = append(all, e.reconcile(w, by)...)
	}
	for i := range w.machines {
		all = append(all, e.machineSteps(w, i)...)
	}
	return slices.Concat(all, e.cacheSteps(w), e.people(w), e.troubleSteps(w))
}

// reconcile returns how a controller may go on: with all its writes, with a crash after some, or
// with an interruption after some, in which others act.
func (e *explorer) reconcile(w *scene, by int) []step {
	todo, problem := e.todo(w, by)
	if problem != "" {
		return []step{{To: *w, Label: e.name(w, by), Problem: problem}}
	}
	if len(todo) == 0 {
		return nil
	}
	var all []step
	next, label := *w, e.name(w, by)
	next.rest[by] = 0
	for n := range todo {
		o := todo[n]
		all = append(all, e.interruptions(next, by, label, todo[n:], n > 0)...)
		if next.quota && o.kind == createMachine {
			todo = ending(todo)
			continue
		}
		if e.labelled {
			label += ", " + o.String()
		}
		ok, violation := e.apply(&next, by, o)
		if violation != "" {
			return append(all, step{To: next, Label: label, Problem: violation})
		}
		if !ok {
			break
		}
	}
	return append(all, step{To: next, Label: label})
}

// interruptions returns how a reconcile may end before rest is written.
func (e *explorer) interruptions(
	now scene, by int, label string, rest []operation, begun bool,
) (all []step) {
	if begun && now.Crashes > 0 {
		crashed := now
		crashed.Crashes--
		crashed.restart()
		all = append(all, step{To: crashed, Label: label + ", and crashes"})
	}
	if begun && now.Races > 0 {
		raced := now
		raced.Races--
		raced.rest[by] = e.intern(rest)
		all = append(all, step{To: raced, Label: label + ", and is interrupted"})
	}
	if failed, ok := e.failing(now, rest); ok {
		all = append(all, step{To: failed, Label: label + ", and fails"})
	}
	return all
}

// name names a controller, by the engine that it belongs to.
func (e *explorer) name(w *scene, by int) string {
	name := "the MachineDeployment controller"
	switch {
	case !e.labelled:
		return ""
	case by != md:
		name = fmt.Sprintf("the controller of ms%d", by)
	}
	if w.stock {
		name += " of Cluster API"
	}
	return name
}

// todo is what a controller does next: the rest of a reconcile, or a new one.
func (e *explorer) todo(w *scene, by int) (todo []operation, problem string) {
	switch {
	case w.rest[by] != 0:
		return e.rest(w.rest[by]), ""
	case w.wrote[by]:
		return nil, ""
	}
	v := w.read()
	if by == md {
		d := e.deploy(v, w.stock)
		return d.todo, d.problem
	}
	switch set := v.sets[by]; {
	case !set.exists:
		return nil, ""
	case set.halted:
		return set.pause(uint8(by)), ""
	}
	return e.sets(v, uint8(by), w.stock)
}

// sets is reconcileSet with a memory. It compares the model with the rules.
func (e *explorer) sets(v view, id uint8, stock bool) (todo []operation, problem string) {
	key := setReading{v, id, stock}
	r, known := e.setPlans[key]
	if known {
		return r, ""
	}
	if e.Keep && !v.sets[id].deleting {
		r, problem = e.keptSet(v, id)
	} else {
		var records []operation
		r = v.reconcileSet(id)
		records, problem = e.compareSets(v, id, r)
		if !stock {
			r = append(records, r...)
		}
	}
	if problem == "" {
		e.setPlans[key] = r
	}
	return r, problem
}

type setReading struct {
	view
	id    uint8
	stock bool
}

// restart forgets what the controllers were doing, and reads everything again.
func (w *scene) restart() {
	w.rest = [maxTemplates + 1]uint16{}
	w.catchUp()
}

// machineSteps are what the Machine controller and the updater of one Machine do.
//
// Where Machines are kept, the update of a broken one is tried and ends, too, unless it hangs.
func (e *explorer) machineSteps(w *scene, i int) []step {
	next := steps{from: w}
	add := func(label string, possible bool, edit func(*scene, *machine)) {
		if possible && e.labelled {
			label = machineName(i) + " " + label
		}
		next.add(label, possible, func(w *scene) {
			edit(w, &w.machines[i])
			w.clean()
		})
	}
	m := w.machines[i]
	if !m.exists {
		return nil
	}
	add("becomes available", m.becomesAvailable(),
		func(w *scene, m *machine) {
			m.node, m.available = true, true
			w.finishes()
		})
	add("is updated", m.runsUpdate() && m.node && (!m.broken || e.Keep) && !m.hangs,
		func(w *scene, m *machine) {
			w.proven = w.proven || m.owner == w.md.template
			m.kubelet, m.updating, m.available, m.left = m.spec, false, false, 0
		})
	add("ends its update", !m.updating && m.hook, func(w *scene, m *machine) {
		m.hook = false
		w.finishes()
	})
	add("drains", m.deleting && m.available, func(_ *scene, m *machine) { m.available = false })
	add("is gone", m.deleting && !m.available, func(_ *scene, m *machine) { *m = machine{} })
	w.machineFaults(add, m)
	return next.all
}

// machineFaults adds what goes wrong with a Machine.
func (w *scene) machineFaults(
	add func(label string, possible bool, edit func(*scene, *machine)), m machine,
) {
	add("hangs", w.Hangs > 0 && m.runsUpdate() && !m.broken,
		func(w *scene, m *machine) {
			w.Hangs--
			w.loses()
			m.hangs, m.broken, m.available, m.left = true, true, false, 0
		})
	add("is overdue", m.hangs && !m.overdue && !m.deleting,
		func(_ *scene, m *machine) { m.overdue = true })
	add("breaks", w.Breaks > 0 && !m.broken && !m.deleting, func(w *scene, m *machine) {
		w.Breaks--
		w.loses()
		w.excuse(m.serves())
		m.broken, m.available = true, false
	})
	add("is deleted by a person", w.Deletes > 0 && !m.deleting, func(w *scene, m *machine) {
		w.Deletes--
		w.loses()
		w.excuse(m.serves())
		m.deleting, m.asked = true, true
	})
}

// loses notes that others than the rollout take a Machine away. If there are too many Machines now,
// the controllers may have decided already which ones go, and these go in addition.
func (w *scene) loses() {
	w.lost++
	if w.alive() > w.md.replicas {
		w.fewest--
	}
}

func (w *scene) excuse(served bool) {
	if served {
		w.excused++
	}
}

// steps are what can happen next in a scene.
type steps struct {
	from *scene
	all  []step
}

// add adds a step if it is possible. edit does it to a copy of the scene.
func (s *steps) add(label string, possible bool, edit func(*scene)) {
	if possible {
		next := *s.from
		edit(&next)
		s.all = append(s.all, step{To: next, Label: label})
	}
}

// cacheSteps are what happens to caches, to hooks, and to who is in charge.
func (e *explorer) cacheSteps(w *scene) []step {
	next := steps{from: w}
	add := next.add
	add("the cache of MachineSets stops", w.Lags > 0 && !w.staleSets, func(w *scene) {
		w.Lags--
		w.staleSets, w.cachedSets = true, w.sets
	})
	add("the cache of Machines stops", w.Lags > 0 && !w.staleMachines, func(w *scene) {
		w.Lags--
		w.staleMachines, w.cachedMachines = true, w.machines
	})
	add("the caches catch up", w.staleSets || w.staleMachines, (*scene).catchUp)
	add("the other engine takes over", w.Swaps > 0, func(w *scene) {
		w.Swaps--
		w.restart()
		w.stock = !w.stock
		w.stockRan = true
	})
	add("the updater is away", w.Outages > 0 && !w.outage,
		func(w *scene) { w.Outages--; w.outage = true })
	add("the updater is back", w.outage, func(w *scene) { w.outage = false })
	return next.all
}

// people are what people do.
func (e *explorer) people(w *scene) []step {
	next := steps{from: w}
	add := func(label string, possible bool, edit func(*scene)) {
		next.add(label, possible, func(w *scene) { edit(w); w.md.observed = false })
	}
	for _, n := range e.Scales {
		add(fmt.Sprintf("scale to %d", n), w.Scales > 0 && n != w.md.replicas, func(w *scene) {
			w.Scales--
			// More Machines are needed than before, or a new MachineSet shrinks at once.
			w.excused += max(n-w.md.replicas, w.md.replicas-n)
			// New Machines fill what is missing, whatever the limits are.
			w.lost += max(n-w.md.replicas, 0)
			w.md.replicas = n
			w.most, w.fewest = max(w.most, n), min(w.fewest, n)
		})
	}
	add("the template changes", w.Changes > 0 && w.md.template+1 < maxTemplates, func(w *scene) {
		w.Changes--
		w.md.template++
		w.renews()
	})
	add("the template is reverted", w.Reverts > 0 && w.md.template > 0,
		func(w *scene) { w.Reverts--; w.md.template--; w.renews() })
	add("pause", w.Pauses > 0 && !w.md.paused, func(w *scene) {
		w.Pauses--
		w.md.paused, w.pausedOnce = true, true
		// A paused group is scaled without a look at availability.
		w.excused += w.md.replicas
	})
	e.policySteps(w, add)
	add("unpause", w.md.paused, func(w *scene) { w.md.paused = false })
	return next.all
}

// policySteps adds what people do to the UpdatePolicy, and to Machines that its limits hold.
func (e *explorer) policySteps(
	w *scene, add func(label string, possible bool, edit func(*scene)),
) {
	open := w.md.open
	add("the UpdatePolicy goes", w.Flips > 0 && !open && e.UpdatesOnDelete, (*scene).open)
	add("the limits of the UpdatePolicy go", w.Flips > 0 && !open && !e.UpdatesOnDelete, (*scene).open)
	add("the UpdatePolicy or its limits come back", w.Flips > 0 && open,
		func(w *scene) { w.Flips--; w.md.open = false })
	add("a person asks for a retry", w.Retries > 0 && w.md.failed != 0 && !w.md.retry,
		func(w *scene) {
			w.Retries--
			w.md.retry, w.canaryLost, w.retriedOnce = true, false, true
		})
}

// open takes the UpdatePolicy or its limits away.
func (w *scene) open() {
	w.Flips--
	w.md.open, w.opened = true, true
}

// settle lets nobody disturb the group from now on.
func (w *scene) settle() {
	w.restart()
	w.Faults, w.outage, w.md.paused, w.md.open = Faults{}, false, false, false
}

// calm lets all controllers act once, and all Machines make progress. It returns what they break.
func (e *explorer) calm(w *scene) (labels []string, violation string) {
	for by := range maxTemplates + 1 {
		for _, s := range e.reconcile(w, by) {
			*w = s.To
			labels = append(labels, s.Label)
			if s.Problem != "" {
				return labels, s.Problem
			}
		}
	}
	for i := range w.machines {
		if s := e.machineSteps(w, i); len(s) > 0 {
			*w = s[0].To
			labels = append(labels, s[0].Label)
		}
	}
	return labels, ""
}

// helped does what people owe a group whose rollout waits for them: it deletes an outdated Machine.
func (e *explorer) helped(w *scene) bool {
	if !e.OnDelete {
		return false
	}
	i := slices.IndexFunc(w.machines[:], func(m machine) bool {
		return m.exists && !m.deleting && (m.owner != w.md.template || m.broken)
	})
	if i >= 0 {
		w.machines[i].deleting, w.machines[i].asked = true, true
	}
	return i >= 0
}

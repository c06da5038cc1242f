package pool_test

import (
	"fmt"
	"slices"
)

// step is a way from one world to another.
type step struct {
	to               scene
	label, violation string
}

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
		return []step{{to: *w, label: e.name(w, by), violation: problem}}
	}
	if len(todo) == 0 {
		return nil
	}
	var all []step
	next, label := *w, e.name(w, by)
	next.rest[by] = 0
	for n := range todo {
		o := todo[n]
		if n > 0 && next.crashes > 0 {
			crashed := next
			crashed.crashes--
			crashed.restart()
			all = append(all, step{to: crashed, label: label + ", and crashes"})
		}
		if n > 0 && next.races > 0 {
			raced := next
			raced.races--
			raced.rest[by] = e.intern(todo[n:])
			all = append(all, step{to: raced, label: label + ", and is interrupted"})
		}
		if failed, ok := e.failing(next, todo[n:]); ok {
			all = append(all, step{to: failed, label: label + ", and fails"})
		}
		if next.quota && o.kind == createMachine {
			todo = ending(todo)
			continue
		}
		if e.labelled {
			label += ", " + o.String()
		}
		ok, violation := e.apply(&next, by, o)
		if violation != "" {
			return append(all, step{to: next, label: label, violation: violation})
		}
		if !ok {
			break
		}
	}
	return append(all, step{to: next, label: label})
}

func (e *explorer) name(w *scene, by int) string {
	engine := ""
	if w.stock {
		engine = "stock's "
	}
	if by == md {
		return engine + "md"
	}
	return fmt.Sprintf("%sms%d", engine, by)
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
	return e.sets(v, uint8(by))
}

// sets is reconcileSet with a memory. It compares the model with the rules.
func (e *explorer) sets(v view, id uint8) (todo []operation, problem string) {
	key := setReading{v, id}
	r, known := e.setPlans[key]
	if !known {
		r = v.reconcileSet(id)
		if e.keep && !v.sets[id].deleting {
			r, problem = e.keptSet(v, id)
		} else {
			problem = e.compareSets(v, id, r)
		}
		if problem != "" {
			return r, problem
		}
		e.setPlans[key] = r
	}
	return r, ""
}

type setReading struct {
	view
	id uint8
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
		next.add(machineName(i)+" "+label, possible, func(w *scene) {
			edit(w, &w.machines[i])
			w.clean()
		})
	}
	m := w.machines[i]
	if !m.exists {
		return nil
	}
	add("becomes available", !m.available && !m.broken && !m.deleting && !m.inUpdate(),
		func(w *scene, m *machine) {
			m.node, m.available = true, true
			w.finishes()
		})
	add("is updated",
		m.updating && m.hook && m.node && (!m.broken || e.keep) && !m.hangs &&
			!m.deleting, func(w *scene, m *machine) {
			w.proven = w.proven || m.owner == w.md.template
			m.kubelet, m.updating, m.available, m.left = m.spec, false, false, 0
		})
	add("ends its update", !m.updating && m.hook, func(w *scene, m *machine) {
		m.hook = false
		w.finishes()
	})
	add("drains", m.deleting && m.available, func(_ *scene, m *machine) { m.available = false })
	add("is gone", m.deleting && !m.available, func(_ *scene, m *machine) { *m = machine{} })
	add("hangs", w.hangs > 0 && m.updating && m.hook && !m.broken && !m.deleting,
		func(w *scene, m *machine) {
			w.hangs--
			w.loses()
			m.hangs, m.broken, m.available, m.left = true, true, false, 0
		})
	add("is overdue", m.hangs && !m.overdue && !m.deleting,
		func(_ *scene, m *machine) { m.overdue = true })
	add("breaks", w.breaks > 0 && !m.broken && !m.deleting, func(w *scene, m *machine) {
		w.breaks--
		w.loses()
		w.excuse(m.serves())
		m.broken, m.available = true, false
	})
	add("is deleted by a person", w.deletes > 0 && !m.deleting, func(w *scene, m *machine) {
		w.deletes--
		w.loses()
		w.excuse(m.serves())
		m.deleting, m.asked = true, true
	})
	return next.all
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
		s.all = append(s.all, step{to: next, label: label})
	}
}

// cacheSteps are what happens to caches, to hooks, and to who is in charge.
func (e *explorer) cacheSteps(w *scene) []step {
	next := steps{from: w}
	add := next.add
	add("the cache of MachineSets stops", w.lags > 0 && !w.staleSets, func(w *scene) {
		w.lags--
		w.staleSets, w.cachedSets = true, w.sets
	})
	add("the cache of Machines stops", w.lags > 0 && !w.staleMachines, func(w *scene) {
		w.lags--
		w.staleMachines, w.cachedMachines = true, w.machines
	})
	add("the caches catch up", w.staleSets || w.staleMachines, (*scene).catchUp)
	add("the other engine takes over", w.swaps > 0, func(w *scene) {
		w.swaps--
		w.restart()
		w.stock = !w.stock
		w.stockRan = true
	})
	add("the updater is away", w.outages > 0 && !w.outage, func(w *scene) { w.outages--; w.outage = true })
	add("the updater is back", w.outage, func(w *scene) { w.outage = false })
	return next.all
}

// people are what people do.
func (e *explorer) people(w *scene) []step {
	next := steps{from: w}
	add := func(label string, possible bool, edit func(*scene)) {
		next.add(label, possible, func(w *scene) { edit(w); w.md.observed = false })
	}
	for _, n := range e.scales {
		add(fmt.Sprintf("scale to %d", n), w.scales > 0 && n != w.md.replicas, func(w *scene) {
			w.scales--
			// More Machines are needed than before, or a new MachineSet shrinks at once.
			w.excused += max(n-w.md.replicas, w.md.replicas-n)
			// New Machines fill what is missing, whatever the limits are.
			w.lost += max(n-w.md.replicas, 0)
			w.md.replicas = n
			w.most, w.fewest = max(w.most, n), min(w.fewest, n)
		})
	}
	add("the template changes", w.changes > 0 && w.md.template+1 < maxTemplates, func(w *scene) {
		w.changes--
		w.md.template++
		w.renews()
	})
	add("the template is reverted", w.reverts > 0 && w.md.template > 0,
		func(w *scene) { w.reverts--; w.md.template--; w.renews() })
	add("pause", w.pauses > 0 && !w.md.paused, func(w *scene) {
		w.pauses--
		w.md.paused, w.pausedOnce = true, true
		// A paused group is scaled without a look at availability.
		w.excused += w.md.replicas
	})
	add("the policy goes", w.flips > 0 && !w.md.open,
		func(w *scene) { w.flips--; w.md.open, w.opened = true, true })
	add("the policy comes back", w.flips > 0 && w.md.open,
		func(w *scene) { w.flips--; w.md.open = false })
	add("a person asks for a retry", w.retries > 0 && w.md.failed != 0 && !w.md.retry,
		func(w *scene) {
			w.retries--
			w.md.retry, w.canaryLost, w.retriedOnce = true, false, true
		})
	add("unpause", w.md.paused, func(w *scene) { w.md.paused = false })
	return next.all
}

// settle lets nobody disturb the group from now on.
func (w *scene) settle() {
	w.restart()
	w.faults, w.outage, w.md.paused, w.md.open = faults{}, false, false, false
}

// calm lets all controllers act once, and all Machines make progress. It returns what they break.
func (e *explorer) calm(w *scene) (labels []string, violation string) {
	for by := range maxTemplates + 1 {
		for _, s := range e.reconcile(w, by) {
			*w = s.to
			labels = append(labels, s.label)
			if s.violation != "" {
				return labels, s.violation
			}
		}
	}
	for i := range w.machines {
		if s := e.machineSteps(w, i); len(s) > 0 {
			*w = s[0].to
			labels = append(labels, s[0].label)
		}
	}
	return labels, ""
}

// helped does what people owe a group whose rollout waits for them: it deletes an outdated Machine.
func (e *explorer) helped(w *scene) bool {
	if !e.onDelete {
		return false
	}
	i := slices.IndexFunc(w.machines[:], func(m machine) bool { return m.exists && !m.deleting && (m.owner != w.md.template || m.broken) })
	if i >= 0 {
		w.machines[i].deleting, w.machines[i].asked = true, true
	}
	return i >= 0
}

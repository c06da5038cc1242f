package rollouts

import "fmt"

// acknowledge checks that no move of a Machine is counted twice.
func (e *explorer) acknowledge(w *scene, o operation) string {
	for i := range w.machines {
		m := &w.machines[i]
		if !has(o.acknowledged, i) || !m.exists {
			continue
		}
		if m.acknowledged && !w.stockRan {
			return fmt.Sprintf("the move of %s is counted twice", machineName(i))
		}
		m.acknowledged = true
	}
	return ""
}

// create adds a Machine, and checks that there is room for it.
func (e *explorer) create(w *scene, o operation) string {
	i, ok := e.free(w)
	if !ok {
		e.err = errFull
		return ""
	}
	w.machines[i] = machine{
		exists: true, owner: o.set, infrastructure: o.set, bootstrap: o.set, spec: o.set, kubelet: o.set,
	}
	if e.Keep {
		w.machines[i].made = w.sets[o.set].born
	}
	if !w.sets[o.set].exists {
		return fmt.Sprintf("%s has no owner", machineName(i))
	}
	if w.owned(o.set) > w.sets[o.set].replicas {
		// The controller was interrupted before spec.replicas fell. Neither stock nor these rules know
		// what it still creates.
		w.late++
	}
	// A paused group is scaled by spec.replicas alone: Machines that go come on top.
	if n, most := w.total(), w.most+e.mostExtra()+w.late; n > most && !w.stockRan && !w.pausedOnce {
		return fmt.Sprintf("there are %d Machines, and at most %d are allowed", n, most)
	}
	if n := w.alive(); e.Keep && n > w.most {
		return fmt.Sprintf("the rollout creates %s, and the policy keeps Machines", machineName(i))
	}
	return ""
}

// cleanSet deletes a MachineSet, and checks that no Machine is deleted with it. Its finalizer takes
// no time if it is empty.
func (e *explorer) cleanSet(w *scene, id uint8) string {
	w.sets[id].deleting = true
	if w.owned(id) == 0 {
		w.sets[id] = machineSet{}
	}
	for i, m := range w.machines {
		if m.exists && m.owner == id && !m.deleting && !w.stockRan {
			return fmt.Sprintf("ms%d is deleted, and %s with it", id, machineName(i))
		}
	}
	return ""
}

// mostExtra is maxSurge as the rules see it.
func (s *Scenario) mostExtra() int8 {
	if s.OnDelete {
		return 0
	}
	return s.Surge
}

// needed is how many Machines must be available.
func (e *explorer) needed(w *scene) int8 {
	if e.OnDelete || e.Keep && !e.keeps(&w.view) {
		return 0
	}
	unavailable := e.Unavailable
	if unavailable == 0 && (e.Surge == 0 || e.Keep) {
		// No spare Machine makes room where Machines are kept.
		unavailable = 1
	}
	return max(w.md.replicas-unavailable, 0)
}

// alive counts the Machines that are not being deleted.
func (v *view) alive() (n int8) {
	for _, m := range v.machines {
		if m.exists && !m.deleting {
			n++
		}
	}
	return n
}

// remove begins the deletion of a Machine, and checks that it may go.
func (e *explorer) remove(w *scene, o operation) string {
	m := &w.machines[o.machine]
	if m.deleting {
		return ""
	}
	served, name := m.serves(), machineName(int(o.machine))
	needed := !w.stockRan && o.kind == deleteMachine && w.alive() <= w.fewest && !m.broken
	switch {
	case needed && e.Keep:
		return fmt.Sprintf("the rollout deletes %s, and the policy keeps Machines", name)
	case needed && m.pending && !m.acknowledged:
		return fmt.Sprintf("the rollout deletes %s, which has just moved and is not counted", name)
	}
	m.deleting = true
	return e.checkServing(w, served, o)
}

// move gives a Machine to another MachineSet, and checks that it may leave.
func (e *explorer) move(w *scene, o operation) string {
	m := &w.machines[o.machine]
	served, name := m.serves(), machineName(int(o.machine))
	if m.inUpdate() {
		return fmt.Sprintf("%s moves, and is being updated", name)
	}
	if !e.covers(o.set, o.to) {
		return fmt.Sprintf("%s moves to ms%d, and no update in place leads there", name, o.to)
	}
	m.owner, m.updating, m.pending, m.acknowledged = o.to, true, true, false
	if e.Keep {
		m.left = o.set + 1
	}
	if !w.sets[o.to].exists {
		return fmt.Sprintf("%s has no owner", name)
	}
	return e.checkServing(w, served, o)
}

// takeBack gives a Machine back to the MachineSet that it left, and checks that its update has not
// begun.
func (e *explorer) takeBack(w *scene, o operation) string {
	m := &w.machines[o.machine]
	name := machineName(int(o.machine))
	switch {
	case !m.updating || m.hangs:
		return fmt.Sprintf("%s goes back, and its update has begun or ended", name)
	case m.kubelet != o.to:
		return fmt.Sprintf("%s goes back to ms%d, and its host is at %d", name, o.to, m.kubelet)
	case !w.sets[o.to].exists:
		return fmt.Sprintf("%s has no owner", name)
	}
	m.owner, m.hook, m.pending, m.acknowledged, m.left = o.to, false, true, false, o.to+1
	return ""
}

// checkServing says whether the controllers take too many available Machines away.
func (e *explorer) checkServing(w *scene, served bool, o operation) string {
	if n, least := w.serving(), e.needed(w)-w.excused; served && n < least && !w.stockRan {
		return fmt.Sprintf("%v: %d Machines are available, and at least %d must be", o, n, least)
	}
	return ""
}

// ends says what is wrong with a world in which nothing happens any more. stated is that of
// decided.
func (e *explorer) ends(w *scene, stated bool) string {
	kept := e.Partition > 0 && !w.stock
	if kept && !stated {
		if broken := e.endsWithin(w); broken != "" {
			return broken
		}
	}
	if problem := e.endsMachines(w, stated, kept); problem != "" {
		return problem
	}
	if w.total() != w.md.replicas {
		return fmt.Sprintf("the rollout has ended, and there are %d Machines", w.total())
	}
	return e.endsOwing(w, stated || kept)
}

// endsMachines says which Machine is not as it must be.
func (e *explorer) endsMachines(w *scene, stated, kept bool) string {
	for i, m := range w.machines {
		if !m.exists {
			continue
		}
		repaired := w.stock || !e.Keep || e.covers(m.owner, w.md.template)
		desired := stated || m.desired(w.md.template, kept)
		if problem := m.endsBadly(i, repaired, desired); problem != "" {
			return problem
		}
	}
	return ""
}

// desired reports whether a rollout may leave the Machine. kept says that a partition keeps old
// ones: if they break, they wait for a person to lower it.
func (m machine) desired(template uint8, kept bool) bool {
	if m.owner == template {
		return m.available
	}
	return kept && (m.available || m.broken)
}

// endsBadly says what is wrong with the Machine at the end. repaired says that something replaces
// or updates it if it is broken.
func (m machine) endsBadly(i int, repaired, desired bool) string {
	switch {
	case m.inUpdate() || m.pending || m.left != 0:
		return fmt.Sprintf("the rollout has ended, and %s has marks", m.text(i))
	case m.deleting:
		return fmt.Sprintf("the rollout has ended, and %s is being deleted", machineName(i))
	case !m.agrees():
		return fmt.Sprintf("the rollout has ended, and the objects of %s disagree: %+v", machineName(i),
			m)
	case m.broken && !repaired:
		return fmt.Sprintf("the rollout has ended, and nobody repairs %s", machineName(i))
	case !desired:
		return fmt.Sprintf("the rollout has ended, and %s is not as desired", m.text(i))
	}
	return ""
}

// endsOwing says which MachineSet is not as it must be.
func (e *explorer) endsOwing(w *scene, stated bool) string {
	for i, set := range w.sets {
		switch current := uint8(i) == w.md.template; {
		case !set.exists && current:
			return "the rollout has ended, and there is no MachineSet of the template"
		case !set.exists:
		case !stated && !current:
			return fmt.Sprintf("the rollout has ended, and ms%d is still there", i)
		case !stated && (set.moveTo != 0 || set.receive != 0), set.acknowledged != 0:
			return fmt.Sprintf("the rollout has ended, and ms%d has marks: %+v", i, set)
		case set.replicas != w.owned(uint8(i)):
			return fmt.Sprintf("the rollout has ended, and ms%d has %d Machines instead of %d", i,
				w.owned(uint8(i)), set.replicas)
		case set.status != w.count(uint8(i)):
			return fmt.Sprintf("the rollout has ended, and the status of ms%d is %+v", i, set.status)
		}
	}
	return ""
}

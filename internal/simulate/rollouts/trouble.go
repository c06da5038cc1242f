package rollouts

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// trouble keeps the controller of a MachineSet from observing its spec.
type trouble struct {
	// read says that it has read the current spec.
	read bool
	// fails says that each reconcile of a MachineSet with Machines ends with an error, although its
	// steps are carried out. One of its Machines is broken, for example.
	fails bool
	// halted says that the MachineSet is paused.
	halted bool
}

// text says which troubles there are.
func (t trouble) text() string {
	return words([]word{{!t.read, " unread"}, {t.fails, " fails"}, {t.halted, " halted"}})
}

// describe writes the condition Paused of a MachineSet, which has the generation that was read.
func (t trouble) describe(set *clusterv1.MachineSet) {
	c := metav1.Condition{
		Type: clusterv1.PausedCondition, Status: status(t.halted), ObservedGeneration: 1,
	}
	if t.read {
		c.ObservedGeneration = set.Generation
	}
	set.Status.Conditions = append(set.Status.Conditions, c)
}

// note is the end of a reconcile. Cluster API observes a generation only without an error; the
// condition Paused has it all the same.
func (s *machineSet) note(o operation, owned int8) {
	if !s.exists {
		return
	}
	s.status, s.read = o.status, s.replicas == o.before
	if !o.failed && (!s.fails || owned == 0) {
		s.observed = s.read
	}
}

// pause is what the controller of a paused MachineSet does.
func (s *machineSet) pause(id uint8) []operation {
	if s.read {
		return nil
	}
	return []operation{{kind: writePaused, set: id, before: s.replicas}}
}

// failing is a reconcile of a MachineSet that does nothing of todo any more but write its status.
func (e *explorer) failing(w scene, todo []operation) (failed scene, ok bool) {
	end := todo[len(todo)-1]
	if w.Fails == 0 || end.kind != writeStatus {
		return w, false
	}
	w.Fails--
	end.failed = true
	for _, o := range todo {
		// The status counts Machines that move as in an update.
		if m := w.machines[o.machine]; o.kind == moveMachine && m.exists && m.available {
			end.status.available++
		}
	}
	_, _ = e.apply(&w, int(end.set), end)
	return w, true
}

// ending is todo with an error at its end.
func ending(todo []operation) []operation {
	todo = slices.Clone(todo)
	todo[len(todo)-1].failed = true
	return todo
}

// troubleSteps are the beginnings and ends of troubles. MachineSets that fail do so from then on.
func (e *explorer) troubleSteps(w *scene) []step {
	next := steps{from: w}
	add := next.add
	add("no Machine can be created", w.Quotas > 0 && !w.quota,
		func(w *scene) { w.Quotas--; w.quota = true })
	add("Machines can be created again", w.quota, func(w *scene) { w.quota = false })
	for i, set := range w.sets {
		add(fmt.Sprintf("ms%d fails from now on", i), w.Sticks > 0 && set.exists && !set.fails,
			func(w *scene) { w.Sticks--; w.sets[i].fails = true })
		add(fmt.Sprintf("ms%d is paused", i), w.Halts > 0 && set.exists && !set.halted,
			func(w *scene) { w.Halts--; w.sets[i].halted, w.sets[i].read = true, false })
		add(fmt.Sprintf("ms%d is not paused any more", i), set.halted,
			func(w *scene) { w.sets[i].halted = false })
	}
	return next.all
}

// isHeld reports whether the group cannot end its rollout for a reason that is not its own.
func (w *scene) isHeld() bool {
	return w.quota || slices.ContainsFunc(w.sets[:], func(s machineSet) bool { return s.halted })
}

func (w *scene) release() {
	w.quota = false
	for i := range w.sets {
		w.sets[i].halted = false
	}
}

// endsHeld says what does not happen to a group that is held, although it could.
func (e *explorer) endsHeld(w *scene) string {
	n, wanted := w.alive(), w.md.replicas
	newest := w.sets[w.md.template]
	halted := slices.ContainsFunc(w.sets[:], func(s machineSet) bool { return s.halted })
	switch {
	case !halted && n > wanted:
		return fmt.Sprintf("no Machine can be created, and %d stay where people want %d", n, wanted)
	case !e.Keep:
		return ""
	}
	stays := slices.IndexFunc(w.machines[:], func(m machine) bool {
		return m.exists && m.owner != w.md.template && e.covers(m.owner, w.md.template)
	})
	room := wanted-n < max(e.Unavailable, 1)
	switch {
	case !w.quota && !newest.halted && n < wanted:
		return fmt.Sprintf("a MachineSet is paused, and there are %d Machines where people want %d",
			n, wanted)
	case !halted && room && stays >= 0:
		return fmt.Sprintf("no Machine can be created, and %s does not move",
			w.machines[stays].text(stays))
	}
	return ""
}

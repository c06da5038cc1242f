package explore

import (
	"slices"

	"github.com/windlass-dev/windlass/pkg/version"
)

// event is something that happens in the world without the engine.
type event struct {
	to    world
	label string
	// cluster says that the Cluster object changes, so that who has read it before gets a conflict.
	cluster bool
}

// happenings gathers what can happen in a world without the engine.
type happenings struct {
	*model
	w    *world
	list []event
}

// events returns all that can happen in w.
func (m *model) events(w *world) []event {
	h := &happenings{model: m, w: w, list: make([]event, 0, 16)}
	h.progress()
	h.people()
	h.targets()
	for i := range m.Groups {
		h.ofGroup(i)
	}
	h.machinery()
	return h.list
}

// add adds an event that edit makes of the world.
func (h *happenings) add(label string, edit func(*world)) {
	next := *h.w
	edit(&next)
	h.list = append(h.list, event{to: next, label: label})
}

// edits adds an event that changes the Cluster object.
func (h *happenings) edits(label string, edit func(*world)) {
	h.add(label, edit)
	h.list[len(h.list)-1].cluster = true
}

// name says what an event is about, where that is wanted.
func (m *model) name(before string, v rung) string {
	if !m.labelled {
		return ""
	}
	return before + m.version(v).String()
}

// The labels of events that are nothing but time.
const (
	passes = "time passes"
	ages   = "the announced step grows old"
)

// progress is what machines do by themselves.
func (h *happenings) progress() {
	w := h.w
	h.controlPlaneMachines()
	if w.intent.to != 0 && !w.intent.aged {
		h.add(ages, func(w *world) { w.intent.aged, w.ledger.next = true, 0 })
	}
	if w.answer.hook != 0 && !w.answer.ahead {
		h.add(passes, func(w *world) { w.answer = answer{} })
	}
	h.machines()
}

// controlPlaneMachines come to where they are going.
func (h *happenings) controlPlaneMachines() {
	w := h.w
	cp := w.cp
	if cp.exists && !cp.initialized {
		h.edits("the control plane is initialized", func(w *world) { w.cp.initialized = true })
	}
	if cp.exists && cp.status != cp.spec && w.noticed() && !h.broken(cp.spec) && !h.unjoined(cp) {
		h.add(h.name("the control plane is at ", cp.spec), func(w *world) { w.cp = w.cp.arrived() })
	}
	if h.unjoined(cp) && !h.broken(cp.spec) {
		h.add(h.name("a machine has joined at ", cp.spec), func(w *world) { w.cp.joined = true })
	}
}

// machines of groups come to where they are going.
func (h *happenings) machines() {
	w := h.w
	for i, c := range h.Groups {
		g := w.groups[i]
		if g.exists && !g.deleting && g.version != g.oldest {
			h.add(h.name(c.Name+" is at ", g.version), func(w *world) { w.groups[i].oldest, w.groups[i].lags = w.groups[i].version, false })
		}
		h.shortages(i)
		if g.exists && g.deleting {
			h.add(c.Name+" is gone", func(w *world) {
				w.groups[i] = w.groups[i].gone()
			})
		}
	}
}

// shortages are machines that a group lacks. It gets them as long as they can join. While workers
// follow a step of the control plane, a group gets them at some time: for good it lacks only machines
// that it lacked before.
func (h *happenings) shortages(i int) {
	w := h.w
	g, name := w.groups[i], h.Groups[i].Name
	switch {
	case g.short && !g.starved && w.joins(i):
		h.add(name+" has all its machines", func(w *world) { w.groups[i].short = false })
		return
	case w.faults.Shortages == 0 || !g.counts() || g.short || g.upgrading():
		return
	}
	h.add(name+" lacks machines", func(w *world) { w.groups[i].short = spend(&w.faults.Shortages) })
	if w.ledger.followed.has(i) || w.pending.has(beforeWorkers) || w.pending.has(afterWorkers) {
		return
	}
	h.add(name+" lacks machines, and gets none", func(w *world) {
		w.groups[i].short = spend(&w.faults.Shortages)
		w.groups[i].starved = true
	})
}

// gone is g when its last machine is.
func (g group) gone() group {
	if !g.inTopology {
		return group{}
	}
	g.exists, g.deleting, g.short, g.starved, g.version, g.oldest = false, false, false, false, 0, 0
	return g
}

// people are those who pause, block and delete.
func (h *happenings) people() {
	w := h.w
	switch {
	case w.paused:
		h.edits("the Cluster is resumed", func(w *world) { w.paused = false })
	case w.faults.Pauses > 0:
		h.edits("the Cluster is paused", func(w *world) { w.paused = spend(&w.faults.Pauses) })
	}
	switch {
	case w.blocker:
		h.edits("the before-upgrade annotation is removed", func(w *world) { w.unblock() })
	case w.faults.Blockers > 0:
		h.edits("a before-upgrade annotation is set", func(w *world) {
			w.blocker, w.ledger.free = spend(&w.faults.Blockers), w.ledger.allowed
		})
	}
	switch {
	case w.sourceDown:
		h.add("upgrade plans are available again", func(w *world) { w.sourceDown = false })
	case w.faults.Outages > 0:
		h.add("upgrade plans are unavailable", func(w *world) { w.sourceDown = spend(&w.faults.Outages) })
	}
	if w.faults.Deletions > 0 && !w.deleting {
		h.edits("the Cluster is deleted", func(w *world) { w.deleting = spend(&w.faults.Deletions) })
	}
}

// targets are changes of where the upgrade goes, and of what it goes through. A target that is older than the control plane, or than a group, is
// refused by the webhook.
func (h *happenings) targets() {
	w := h.w
	if w.faults.Retargets > 0 {
		for _, to := range h.otherTargets() {
			h.edits(h.name("the target becomes ", to), func(w *world) { w.retarget(to) })
		}
	}
	if w.faults.Relists > 0 {
		for i := range h.Sources {
			if i != int(w.source) {
				h.add("the ClusterClass offers other versions", func(w *world) {
					spend(&w.faults.Relists)
					w.source = uint8(i) //nolint:gosec // a handful
					w.replan()
				})
			}
		}
	}
}

// otherTargets are the versions that the target may become.
func (h *happenings) otherTargets() []rung {
	w := h.w
	var others []rung
	for _, v := range append([]version.Version{h.Target}, h.Retargets...) {
		to := h.rung(v)
		newer := slices.ContainsFunc(w.groups[:len(h.Groups)], func(g group) bool { return g.exists && h.older(to, g.version) })
		back := h.unjoined(w.cp) && !h.older(to, w.cp.status)
		if to != w.target && !newer && (!w.cp.exists || back || !h.older(to, w.cp.spec)) {
			others = append(others, to)
		}
	}
	return others
}

func (w *world) retarget(to rung) {
	spend(&w.faults.Retargets)
	w.target = to
	w.edit()
	w.replan()
}

// replan says that what plans depend on has changed: workers may have to move again, in an order that begins anew.
func (w *world) replan() { w.ledger.replanned, w.ledger.turn = true, 0 }

func (h *happenings) ofGroup(i int) {
	w := h.w
	name, g := h.Groups[i].Name, w.groups[i]
	if g.inTopology && w.faults.Annotations > 0 {
		h.edits("defer-upgrade is set on or removed from "+name, func(w *world) {
			spend(&w.faults.Annotations)
			w.edit()
			w.groups[i].deferred, w.ledger.turn = !g.deferred, 0
		})
		h.edits("hold-upgrade-sequence is set on or removed from "+name, func(w *world) {
			spend(&w.faults.Annotations)
			w.edit()
			w.groups[i].held, w.ledger.turn = !g.held, 0
		})
	}
	if w.faults.Groups == 0 {
		return
	}
	if !g.inTopology {
		h.additions(i)
		return
	}
	h.edits(name+" is removed", func(w *world) {
		spend(&w.faults.Groups)
		w.edit()
		gone := &w.groups[i]
		if gone.inTopology, gone.deferred, gone.held = false, false, false; !gone.exists {
			*gone = group{}
		}
		w.replan()
	})
	if g.exists && !g.deleting {
		h.add("the object of "+name+" is deleted", func(w *world) {
			spend(&w.faults.Groups)
			w.groups[i].deleting, w.groups[i].lags = true, false
			w.replan()
		})
	}
}

// additions puts a group into the topology, alone or with another target in one request. One that was in it, and is not gone yet, has its object still.
func (h *happenings) additions(i int) {
	w := h.w
	add := func(w *world) {
		spend(&w.faults.Groups)
		w.edit()
		w.groups[i].inTopology = true
		w.replan()
	}
	name := h.Groups[i].Name
	h.edits(name+" is added", add)
	if w.faults.Retargets == 0 {
		return
	}
	for _, to := range h.otherTargets() {
		h.edits(h.name(name+" is added, and the target becomes ", to), func(w *world) {
			add(w)
			w.retarget(to)
		})
	}
}

// lags are restarts after which something is read as it was before its last write, and what ends that. Of the control plane this is so only when
// the Cluster tells of its step; see the package's assumptions.
func (h *happenings) lags() {
	w := h.w
	recorded := w.pending.has(afterControlPlane) && w.upgradeStep == w.cp.spec
	h.lagging("the control plane", (w.cp.upgrading() || w.cp.prior != 0) && recorded, func(w *world) *bool { return &w.cp.lags })
	for i, c := range h.Groups {
		h.lagging(c.Name, w.groups[i].upgrading(), func(w *world) *bool { return &w.groups[i].lags })
	}
}

// lagging are the events of one object. may says that it has been written to not long ago.
func (h *happenings) lagging(name string, may bool, lags func(*world) *bool) {
	switch {
	case *lags(h.w):
		h.add(name+" is read as it is", func(w *world) { *lags(w) = false })
	case may && h.w.faults.Lags > 0 && !h.w.stock:
		h.add("the engine restarts, and reads "+name+" as it was", func(w *world) {
			*lags(w), w.answer = spend(&w.faults.Lags), answer{}
		})
	}
}

// machinery is what happens to the engine itself.
func (h *happenings) machinery() {
	if w := h.w; w.faults.Restarts > 0 && w.answer.hook != 0 {
		h.add("the engine restarts", func(w *world) {
			spend(&w.faults.Restarts)
			w.answer = answer{}
		})
	}
	h.lags()
	h.clock()
	h.swaps()
}

// clock is what happens to the clock while something that it has timed is fresh.
func (h *happenings) clock() {
	w := h.w
	fresh := w.answer.hook != 0 && !w.answer.ahead || w.intent.to != 0 && !w.intent.ahead
	if w.faults.Jumps == 0 || !fresh {
		return
	}
	h.add("the clock is set back", func(w *world) {
		spend(&w.faults.Jumps)
		w.answer.ahead = w.answer.hook != 0
		if w.intent.to != 0 {
			w.intent.aged, w.intent.ahead, w.ledger.next = true, true, 0
		}
	})
}

// swaps are when the other engine takes over. It knows nothing of a step that is over and not
// recorded; see the package's assumptions.
func (h *happenings) swaps() {
	w := h.w
	owed := w.ledger.controlPlane.open() && !w.pending.has(afterControlPlane) && !w.cp.upgrading()
	if w.faults.Swaps == 0 || !w.cp.exists || !w.stock && owed {
		return
	}
	label := "Cluster API's own engine takes over"
	if w.stock {
		label = "Windlass takes over"
	}
	h.add(label, func(w *world) {
		spend(&w.faults.Swaps)
		w.stock, w.answer, w.cp.lags = !w.stock, answer{}, false
		for i := range w.groups {
			w.groups[i].lags = false
		}
		w.replan()
	})
}

func (w *world) unblock() { w.blocker, w.ledger.free = false, 0 }

// behave removes what people have put in the way.
func (w *world) behave() {
	w.unblock()
	w.paused, w.sourceDown = false, false
	if !w.answer.ahead {
		w.answer = answer{} // Its time has passed. That of the others has not come.
	}
	if w.stock {
		w.stock = false
		w.replan()
	}
	for i := range w.groups {
		g := &w.groups[i]
		if g.deferred || g.held {
			w.ledger.turn = 0
		}
		g.deferred, g.held, g.lags = false, false, false
	}
	w.cp.lags = false
	w.faults = Faults{}
}

// noticed reports whether an engine will see to the hooks that follow the control plane's step also when that is over. Of a step of
// the other engine this is so when it has marked them; see the package's assumptions.
func (w *world) noticed() bool {
	return !w.ledger.controlPlane.open() || w.pending.has(afterControlPlane) || !w.stock && w.cp.stamp == w.cp.spec
}

// tolerated reports whether the engine can know that a group lacked machines before the present
// workers step. A group of which it cannot may hold; see the package's assumptions.
func (w *world) tolerated(i int) bool {
	if w.stepTo == w.cp.spec && w.lacked.has(i) {
		return true
	}
	return !w.ledger.followed.has(i) && (!w.pending.has(afterCluster) || w.proven())
}

// arrived is c at the end of its step.
func (c controlPlane) arrived() controlPlane {
	c.status, c.prior, c.joined, c.lags = c.spec, 0, false, false
	return c
}

// settle lets all machines come to where they are going.
func (m *model) settle(w *world) {
	if w.cp.exists && w.noticed() && !m.broken(w.cp.spec) {
		w.cp.initialized = true
		w.cp = w.cp.arrived()
	}
	for i := range w.groups {
		switch g := &w.groups[i]; {
		case g.deleting:
			*g = g.gone()
		case g.exists:
			g.oldest = g.version
			g.short = g.short && (g.starved && w.tolerated(i) || !w.joins(i))
		}
	}
}

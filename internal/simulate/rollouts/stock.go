package rollouts

import "slices"

// stockSet is one MachineSet in stock's plan. status are the counters that stock reads.
type stockSet struct {
	id     uint8
	set    machineSet
	target int8
	scaled bool
	moveTo uint8
}

// stockPlan is a model of the MachineDeployment controller of Cluster API v1.14, in numbers. It was
// written from that controller's behavior, and shares nothing with the rules.
type stockPlan struct {
	Scenario
	view
	newest       stockSet
	exists       bool
	old          []stockSet
	receive      uint8
	acknowledged uint16
	counted      uint16
}

// stock returns what stock's controller writes after reading v; nothing if a hook fails.
func (e *explorer) stock(v view) []operation {
	p := stockPlan{Scenario: e.Scenario, view: v, exists: v.sets[v.md.template].exists}
	current := v.sets[v.md.template]
	p.newest = stockSet{id: v.md.template, set: current, target: current.replicas}
	for i := range uint8(maxTemplates) {
		if i != v.md.template && v.sets[i].exists {
			p.old = append(p.old, stockSet{id: i, set: v.sets[i], target: v.sets[i].replicas})
		}
	}
	slices.SortFunc(p.old, func(a, b stockSet) int {
		if a.set.replicas != b.set.replicas {
			return int(b.set.replicas) - int(a.set.replicas)
		}
		return int(a.set.born) - int(b.set.born)
	})
	switch {
	case v.md.paused:
		p.proportional()
		return p.writes()
	case e.OnDelete:
		p.scaleNewest()
		p.oldOnDelete()
		return p.writes()
	}
	if !e.gateOff {
		p.acknowledge()
	}
	p.scaleNewest()
	p.scaleOld()
	if !e.gateOff && !p.inPlace() {
		return nil
	}
	p.breakDeadlock()
	return p.writes()
}

func (p *stockPlan) maxUnavailable() int8 {
	if p.Surge == 0 && p.Unavailable == 0 {
		return min(1, p.md.replicas)
	}
	return min(p.Unavailable, p.md.replicas)
}

// acknowledge raises the newest MachineSet by the Machines that moved there.
func (p *stockPlan) acknowledge() {
	before := p.newest.set.acknowledged
	for i, m := range p.machines {
		if !m.exists || !m.pending || m.owner != p.newest.id || !p.exists {
			continue
		}
		p.acknowledged |= 1 << i
		if !has(before, i) {
			p.counted |= 1 << i
			p.newest.set.replicas++
		}
	}
	p.newest.target = p.newest.set.replicas
}

func (p *stockPlan) scaleNewest() {
	n := &p.newest
	if n.set.replicas > p.md.replicas {
		n.target, n.scaled = p.md.replicas, true
		return
	}
	limit := p.md.replicas
	if !p.OnDelete {
		limit += p.Surge
	}
	have := max(n.set.replicas, n.set.status.machines)
	for _, s := range p.old {
		have += max(s.set.replicas, s.set.status.machines)
	}
	if n.set.replicas < p.md.replicas && have < limit {
		n.target, n.scaled = n.set.replicas+min(limit-have, p.md.replicas-n.set.replicas), true
	}
}

// scaleOld lowers old MachineSets, unavailable replicas first, as if available Machines went first.
func (p *stockPlan) scaleOld() {
	n := p.newest
	least := max(p.md.replicas-p.maxUnavailable(), 0)
	replicas, available := n.set.replicas, n.set.status.available
	going := max(n.set.status.machines-min(n.set.replicas, n.target), 0)
	old := int8(0)
	for _, s := range p.old {
		old += s.set.replicas
		available += s.set.status.available
		going += max(s.set.status.machines-s.set.replicas, 0)
	}
	room := replicas + old - going - least - max(n.set.replicas-n.set.status.available, 0)
	if old == 0 || room <= 0 {
		return
	}
	p.byAge()
	for _, all := range []bool{false, true} {
		for i := range p.old {
			s := &p.old[i]
			if room <= 0 || s.target <= 0 {
				continue
			}
			down := s.target
			if !all {
				down = max(s.target-s.set.status.available, 0)
			}
			down, lost := s.lower(min(down, room), available-least)
			available -= lost
			if down > 0 {
				s.target, s.scaled = s.target-down, true
				room -= down
			}
		}
	}
}

// lower returns how far a MachineSet may be lowered if spare Machines are available beyond those
// that are needed, and how many available ones it loses, in the worst case.
func (s *stockSet) lower(down, spare int8) (lowered, loses int8) {
	lost := s.set.status.machines - (s.target - down)
	if down <= 0 || s.set.status.available <= 0 || lost <= 0 {
		return down, 0
	}
	if lost > spare {
		down = s.target - min(s.set.status.machines-max(spare, 0), s.target)
		lost = max(s.set.status.machines-(s.target-down), 0)
	}
	return down, min(s.set.status.available, lost)
}

func (p *stockPlan) byAge() {
	slices.SortFunc(p.old, func(a, b stockSet) int { return int(a.set.born) - int(b.set.born) })
}

// inPlace lets Machines move instead of being deleted. It returns false if a hook fails.
func (p *stockPlan) inPlace() bool {
	n := &p.newest
	if n.set.replicas >= p.md.replicas {
		return true
	}
	for i := range p.old {
		s := &p.old[i]
		if s.set.status.machines == 0 {
			continue
		}
		if p.outage {
			return false
		}
		if p.covers(s.id, n.id) {
			s.moveTo = n.id + 1
			p.receive |= 1 << s.id
		}
	}
	up := n.target - n.set.replicas
	if p.receive == 0 || up <= 0 || p.Surge == 0 {
		return true
	}
	up = max(up-p.Surge, 0)
	if up == 0 && !p.inProgress() {
		up = 1
	}
	n.target, n.scaled = n.set.replicas+up, up > 0
	return true
}

// inProgress reports whether the rollout goes on without another Machine.
func (p *stockPlan) inProgress() bool {
	n := p.newest.set
	if n.replicas != n.status.machines || n.replicas != n.status.upToDate ||
		n.replicas != n.status.available {
		return true
	}
	for _, s := range p.old {
		if s.set.replicas < s.set.status.machines || s.scaled {
			return true
		}
	}
	return slices.ContainsFunc(p.machines[:], machine.inUpdate)
}

func (p *stockPlan) breakDeadlock() {
	all := append([]stockSet{p.newest}, p.old...)
	var have, available int8
	for i, s := range all {
		if s.scaled || s.set.replicas != s.set.status.machines {
			return
		}
		if i > 0 {
			have += s.set.status.machines
			available += s.set.status.available
		}
	}
	if have == 0 || have == available ||
		p.newest.set.status.available != p.newest.set.status.machines {
		return
	}
	for i := range p.old {
		s := &p.old[i]
		if s.set.status.available != s.set.status.machines && s.set.replicas > 0 {
			s.target--
			return
		}
	}
}

func (p *stockPlan) oldOnDelete() {
	old := int8(0)
	for _, s := range p.old {
		old += s.set.replicas
	}
	if old == 0 {
		return
	}
	down := max(p.newest.target+old-p.md.replicas, 0)
	p.byAge()
	for i := range p.old {
		if s := &p.old[i]; s.set.replicas > s.set.status.machines {
			down -= s.set.replicas - s.set.status.machines
			s.target = s.set.status.machines
		}
	}
	for i := range p.old {
		s := &p.old[i]
		if n := min(s.target, down); n > 0 {
			// Stock forgets what it has taken in the loop before.
			s.target = s.set.replicas - n
			down -= n
		}
	}
}

// active are the MachineSets that have replicas.
func (p *stockPlan) active() (active []*stockSet) {
	for i := range p.old {
		if p.old[i].set.replicas > 0 {
			active = append(active, &p.old[i])
		}
	}
	if p.exists && p.newest.set.replicas > 0 {
		active = append(active, &p.newest)
	}
	return active
}

// proportional scales a paused group.
func (p *stockPlan) proportional() {
	active, n := p.active(), &p.newest
	switch {
	case len(active) == 1:
		active[0].target = p.md.replicas
	case len(active) == 0 && p.exists:
		n.target = p.md.replicas
	case len(active) == 0:
		if len(p.old) > 0 {
			p.byAge()
			p.old[len(p.old)-1].target = p.md.replicas
		}
	case p.exists && n.set.replicas == p.md.replicas && n.set.status.available == p.md.replicas:
		for _, s := range active {
			if s != n {
				s.target = 0
			}
		}
	case !p.OnDelete:
		p.spread(active)
	}
}

// spread scales active MachineSets in proportion.
func (p *stockPlan) spread(active []*stockSet) {
	room := p.md.replicas + p.Surge
	if p.md.replicas == 0 {
		room = 0
	}
	for _, s := range active {
		room -= s.set.replicas
	}
	if room == 0 {
		return
	}
	slices.SortStableFunc(active, func(a, b *stockSet) int {
		switch {
		case a.set.replicas != b.set.replicas:
			return int(b.set.replicas) - int(a.set.replicas)
		case room > 0:
			return int(b.set.born) - int(a.set.born)
		}
		return int(a.set.born) - int(b.set.born)
	})
	left := room
	for _, s := range active {
		// The controller has just written the annotation from which it computes the share, so the
		// share stays what it is.
		share := 0
		if p.md.replicas == 0 {
			share = -int(s.set.replicas)
		}
		if room > 0 {
			share = min(share, int(left))
		} else {
			share = max(share, int(left))
		}
		s.target = s.set.replicas + int8(share)
		left -= int8(share)
	}
	active[0].target = max(active[0].target+left, 0)
}

// writes are the operations of the plan.
func (p *stockPlan) writes() []operation {
	var list []operation
	revision := uint8(0)
	if p.exists || !p.md.paused {
		revision = p.newest.set.revision
		for _, s := range p.old {
			revision = max(revision, s.set.revision+1)
		}
		if !p.exists {
			revision = max(revision, 1)
		}
		list = append(list, operation{
			kind: writeSet, set: p.newest.id, update: p.exists, acknowledged: p.counted,
			spec: setSpec{
				replicas: p.newest.target, receive: p.receive, acknowledged: p.acknowledged,
				revision: revision, desired: p.md.replicas,
			},
		})
	}
	for _, s := range p.old {
		list = append(list, operation{
			kind: writeSet, set: s.id, update: true,
			spec: setSpec{
				replicas: s.target, moveTo: s.moveTo, revision: s.set.revision, desired: p.md.replicas,
				noCreate: p.OnDelete,
			},
		})
	}
	list = append(list, operation{kind: finish, revision: revision})
	return append(list, p.cleanups()...)
}

// cleanups delete the old MachineSets of a rollout that is complete.
func (p *stockPlan) cleanups() (list []operation) {
	all := numbers{p.md.replicas, p.md.replicas, p.md.replicas}
	if p.md.paused || !p.md.observed || p.reported() != all {
		return nil
	}
	p.byAge()
	for _, s := range p.old {
		empty := s.target == 0 && s.set.replicas == 0 && s.set.status.machines == 0
		if empty && s.set.observed && !s.set.deleting {
			list = append(list, operation{kind: cleanSet, set: s.id})
		}
	}
	return list
}

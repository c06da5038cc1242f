package rollouts

import "slices"

// reconcileSet returns what the controller of one MachineSet writes, in stock's order: remediation,
// the end of moves, the number of Machines, status.
func (v view) reconcileSet(id uint8) []operation {
	set := v.sets[id]
	if set.deleting {
		return v.deleteSet(id)
	}
	list := v.remediations(id)
	for i, m := range v.machines {
		counted := !m.pending || set.receive == 0 || has(set.acknowledged, i)
		if m.exists && m.owner == id && m.updating && !m.hook && counted {
			for _, k := range []kind{writeInfrastructure, writeBootstrap, writeMachine, markHook} {
				list = append(list, operation{kind: k, set: id, machine: uint8(i), to: id})
			}
			v.machines[i].pending = false
		}
	}
	list, moved := v.scale(id, list)
	counted := v
	for _, i := range moved {
		counted.machines[i].updating = true
	}
	return append(list, operation{
		kind: writeStatus, set: id, status: counted.count(id), before: set.replicas,
	})
}

// remediations delete broken Machines of the newest MachineSet.
func (v view) remediations(id uint8) (list []operation) {
	if v.sets[id].revision != v.md.revision {
		return nil
	}
	for i, m := range v.machines {
		if m.exists && m.owner == id && m.broken && !m.deleting {
			list = append(list, operation{kind: remediate, set: id, machine: uint8(i)})
		}
	}
	return list
}

// deleteSet deletes the Machines of a MachineSet, and then the MachineSet.
func (v view) deleteSet(id uint8) []operation {
	var list []operation
	for _, i := range v.order(id) {
		if !v.machines[i].deleting {
			list = append(list, operation{kind: deleteMachine, set: id, machine: i})
		}
	}
	if v.owned(id) == 0 {
		return []operation{{kind: removeSet, set: id}}
	}
	return append(list, operation{
		kind: writeStatus, set: id, status: v.count(id), before: v.sets[id].replicas,
	})
}

// scale creates, deletes or moves Machines. moved are those that move.
func (v view) scale(id uint8, list []operation) (all []operation, moved []uint8) {
	set := v.sets[id]
	surplus := v.owned(id) - set.replicas
	for range -surplus {
		if !set.noCreate {
			list = append(list, operation{kind: createMachine, set: id})
		}
	}
	if surplus <= 0 {
		return list, nil
	}
	if set.receive != 0 {
		for _, m := range v.machines {
			if m.exists && m.owner == id && m.pending {
				surplus--
			}
		}
	}
	switch {
	case set.moveTo == 0:
		return v.deletions(id, surplus, list), nil
	case !has(v.sets[set.moveTo-1].receive, int(id)):
		return list, nil
	}
	return v.moves(id, v.order(id), surplus, list)
}

// deletions deletes as many Machines as are too many.
func (v view) deletions(id uint8, surplus int8, list []operation) []operation {
	order := v.order(id)
	for _, i := range order[:max(min(int(surplus), len(order)), 0)] {
		if !v.machines[i].deleting {
			list = append(list, operation{kind: deleteMachine, set: id, machine: i})
		}
	}
	return list
}

// moves moves as many Machines as are too many, in order.
func (v view) moves(
	id uint8, order []uint8, surplus int8, list []operation,
) (all []operation, moved []uint8) {
	to := v.sets[id].moveTo - 1
	for _, i := range order {
		m := v.machines[i]
		switch {
		case surplus <= 0:
		case m.broken && !m.deleting:
			surplus--
			list = append(list, operation{kind: remediate, set: id, machine: i})
		case m.deleting:
			surplus--
		case m.inUpdate() || !m.node:
		default:
			surplus--
			list = append(list, operation{kind: moveMachine, set: id, machine: i, to: to})
			moved = append(moved, i)
		}
	}
	return list, moved
}

// order sorts the Machines of a MachineSet as they are deleted.
func (v view) order(id uint8) []uint8 {
	var order []uint8
	for i, m := range v.machines {
		if m.exists && m.owner == id {
			order = append(order, uint8(i))
		}
	}
	priority := func(i uint8) int {
		switch m := v.machines[i]; {
		case m.deleting:
			return 0
		case m.inUpdate():
			return 1
		case m.broken || !m.node:
			return 2
		}
		return 3
	}
	slices.SortStableFunc(order, func(a, b uint8) int { return priority(a) - priority(b) })
	return order
}

package rollouts

import (
	"fmt"
	"slices"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/pool"
)

// byRules is view.reconcileSet by the rules of this package, without status. The two must agree.
func (e *explorer) byRules(v view, id uint8) ([]operation, error) {
	g := e.group(v)
	f := pool.SetFacts{Deployment: g.MachineDeployment, MachinesRead: true, Group: g.Machines}
	f.Now, f.Decided = g.Now, true
	keeps := e.keeps(&v)
	if g.Limits != nil {
		f.Policy = policy.Policy(*g.Limits)
	}
	f.Policy.Guarded = keeps
	for _, set := range g.MachineSets {
		if set.Name == setName(id) {
			f.MachineSet = set
		}
	}
	for _, m := range g.Machines {
		if pool.Owns(f.MachineSet, m) {
			f.Machines = append(f.Machines, m)
		}
	}
	if e.blind {
		f.Group = f.Machines
	}
	remediation, err := f.Remediate()
	if err != nil {
		return nil, fmt.Errorf("remediating: %w", err)
	}
	var list []operation
	add := func(k kind, m *clusterv1.Machine, to uint8) {
		list = append(list, operation{kind: k, set: id, machine: uint8(machineOf(m.Name)), to: to})
	}
	list = e.recording(v, f, remediation.Delete, list)
	for _, m := range remediation.Delete {
		add(remediate, m, 0)
	}
	for _, m := range f.Machines {
		if f.MayBeginUpdate(m) {
			for _, k := range []kind{writeInfrastructure, writeBootstrap, writeMachine, markHook} {
				add(k, m, id)
			}
			delete(m.Annotations, clusterv1.PendingAcknowledgeMoveAnnotation)
		}
	}
	err = e.scaleByRules(g, f, add, func() {
		list = append(list, operation{kind: createMachine, set: id})
	}, func(goes []*clusterv1.Machine) { list = e.recording(v, f, goes, list) })
	return list, err
}

// scaleByRules adds what brings the MachineSet to its replicas.
func (e *explorer) scaleByRules(
	g pool.Group, f pool.SetFacts, add func(kind, *clusterv1.Machine, uint8), create func(),
	record func([]*clusterv1.Machine),
) error {
	s, err := f.Scale()
	if err != nil {
		return fmt.Errorf("scaling: %w", err)
	}
	switch s.Action { //nolint:exhaustive // Nothing happens to the others.
	case pool.Create:
		for range s.Count {
			create()
		}
	case pool.Delete:
		goes, err := f.Deletions(s.Count)
		if err != nil {
			return fmt.Errorf("ordering: %w", err)
		}
		machines := make([]*clusterv1.Machine, len(goes))
		for i, c := range goes {
			machines[i] = c.Machine
		}
		record(machines)
		for _, c := range goes {
			if c.Machine.DeletionTimestamp.IsZero() {
				add(deleteMachine, c.Machine, 0)
			}
		}
	case pool.Update:
		return e.moveByRules(g, f, s, add)
	}
	return nil
}

// moveByRules adds the moves to another MachineSet.
func (e *explorer) moveByRules(
	g pool.Group, f pool.SetFacts, s pool.Scaling, add func(kind, *clusterv1.Machine, uint8),
) error {
	to := slices.IndexFunc(g.MachineSets, func(set *clusterv1.MachineSet) bool {
		return set.Name == s.Target
	})
	if to < 0 || !pool.ReceivesFrom(g.MachineSets[to], f.MachineSet.Name) ||
		!f.FollowsTemplate(g.MachineSets[to]) {
		return nil
	}
	leave, err := f.Departures(s.Count)
	if err != nil {
		return fmt.Errorf("ordering: %w", err)
	}
	for _, d := range leave {
		switch {
		case d.Action == pool.Delete:
			add(remediate, d.Machine, 0)
		case d.Reason == pool.ReasonReturn:
			add(returnMachine, d.Machine, slotOf(s.Target))
		default:
			add(moveMachine, d.Machine, slotOf(s.Target))
		}
	}
	return nil
}

// compareSets says where the rules of MachineSets and the model of stock differ. Stock does not
// record failed canaries; records are what the rules write about them, before anything else.
func (e *explorer) compareSets(
	v view, id uint8, stock []operation,
) (records []operation, problem string) {
	if v.sets[id].deleting {
		return nil, ""
	}
	want := slices.DeleteFunc(slices.Clone(stock), func(o operation) bool {
		return o.kind == writeStatus
	})
	got, err := e.byRules(v, id)
	if err != nil {
		return nil, fmt.Sprintf("ms%d: the rules return %v", id, err)
	}
	isRecord := func(o operation) bool { return o.kind == recordCanaries }
	for _, o := range got {
		if isRecord(o) {
			records = append(records, o)
		}
	}
	got = slices.DeleteFunc(got, isRecord)
	if !slices.Equal(got, want) {
		return nil, fmt.Sprintf("ms%d: stock writes\n\t%v\nand the rules\n\t%v", id, want, got)
	}
	return records, ""
}

// keptSet is view.reconcileSet for a group whose Machines are kept: stock has no such rules.
func (e *explorer) keptSet(v view, id uint8) (todo []operation, problem string) {
	list, err := e.byRules(v, id)
	if err != nil {
		return nil, fmt.Sprintf("ms%d: the rules return %v", id, err)
	}
	counted := v
	for _, o := range list {
		if o.kind == moveMachine {
			counted.machines[o.machine].updating = true
		}
	}
	return append(list, operation{
		kind: writeStatus, set: id, status: counted.count(id), before: v.sets[id].replicas,
	}), ""
}

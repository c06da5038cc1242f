package rollouts

import (
	"fmt"
	"slices"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/pool"
)

// decided is what a MachineDeployment controller does after one reading.
type decided struct {
	todo []operation
	// stated says that each Machine that is not as desired has a reason that only a person or an
	// updater can change.
	stated bool
	// problem is set if ours decides in another way than stock does on the same counters.
	problem string
}

// deploy returns what the MachineDeployment controller in charge writes.
func (e *explorer) deploy(v view, stock bool) decided {
	key := reading{v, stock}
	if d, known := e.plans[key]; known {
		return d
	}
	var d decided
	if stock {
		d = decided{todo: e.stock(v)}
	} else {
		d = e.ours(v)
	}
	e.plans[key] = d
	return d
}

type reading struct {
	view
	stock bool
}

// ours asks the engine.
func (e *explorer) ours(v view) decided {
	if v.sets[v.md.template].deleting {
		// The rules create a MachineSet with another name. This model waits until its slot is free.
		return decided{}
	}
	g := e.group(v)
	if o, changed := followUp(v, g); changed {
		return decided{todo: []operation{o}}
	}
	plan, err := e.plan(g, v.outage)
	if err != nil {
		return decided{stated: v.outage}
	}
	d := decided{todo: operations(v, plan, g.Machines), stated: stated(plan)}
	if e.alone || e.Keep || g.Limits != nil || v.outage || e.uncounted(v) {
		return d
	}
	d.problem = e.compare(v, g)
	return d
}

// compare says where ours decides in another way than stock does on the same counters.
func (e *explorer) compare(v view, g pool.Group) (problem string) {
	g.Count = func(set *clusterv1.MachineSet, _ []*clusterv1.Machine) pool.Counts {
		return pool.StatusCounts(set)
	}
	exact, err := e.plan(g, v.outage)
	if err != nil {
		return fmt.Sprintf("stock decides, and this engine returns: %v", err)
	}
	got, want := operations(v, exact, nil), e.stock(v)
	if exact.Moving {
		// Stock deletes a MachineSet to which another one may still move Machines.
		want = slices.DeleteFunc(want, func(o operation) bool { return o.kind == cleanSet })
	}
	for i := range got {
		// Stock forgets which moves it has counted, and may count them twice.
		if o := &got[i]; o.kind == writeSet && (o.set != v.md.template || v.md.paused) {
			o.spec.acknowledged = 0
		}
	}
	if !slices.Equal(got, want) {
		return fmt.Sprintf("with the same counters stock writes\n\t%v\nand this engine\n\t%v", want, got)
	}
	return ""
}

// plan asks the engine for a plan, and answers its questions.
func (e *explorer) plan(g pool.Group, outage bool) (pool.Plan, error) {
	questions, err := e.Engine.Needs(g)
	if err != nil {
		return pool.Plan{}, err
	}
	answers := map[string]pool.Coverage{}
	for _, q := range questions {
		c := pool.Coverage{Answer: pool.AnswerNo, Reason: "the updater cannot"}
		switch {
		case outage:
			c = pool.Coverage{Answer: pool.AnswerUnknown, Reason: "the updater is away"}
		case e.covers(slotOf(q.Old.Name), slotOf(q.New.Name)):
			c = pool.Coverage{Answer: pool.AnswerYes}
		}
		answers[q.Old.Name] = c
	}
	return e.Engine.Decide(g, answers)
}

// stated reports whether nothing but Machines that wait for a stated reason is left to do.
func stated(p pool.Plan) bool {
	waits := false
	for _, d := range p.Decisions {
		switch {
		case d.Action == pool.Keep && d.Reason == pool.ReasonUpToDate:
		case d.Action == pool.Wait && d.Reason == pool.ReasonBudget: // Another Machine waits.
		case d.Action == pool.Wait && d.Message != "" && slices.Contains([]pool.Reason{
			pool.ReasonNotCovered, pool.ReasonCoverageUnknown, pool.ReasonRecreateRequested,
			pool.ReasonKubeletAhead, pool.ReasonCanaryFailed,
		}, d.Reason):
			waits = true
		default:
			return false
		}
	}
	return waits
}

// operations turns a plan into writes, in the order in which a controller makes them.
func operations(v view, p pool.Plan, machines []*clusterv1.Machine) []operation {
	var list []operation
	for _, set := range p.Sets() {
		list = append(list, operation{
			kind: writeSet, set: slotOf(set.Desired.Name), spec: spec(set.Desired),
			update: set.Current != nil,
		})
	}
	for _, name := range p.Acknowledged {
		for i := range list {
			if list[i].set == v.machines[machineOf(name)].owner {
				list[i].acknowledged |= 1 << machineOf(name)
			}
		}
	}
	end := operation{kind: finish}
	_, _ = fmt.Sscan(p.Revision, &end.revision)
	list = append(list, end)
	if v.md.paused || p.Moving || !pool.Complete(&clusterv1.MachineDeployment{
		Spec: clusterv1.MachineDeploymentSpec{Replicas: new(int32(v.md.replicas))},
	}, v.deploymentStatus()) {
		return list
	}
	var old []*clusterv1.MachineSet
	for _, set := range p.Old {
		applied := set.Desired.DeepCopy()
		applied.DeletionTimestamp = set.Current.DeletionTimestamp
		applied.Generation = set.Current.Generation
		if *applied.Spec.Replicas != *set.Current.Spec.Replicas {
			applied.Generation++
		}
		old = append(old, applied)
	}
	for _, set := range pool.Cleanable(old, machines) {
		list = append(list, operation{kind: cleanSet, set: slotOf(set.Name)})
	}
	return list
}

// deploymentStatus are the sums of the statuses of the MachineSets.
func (v view) deploymentStatus() clusterv1.MachineDeploymentStatus {
	n := v.reported()
	s := clusterv1.MachineDeploymentStatus{
		Replicas: new(int32(n.machines)), UpToDateReplicas: new(int32(n.upToDate)),
		AvailableReplicas: new(int32(n.available)),
	}
	if !v.md.observed {
		s.ObservedGeneration = -1
	}
	return s
}

func (v view) reported() (n numbers) {
	for _, set := range v.sets {
		n.machines += set.status.machines
		n.available += set.status.available
		n.upToDate += set.status.upToDate
	}
	return n
}

// uncounted reports whether Machines of a MachineSet that receives none now are in the middle of a
// move or an update, or soak. Stock does not count the moves, and takes the others for a deadlock.
func (e *explorer) uncounted(v view) bool {
	return slices.ContainsFunc(v.machines[:], func(m machine) bool {
		soaks := m.ready() && !m.available && !m.deleting
		return m.exists && (m.pending || m.inUpdate() || soaks) &&
			(m.owner != v.md.template || v.md.paused)
	})
}

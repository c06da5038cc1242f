// Package pool holds the rules of worker groups: which Machines of a MachineDeployment are kept,
// updated in place, created, deleted, or have to wait, and why.
//
// It is pure: objects, counters, answers and the time go in, plans come out. Inputs are never
// changed. Without a policy the rules decide as Cluster API v1.14 does, except where Cluster API
// loses count of Machines (ARCHITECTURE.md). Upstream's own tests run on them (test/upstream).
//
// # MachineDeployments
//
// A controller uses the package like this, once per reconcile:
//
//	group := pool.Group{MachineDeployment: md, MachineSets: sets, Machines: machines, Now: now,
//		Suffix: rand.String(pool.SuffixLength), TemplatesExist: ok, InPlaceUpdates: gate}
//	questions, err := pool.Needs(group)     // which MachineSets must be asked about
//	for _, q := range questions { // hook CanUpdateMachineSet, or a fresh answer
//		coverage[q.Old.Name] = ask(q.Old, q.New)
//	}
//	plan, err := pool.Decide(group, coverage)
//	for _, set := range plan.Sets() { // New first, then Old, as in stock
//		apply(set.Current, set.Desired)     // server-side apply; create if Current is nil
//	}
//	md.Annotations[clusterv1.RevisionAnnotation] = plan.Revision
//	if !plan.Moving && pool.Complete(md, status) {
//		for _, set := range pool.Cleanable(applied old MachineSets, group.Machines) { delete(set) }
//	}
//	facts := pool.DeploymentFacts{...} // facts.Status(): counters, phase, conditions
//
// Decide writes nothing and asks nobody. Between Needs and Decide nothing but the answers may
// change: both get the same Group, with the same Suffix and the same Now.
//
// # Two levels
//
// The Rollout type is the arithmetic of Cluster API's rollout planner on numbers: one method per
// rule, each returns a changed copy. Decide turns objects into a Rollout, applies the rules in
// stock's order, and turns the result into desired MachineSets.
//
// With Group.Keep the rules of keep.go apply instead: no rollout creates or deletes a Machine.
// Plan.Blocked then says on what a person must act, and the MachineSet controller moves Machines in
// the order of MoveOrder, not in the order of deletion.
package pool

// Package machineset reconciles MachineSets, in the place of Cluster API's own controller: same
// kinds, labels, annotations, finalizer, field managers, conditions and Events. The rules are in
// package pool; this package reads, asks them, and writes.
//
// One reconcile does this, and skips a step for which there is nothing to do:
//
//  1. add the finalizer; set the condition Paused; stop if the MachineSet is paused (reconcile.go)
//  2. make the Cluster an owner of both templates; adopt Machines without a controller (read.go)
//  3. delete Machines whose MachineSet is being deleted, and stop (remove.go)
//  4. delete unhealthy Machines, as many as may be at once (remediate.go)
//  5. copy labels, annotations and timeouts to Machines and their objects (sync.go)
//  6. complete moves of Machines from another MachineSet, and start their updates (complete.go)
//  7. delete objects that no Machine uses, then create, delete or move Machines (unused.go,
//     scale.go, create.go, remove.go, move.go)
//  8. write status (status.go)
//
// # Order of writes
//
// Whatever controller reads the objects after a crash must be able to go on, ours or Cluster API's.
// So each step writes in Cluster API's order:
//
//   - create: bootstrap config, infrastructure, Machine
//   - start a move: one patch of the Machine (owner, unique label, both marks)
//   - complete a move: infrastructure, bootstrap config, Machine, and last the pending hook, on
//     which the Machine controller starts the update
//   - remediate: the condition of the Machine, then its deletion
//
// Where a request's outcome is unknown, this package asks the API server before it deletes: an
// object whose Machine exists is never rolled back.
package machineset

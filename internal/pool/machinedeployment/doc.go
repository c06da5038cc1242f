// Package machinedeployment is the controller of MachineDeployments, in the place of Cluster API's.
//
// It reads a MachineDeployment, its MachineSets and their Machines, asks extensions about updates
// in place, has package pool decide, and writes the result. It uses the same labels, annotations,
// finalizer, field managers, conditions and Events as Cluster API's controller, and makes the
// writes in the same order, so that either controller can continue what the other one began.
package machinedeployment

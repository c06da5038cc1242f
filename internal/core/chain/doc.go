// Package chain decides what happens next to a Cluster whose topology changes: the state machine of a chained upgrade, as a
// function on values.
//
// The order of a chain is that of the Cluster API proposal "Chained and efficient upgrades for Clusters with managed
// topologies": the control plane goes through every version of its plan; after each step, and the hooks around it, the worker
// groups whose own plan stops at that version follow, MachineDeployments before MachinePools; the next control plane step waits
// for them. Everything that must survive a crash is a Record, written before the effect that it announces.
//
// The package is pure: time is a parameter, inputs are never changed, the same State gives the same Decision. All functions are
// safe for concurrent use.
package chain

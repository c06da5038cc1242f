// Package chain decides and carries out a chained upgrade of one Cluster.
//
// [Decide] is the state machine as a function on values. The order of a chain is that of the Cluster
// API proposal "Chained and efficient upgrades for Clusters with managed topologies": the control
// plane goes through every version of its plan; after each step, and the hooks around it, the worker
// groups whose own plan stops at that version follow, MachineDeployments before MachinePools; the next
// control plane step waits for them. Everything that must survive a crash is a Record.
//
// [Execute] carries out one decision against [Effects], which may fail or be cut off at any point. It
// writes a Record before the effect that the Record announces, and effects are idempotent. A process
// that reads the Cluster again after a crash, and decides again, reaches the same end.
//
// [VersionChange] and [CheckList] are the admission of targets: whether a Cluster may have the
// Kubernetes version that a user requests, and a ClusterClass the versions that it lists. The rules are
// those of the proposal and of Cluster API's webhooks, with one difference: a new target in the middle
// of an upgrade is allowed if a legal chain leads to it from the version that the control plane has or
// is moving to.
//
// The package is pure: time is a parameter, inputs are never changed, the same State gives the same
// Decision. All functions are safe for concurrent use.
package chain

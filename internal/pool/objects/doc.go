// Package objects reads and writes the objects of a pool for the controllers of MachineDeployments
// and MachineSets, as Cluster API's own controllers write them: the same field managers, the same
// owners of fields, and the same order.
//
//   - [Applier] applies objects on the server's side and omits a request that would change nothing.
//   - [RestoreOwnership], [SplitOwnership] and [ReleaseMetadata] keep managed fields as Cluster API
//     has them, so that a field that leaves a template leaves its objects.
//   - [Save] writes what a reconcile changed in its own object: one request for status, one for the
//     rest, and none for what is unchanged.
//   - [Changes] lets a watch pass only what a reconcile reads; Clusters' controller uses it, too.
//   - [Clone] makes an object from a template, and [EnsureClusterOwner] and [Adopt] add owners.
//
// Pending hooks and marks of updates are in package capi, because the rules read them too.
package objects

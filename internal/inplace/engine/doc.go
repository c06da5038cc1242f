// Package engine serves Cluster API's three hooks for in-place updates: it asks updaters which changes
// they cover, records decisions and progress on Machines and MachineSets, and carries them out through
// ports.
//
// Files named annotated_* admit the upgrades that annotations request, of one machine and of the machines
// of a group: they read the facts, package request decides, and they record the decision. The rest of
// the engine carries out what is admitted, as it does for hooks: a [Machine] is a Machine and its node,
// as both kinds of updates act on them.
//
// One process is active at a time (leader election), and all state that a restart needs is on the
// objects; memory only saves requests. A fence keeps a process that was frozen from acting on an
// object that another process has changed since. While a Machine is updated, an annotation keeps
// MachineHealthChecks away from it; it is set and removed in the same writes as the record of the
// update. A lock lets one control plane machine of a Cluster be updated at a time, in a ConfigMap whose
// form other programs share.
package engine

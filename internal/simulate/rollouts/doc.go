// Package rollouts explores what can happen to the Machines of a MachineDeployment while its
// template changes. It drives the rules of package pool, not a copy of them, in a simulated world:
// the MachineDeployment, its MachineSets and Machines, their controllers and caches, updaters, and
// the people who edit the group. Only Cluster API's own engine is a model. It was written from that
// engine's behavior and shares nothing with the rules. Without an UpdatePolicy the rules must write
// what the model writes.
//
// Explore visits every state that can be reached, breadth first. It checks after each step that
// maxSurge, maxUnavailable and the limits of the UpdatePolicy hold, that no Machine is lost, counted
// twice or replaced against the policy, and that the objects of an update agree before it begins.
// From each state it also lets everything behave, and checks that the rollout ends. These checks
// read a record of what happened, and nothing that the rules have recorded.
//
// # What is assumed
//
// The world has no clock: a Machine becomes available, an update ends, and a cache catches up at any
// later moment or before. Soak times, deadlines, maxFailures and the order of Machines are not part
// of it. While Cluster API's own engine was in charge once, the surge, the unavailability and the
// limits are not checked any more, because they are its own.
package rollouts

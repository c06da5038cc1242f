// Package rollouts explores what can happen to the Machines of a MachineDeployment while its
// template changes. It drives the rules of package pool, not a copy of them, in a simulated world:
// the MachineDeployment, its MachineSets and Machines, their controllers and caches, updaters, and
// the people who edit the group. Only Cluster API's own engine is a model. It was written from that
// engine's behavior and shares nothing with the rules. Without an UpdatePolicy the rules must write
// what the model writes.
//
// Explore visits every state that can be reached, breadth first. After each step it checks these
// limits: maxSurge and maxUnavailable; the maxInFlight of replacements, the canary, the batches and
// the partition of the UpdatePolicy. It checks that no Machine is lost, counted twice or replaced
// against the policy, and that the objects of an update agree before it begins. From each state it
// also lets everything behave, and checks that the rollout ends. These checks read a record of what
// happened, and nothing that the rules have recorded.
//
// # What is assumed
//
// The world has no clock. A Machine becomes available, an update ends, and a cache catches up at
// any later moment or before. Soak times, deadlines, maxFailures and the order of Machines are not
// part of it. The engine of updates enforces the maxInFlight of updates in place. It is not part of
// the world, and moves are not checked against maxInFlight.
//
// Machines that people delete, and Machines that break, do not count against the limits. After a
// second change of the template only moves are checked against the limits of the UpdatePolicy, and
// only against the canary and the batches. After people scale the group, maxInFlight is not
// checked.
//
// Some checks end. Those of maxSurge and maxUnavailable end when Cluster API's own engine takes
// over, or when the group is paused. Those of the limits of the UpdatePolicy end then too, and when
// the policy or its limits are removed. The checks for Machines that are counted twice, and for
// Machines that are deleted with a MachineSet, end when Cluster API's own engine takes over.
package rollouts

// Package fleet simulates whole upgrades of many clusters with tens of thousands of machines, under a virtual clock.
//
// What decides and acts is the product itself: core/chain and engine/upgrade for chains, core/inplace and engine/carry for machines, core/gate for
// gates. The world around them is simulated: a store with optimistic concurrency, updaters, nodes, failure domains, and Cluster API's controllers,
// which decide by core/rollout. Faults can be switched on: conflicts, stale reads, lost responses, crashes, outages.
//
// The same Config and seed give the same Run, byte for byte. What is random about a machine does not depend on the order of events: it is a function of
// the seed, the machine and what happens to it, so that two policies meet the same machines.
package fleet

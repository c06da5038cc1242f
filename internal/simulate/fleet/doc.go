// Package fleet simulates whole upgrades of many clusters with tens of thousands of machines, under a virtual clock.
//
// What decides and acts is the product itself: package chain for chains, inplace for machines, gate for
// gates. The world around them is simulated: a store with optimistic concurrency, updaters, nodes, failure domains, and Cluster API's controllers,
// which decide by the rules in rollout.go. Faults can be switched on: conflicts, stale reads, lost responses, crashes, outages.
//
// The same Config and seed give the same Run, byte for byte. What is random about a machine does not depend on the order of events: it is a function of
// the seed, the machine and what happens to it, so that two policies meet the same machines.
//
// Durations are distributions: values that are parsed from one word, printed as that word, and sampled by
// a number between 0 and 1, so that the caller decides where randomness comes from.
package fleet

// Package setup puts Windlass on a management cluster of the lab: its CRDs, extension, guard, engine and
// simulated updaters, and the objects of a scenario. The commands of the lab and the end-to-end tests use it.
package setup

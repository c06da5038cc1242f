// Package preview says, before anything happens, how the machines of each group will be updated by a plan: in place by which
// updaters, or replaced, and why.
//
// It asks updaters the question that Cluster API would ask, about hypothetical objects. Updaters take no action because of it.
// All functions are safe for concurrent use.
package preview

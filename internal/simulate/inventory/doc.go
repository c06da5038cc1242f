// Package inventory makes the scenario of a simulation from the objects of live clusters, or of manifests.
//
// [Fit] measures durations from the objects that the last upgrade of a cluster left. A machine updated in
// place keeps a summary with the time of each updater, its verification included; the rest of the whole,
// less the policy's soak, is the drain. For replaced machines, the new Machine tells how long it took to
// be Ready. The time of deletion shows between the new machines of a group that created them one by one:
// the next is created when an old one is gone, and the group's controllers notice before and after. The
// simulation adds these two delays itself, so they are subtracted. The group's condition RollingOut tells
// when the last old machine was gone. Events tell nothing more: Cluster API writes none when a Machine is
// Ready or gone, and they are kept for an hour.
package inventory

// Package inventory measures how long things take on the machines of a cluster, from what its last upgrade has left on the objects.
//
// Machines that were updated in place keep a summary: it has the time of each updater, its verification included, and what remains of the whole is the
// drain, after the policy's soak is taken away. Of machines that were replaced, the new one tells how long it took to be Ready. How long deleting takes
// shows between the new machines of a group that made them one after another: the next one is made only when an old one is gone, and before and after that
// the group's controllers have to notice. A simulation adds these two times itself, so they are taken off. When the last old one was gone, the group's
// condition RollingOut tells. Events tell nothing more: Cluster API writes none when a
// machine is Ready or gone, and they are kept for an hour.
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

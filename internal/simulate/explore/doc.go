// Package explore explores what can happen to a Cluster while its version changes. It holds a simulated world (a Cluster, its control plane, its
// groups of workers, the extensions behind hooks, the people who edit annotations and versions, another engine that takes over) and drives the
// product's own chain.Decide and chain.Execute through it, not a copy of them. Only the other engine is a model: of what
// Cluster API's own topology controller does, in its order.
//
// Explore visits every state that can be reached, breadth first, and checks invariants after every step, against a ledger of what really
// happened and never against what the engine has recorded. From every state it also lets the world behave, and checks that the upgrade then ends.
//
// # What is assumed
//
// Time is not counted: a hook that did not let the Cluster pass is due again at any later moment. One engine acts at a time (both need the same
// lease). The engine reads its own writes, and may miss what others write while it acts. While the other engine is in charge, a control plane's
// step lasts longer than that engine needs to notice it, and nobody hands the Cluster over to it between a finished step and its record: it
// would lose the hooks of that step, since it keeps no intent. Where that engine is killed between two of its writes, hooks may be called twice:
// what it has called then stands nowhere. It does not wait for groups that are leaving, and where it begins an upgrade while the target of an earlier one
// is recorded, this engine may ask about its target again.
//
// Where the other engine begins an upgrade, or calls BeforeWorkersUpgrade, a group that lacked machines
// before may hold this engine until it has them, and gets them at some time: nothing tells this engine
// what was lacking before.
//
// Where the target is set to the version that the control plane already has, the other engine ends that
// upgrade, begins another and gives way before its first step, the record of this engine's earlier
// target still counts: the control plane has not moved, and nothing else tells the two upgrades apart.
//
// After a restart the control plane or a group may be read as it was before its last write, and no older; of the control plane only when the Cluster
// tells of that write. A group is read live before it is sent to another version. What was read of a group too late
// does not count against the engine where it is about order and concurrency; skew does.
//
// A step of the control plane can be taken back until the engine could read that a machine of it has
// joined. One may join between what the engine reads and what it does, but the step is not over then.
//
// The product makes several decisions on one reading of the objects, as long as it only writes records. Here everything is read again before each:
// that allows more, since a reading that is out of date is among what races do.
package explore

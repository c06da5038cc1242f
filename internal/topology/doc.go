// Package topology reads, computes and writes the objects of a Cluster with a managed topology: the infrastructure cluster, the control
// plane, MachineDeployments, MachinePools, their templates and MachineHealthChecks. It decides nothing about versions: the caller says which
// version every object has ([Versions]) and which are left alone for now.
//
// # The settled view
//
// Upstream's desired state generator does two things at once. It turns a ClusterClass into objects, which is much code that must match
// upstream byte for byte, or machines are replaced when a user swaps managers. And in the middle of it it steers an upgrade: it calls hooks,
// writes annotations, asks workload clusters, and holds versions back. We want the first from upstream and the second from ourselves.
//
// So the generator is shown a Cluster for which there is nothing to steer. The control plane is at the topology's version and, having no
// status, counts as being provisioned; every MachineDeployment and MachinePool is at that version too; no Machine contradicts, because the
// generator's client lists none; the ClusterClass has neither patches, nor an upgrade plan extension, nor a list of versions. On that view
// the generator calls no hook, writes nothing (its client refuses to), and returns objects that no patch has touched. They get the
// caller's versions, and only then does upstream's patch engine run, with the real ClusterClass, so that patches that use
// builtin.controlPlane.version or builtin.machineDeployment.version see the version that the object will really have.
//
// The differential test holds this against the generator itself, unsteered, for Clusters in a steady state.
//
// # Writing only what changes
//
// Objects are written by server-side apply as "capi-topology", the stock manager's field manager, with the same intent. To learn whether an
// apply would change anything, the stock manager makes two dry runs, and remembers a negative answer for as long as the resourceVersion stays the
// same; every status update brings two more. Here the answer is remembered for as long as what it depends on stays the same: the intent,
// and of the object its spec and what our field manager owns. Whatever somebody else changes in an owned field also ends our
// ownership of it, so the managed fields tell. And when only the intent changed since the answer, as in an upgrade, the apply is made at once;
// it cannot touch what the answer covered. A new spec of a template is the exception: it means new machines, so dry runs confirm it.
//
// # Crashes
//
// Every effect can be repeated. A rotated template's name is computed from the template that it
// replaces, from its content, and from the MachineDeployment's revision, so a process that died
// after creating it finds it again. Templates of a step that the API server rejected are deleted, if
// the step has created them itself; when the outcome of the step, or of an earlier attempt of it, is
// not known (a timeout), they stay, because the object may refer to them already.
//
// # Templates that exist
//
// A topology that is set back in the middle of a rollout gets the templates that the earlier
// MachineSet of the MachineDeployment refers to, so that its Machines stay or return. The condition
// is strict: the MachineSet has no other difference, Machines are in it or can go back to it, and the
// templates are exactly what a rotation would write, by dry runs. Upstream's controllers delete
// templates with the last MachineSet that refers to them, and may read an older MachineDeployment. A
// MachineDeployment whose template is gone therefore gets a new one, unless a MachineSet still has
// Machines of it: then somebody has deleted the template, and a new one would be a rollout. Nothing
// is recorded in between: each state is one that the next reconcile continues from.
//
// # The controller
//
// [Reconciler] takes the place of Cluster API's controller of Clusters with a managed topology: it reads a
// Cluster's objects, package chain decides and executes, and the objects below are the effects. It works
// on the same objects, annotations, conditions and field manager, so that either controller can take over
// from the other at any point of an upgrade.
package topology

package guard

// Operation is what is asked for.
type Operation int

// The operations.
const (
	// Create makes a Machine.
	Create Operation = iota
	// Delete deletes a Machine.
	Delete
)

// Request is a request to create or delete a Machine, and what is known about its group.
type Request struct {
	Operation Operation
	// Guarded says that the group's policy keeps machines, and Policy is its name.
	Guarded bool
	Policy  string
	// ClusterGone says that the Cluster is being deleted, or does not exist.
	ClusterGone bool
	Machine     Machine
	Group       Group
}

// Machine is what counts of the Machine in question. Of one that is created, only Name.
type Machine struct {
	Name string
	// Deleting says that it is being deleted already.
	Deleting bool
	// Moving says that `clusterctl move` has copied it to another management cluster, and now deletes this one's.
	Moving bool
	// Remediating says that its health check failed, or a person asked for its remediation, and its owner is to replace it.
	Remediating bool
	// Replaceable says that it carries the annotation windlass.dev/allow-replacement.
	Replaceable bool
	// Updating says that it is being updated in place.
	Updating bool
}

// Group is the control plane or MachineDeployment that the Machine belongs to. A MachineDeployment's Machines are those of all its
// MachineSets: an update moves them from one to the other.
//
// A MachineSet that stands alone is no group, nor is a MachinePool: no UpdatePolicy selects them, and neither replaces a Machine
// because of a change.
type Group struct {
	// Kind and Name are for messages. They are empty for a Machine that belongs to no group, or to one that does not exist.
	Kind, Name string
	// Deleting says that the group is being deleted.
	Deleting bool
	// Desired is spec.replicas.
	Desired int
	// Machines counts the group's Machines that are not being deleted: with the one to delete, without the one to create. Where
	// requests that were admitted may not have happened yet, it is the number that is the more careful for this request.
	Machines int
	// Replaceable counts those of Machines that carry the annotation windlass.dev/allow-replacement.
	Replaceable int
}

// Exists says that the Machine belongs to a group.
func (g Group) Exists() bool { return g.Kind != "" }

// Verdict is the answer to a Request.
type Verdict struct {
	Allowed bool
	Reason  Reason
	// Message says what is refused and what to do; it is empty where the request is allowed.
	Message string
}

// Reason is why a request is allowed or refused.
type Reason string

// The reasons to allow a request.
const (
	// NotGuarded: the policy does not keep machines.
	NotGuarded Reason = "NotGuarded"
	// ClusterGone: the Cluster is being deleted, or does not exist.
	ClusterGone Reason = "ClusterGone"
	// NoGroup: the Machine belongs to no control plane or MachineDeployment.
	NoGroup Reason = "NoGroup"
	// GroupDeleting: the control plane or MachineDeployment is being deleted.
	GroupDeleting Reason = "GroupDeleting"
	// AlreadyDeleting: the Machine is being deleted already.
	AlreadyDeleting Reason = "AlreadyDeleting"
	// Moving: the Machine moves to another management cluster.
	Moving Reason = "Moving"
	// Remediation: the Machine is to be remediated.
	Remediation Reason = "Remediation"
	// ReplacementAllowed: a person allowed to replace the Machine.
	ReplacementAllowed Reason = "ReplacementAllowed"
	// Surplus: the group has more Machines than it should.
	Surplus Reason = "Surplus"
	// Missing: the group has fewer Machines than it should: it is made, it is scaled, or a Machine is gone already.
	Missing Reason = "Missing"
)

// The reasons to refuse a request.
const (
	// WouldReplace: the Machine is one of those that the group should have, so another one would be made.
	WouldReplace Reason = "WouldReplace"
	// WouldSurge: the group has all its Machines, so another one would go.
	WouldSurge Reason = "WouldSurge"
)

// Decide answers a request.
//
// While the desired number of replicas stays, and nobody asks otherwise, no sequence of allowed requests replaces a Machine: Machines
// go only while there are too many, and come only while there are too few. One request of a kind never leads to the other.
func Decide(r Request) Verdict {
	switch {
	case !r.Guarded:
		return allow(NotGuarded)
	case r.ClusterGone:
		return allow(ClusterGone)
	case !r.Group.Exists():
		return allow(NoGroup)
	case r.Group.Deleting:
		return allow(GroupDeleting)
	case r.Operation == Delete:
		return decideDelete(r)
	default:
		return decideCreate(r)
	}
}

// DecideAlone answers the requests that are allowed whatever group and policy say; of others, it says that it cannot.
func DecideAlone(operation Operation, m Machine) (verdict Verdict, ok bool) {
	switch {
	case operation != Delete:
		return Verdict{}, false
	case m.Deleting:
		return allow(AlreadyDeleting), true
	case m.Moving:
		return allow(Moving), true
	case m.Remediating:
		return allow(Remediation), true
	case m.Replaceable:
		return allow(ReplacementAllowed), true
	default:
		return Verdict{}, false
	}
}

func decideDelete(r Request) Verdict {
	if verdict, ok := DecideAlone(r.Operation, r.Machine); ok {
		return verdict
	}
	// For each Machine that may be replaced, one more may be there than is desired. That one is not there to have another Machine
	// deleted for it.
	surplus := r.Group.Machines - r.Group.Desired
	switch {
	case surplus > r.Group.Replaceable:
		return allow(Surplus)
	case surplus > 0:
		return Verdict{Reason: WouldReplace, Message: wouldReplaceAnother(r)}
	default:
		return Verdict{Reason: WouldReplace, Message: wouldReplace(r)}
	}
}

func decideCreate(r Request) Verdict {
	switch {
	case r.Group.Machines < r.Group.Desired:
		return allow(Missing)
	case r.Group.Machines < r.Group.Desired+r.Group.Replaceable:
		// A control plane with maxSurge 1 makes the successor first.
		return allow(ReplacementAllowed)
	default:
		return Verdict{Reason: WouldSurge, Message: wouldSurge(r)}
	}
}

func allow(reason Reason) Verdict { return Verdict{Allowed: true, Reason: reason} }

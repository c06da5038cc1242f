package request

import (
	"fmt"
	"time"

	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/record"
	"github.com/windlass-dev/windlass/pkg/version"
)

// Reason is why an upgrade waits, or why it is refused or has failed.
type Reason string

// The reasons besides those of package inplace.
const (
	// ReasonBadOption: the annotation cannot be read.
	ReasonBadOption Reason = "BadOption"
	// ReasonTopologyOwned: the object belongs to a Cluster with a topology, which says which minor it has.
	ReasonTopologyOwned Reason = "TopologyOwned"
	// ReasonDowngrade: the option is of an older minor than what the machine runs.
	ReasonDowngrade Reason = "Downgrade"
	// ReasonSkew: the version would be too far from that of other machines of the cluster.
	ReasonSkew Reason = "Skew"
	// ReasonNoUpdater: no Updater makes the change.
	ReasonNoUpdater Reason = "NoUpdater"
	// ReasonRecordUnreadable: what is recorded of the upgrade cannot be used.
	ReasonRecordUnreadable Reason = "RecordUnreadable"
	// ReasonUnknownRecord: a newer release has recorded an option or a phase that this one does not know.
	ReasonUnknownRecord Reason = "UnknownRecord"
	// ReasonPaused: the object or its Cluster is paused.
	ReasonPaused Reason = "Paused"
	// ReasonRemediating: the machine is up for remediation.
	ReasonRemediating Reason = "Remediating"
	// ReasonBusy: Cluster API updates the machine, or rolls the group out.
	ReasonBusy Reason = "Busy"
	// ReasonControlPlaneFirst: the control plane is to be upgraded before workers.
	ReasonControlPlaneFirst Reason = "ControlPlaneFirst"
	// ReasonLocked: another machine of the control plane is being upgraded.
	ReasonLocked Reason = "Locked"
	// ReasonControlPlaneUnhealthy: another machine of the control plane is not Ready.
	ReasonControlPlaneUnhealthy Reason = "ControlPlaneUnhealthy"
	// ReasonEtcdUnhealthy: etcd is not healthy apart from the machine itself.
	ReasonEtcdUnhealthy Reason = "EtcdUnhealthy"
	// ReasonFailed: no attempt is left; of a group: a machine's upgrade has failed.
	ReasonFailed Reason = "UpgradeFailed"
	// ReasonCancelled: the annotation was removed, and the change that runs is followed to its end.
	ReasonCancelled Reason = "Cancelled"
	// ReasonMachines: machines of the group are being upgraded.
	ReasonMachines Reason = "UpgradingMachines"
	// ReasonWriteRefused: the API server refuses a write that comes before the next step, by a quota, a
	// webhook or a limit.
	ReasonWriteRefused Reason = "WriteRefused"
	// ReasonMachinesHeld: the machines that are left cannot be upgraded now.
	ReasonMachinesHeld Reason = "MachinesHeld"
)

// Status is the value of the status annotation.
type Status string

// The statuses; empty means that there is none.
const (
	InProgress Status = "in-progress"
	Done       Status = "done"
	Failed     Status = "failed"
)

// Marks are the annotations of the wire format that an object carries; what is empty is not there.
type Marks struct {
	To       string
	Status   Status
	Release  string
	ChangeID string
	// LastFailed is written for people. Nothing is decided by it.
	LastFailed string
}

// Upgrade is what is recorded on a Machine of its upgrade, from before the first effect.
type Upgrade struct {
	// Option is what is carried out. The annotation may ask for something else by now.
	Option string `json:"option" record:"key"`
	// Progress is how far it has come; nil where it was refused before anything was done.
	Progress *inplace.Progress `json:"progress,omitempty"`
	// Reason and Message say why it was refused, and At when.
	Reason  Reason    `json:"reason,omitempty"`
	Message string    `json:"message,omitempty"`
	At      time.Time `json:"at,omitzero"`
	// Cordoned says that an upgrade which this one took the place of has cordoned the node, which could not be asked when this one was refused.
	Cordoned bool `json:"cordoned,omitempty"`
	// Protected is Cordoned for the cluster autoscaler's annotation on the node, which every update sets.
	Protected bool `json:"protected,omitempty"`
	// Cancelled says that the annotation was removed and an Event has said so.
	Cancelled bool `json:"cancelled,omitempty"`
}

// at returns u as it counts at the time now; see inplace.Progress.At. u may be nil.
func (u *Upgrade) at(now time.Time) *Upgrade {
	if u == nil {
		return nil
	}
	at := *u
	at.Progress, at.At = u.Progress.At(now), record.Past(u.At, now)
	if at == *u {
		return u
	}
	return &at
}

// IsFinal reports whether the upgrade was refused or has failed finally: nothing happens until a person acts.
func (u *Upgrade) IsFinal() bool {
	return u != nil && (u.Progress == nil || u.Progress.Phase == inplace.Failed)
}

// IsRunning reports whether something may be happening on the machine: also after a failure, where an attempt ended with its time, and its change was never
// seen to end.
func (u *Upgrade) IsRunning() bool {
	return u != nil && (!u.IsFinal() || u.isUnended())
}

// unknown names what a newer release has recorded of an upgrade that runs and this one does not know; empty for nothing.
func (u *Upgrade) unknown() string {
	switch {
	case !u.IsRunning():
		return ""
	case isUnknown(u.Option):
		return fmt.Sprintf("option %q", u.Option)
	case u.Progress.IsUnknown():
		return fmt.Sprintf("phase %q", u.Progress.Phase)
	}
	return ""
}

// isUnended reports whether no attempt is under way, and the change of the last one may still run.
func (u *Upgrade) isUnended() bool {
	if u.Progress == nil || !u.Progress.Unended || len(u.Progress.Steps) == 0 {
		return false
	}
	return u.Progress.Phase == inplace.Draining || u.Progress.Phase == inplace.BackingOff || u.Progress.Phase == inplace.Failed
}

// hasCordoned reports whether the upgrade, or one before it, has cordoned the node.
func (u *Upgrade) hasCordoned() bool {
	return u != nil && (u.Cordoned || u.Progress != nil && u.Progress.Cordoned)
}

// hasProtected reports whether the upgrade, or one before it, may have kept the cluster autoscaler from removing
// the node. The node has a marker if it has.
func (u *Upgrade) hasProtected() bool { return u != nil && (u.Protected || u.Progress != nil) }

// endedAt is since when a final upgrade has been final, and of another one since when it is in its phase.
func (u *Upgrade) endedAt() time.Time {
	if u.Progress != nil {
		return u.Progress.Started
	}
	return u.At
}

// Why says why a final upgrade ended.
func (u *Upgrade) Why() string {
	if u.Progress != nil {
		return u.Progress.LastError
	}
	return u.Message
}

// State is what people see of an upgrade in a condition; the zero State means that there is nothing to see.
type State struct {
	// Going says that the upgrade goes on by itself; otherwise a person has to act.
	Going   bool
	Reason  Reason
	Message string
}

// EventKind is a change of state that an Event tells of.
type EventKind int

// The kinds of Events.
const (
	NoEvent EventKind = iota
	Started
	Ended
	FailedFinally
	Cancelled
	// AttemptFailed: another attempt follows.
	AttemptFailed
)

// Event is a change of state. It is emitted once, after what it tells of was recorded.
type Event struct {
	Kind    EventKind
	Message string
}

// Peer is another machine of the control plane.
type Peer struct {
	Name    string
	Kubelet version.Version
	// NotReady says why the node is not Ready; empty if it is.
	NotReady string
	// Busy says that the machine is being upgraded, updated or deleted; empty if it is not.
	Busy string
}

// Topology is the topology that an object belongs to; zero for none.
type Topology struct {
	// Cluster is the name of the Cluster, and Version what its topology asks for; zero if that cannot be read.
	Cluster string
	Version version.Version
	// Stuck says why the object is a control plane, or a machine of one, that Cluster API cannot bring to the
	// version of its spec, and what to do; empty if it can. It counts without a topology, too.
	Stuck string
}

// Machine is what DecideMachine decides on.
type Machine struct {
	// Now is the time, and FreshID an id that nobody has used yet.
	Now     time.Time
	FreshID string
	Name    string
	Marks   Marks
	Upgrade *Upgrade
	// Unreadable says why the recorded upgrade cannot be read; empty if it can.
	Unreadable string
	// Retry says that a person asked for another try.
	Retry            bool
	Paused, Deleting bool
	// ClusterPaused is set while the whole Cluster is paused, as `clusterctl move` pauses it.
	ClusterPaused bool
	// Remediation says which remediation of the machine is asked for or under way; empty for none. What the failure of the recorded
	// upgrade handed over does not count.
	Remediation string
	// Busy says what Cluster API does to the machine; empty for nothing.
	Busy string
	// Spec is the version of the Machine's spec.
	Spec         version.Version
	Topology     Topology
	ControlPlane bool
	Node         inplace.Node
	// Policy is what counts, and PolicyName its name, which is recorded when the upgrade begins; empty for none.
	Policy     policy.Policy
	PolicyName string
	// Peers are the other machines of the control plane; for a worker, all of them, or the control plane itself where it has no machines.
	Peers []Peer
	// OldestWorker is the oldest kubelet among the workers; zero if there are none. It counts for a control plane Machine.
	OldestWorker version.Version
	// Etcd says what is wrong with etcd apart from this machine's member; empty for nothing. It counts for a control plane Machine.
	Etcd string
	// OwnEtcd says what is wrong with this machine's own etcd member; empty for nothing, and where it has none.
	OwnEtcd string
	// ControlPlaneFirst says, for a worker, which upgrade of the control plane is under way or asked for; empty for none.
	ControlPlaneFirst string
	// Holder is the name of the machine that holds the control plane's lock; empty if nobody does.
	Holder string
}

// Plan is how an option can be carried out.
type Plan struct {
	// Steps are the updaters that bring the machine there.
	Steps []inplace.Step
	// Refused says why no updater does; Unknown, why that cannot be told now. At most one of the two is set.
	Refused, Unknown string
}

// Recorded is what an object has on record: an Upgrade of a machine, or a Record of a group.
type Recorded[R Upgrade | Record] struct {
	Marks  Marks
	Record *R
	// Retry says that a person asked for another try.
	Retry bool
}

// MachineVerdict is what happens next to a machine.
type MachineVerdict struct {
	// After must be recorded before the action is carried out, if it differs from the facts.
	After  Recorded[Upgrade]
	Event  Event
	State  State
	Action Action
	// Unchanged says of an upgrade that ends that no updater was asked for it.
	Unchanged bool
}

// Action is what to do next.
//
//sumtype:decl
type Action interface{ action() }

type (
	// Rest ends the reconcile: the next one comes with the next change of the object.
	Rest struct{}
	// Wait ends the reconcile and says when the next one is due; 0 means at once.
	Wait struct{ After time.Duration }
	// Ask finds out which updaters carry Option out. Planned takes the answer.
	Ask struct{ Option Option }
	// TakeLock takes the control plane's lock for the machine, and decides again. Precondition: nobody holds it, or
	// who holds it does not exist any longer.
	TakeLock struct{}
	// ReleaseLock releases the control plane's lock, if the machine still holds it.
	ReleaseLock struct{}
	// Run has the engine carry the recorded upgrade on. Carried, Finished and Refused return what that records.
	Run struct{}
	// Follow asks an updater how a change goes on that nobody wants any longer. Nothing may begin. Followed takes the
	// answer.
	Follow struct {
		inplace.Call
		// Unheard says that the updater was not heard of at the end of the operation's time, so that it may not know of
		// it.
		Unheard bool
	}
	// Uncordon makes the node schedulable again, and decides again.
	Uncordon struct{}
	// EnableScaleDown lets the cluster autoscaler remove the node again. DecideMachine is next.
	EnableScaleDown struct{}
)

func (Rest) action()            {}
func (Wait) action()            {}
func (Ask) action()             {}
func (TakeLock) action()        {}
func (ReleaseLock) action()     {}
func (Run) action()             {}
func (Follow) action()          {}
func (Uncordon) action()        {}
func (EnableScaleDown) action() {}

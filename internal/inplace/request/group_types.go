package request

import (
	"fmt"
	"reflect"
	"time"

	"github.com/windlass-dev/windlass/internal/record"
	"github.com/windlass-dev/windlass/pkg/version"
)

// Record is what is recorded on a group, from before its first machine is marked until the next upgrade.
type Record struct {
	// Option is what the group's machines are brought to.
	Option string `json:"option" record:"key"`
	// Superseded are the options that machines may still have been given by this group, the newest last.
	Superseded []string  `json:"superseded,omitempty"`
	Began      time.Time `json:"began" record:"key"`
	// Reason and Message say why the upgrade was refused or has failed; empty while it goes on, and after it has ended well.
	Reason  Reason `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Refused says that the group itself was refused, not one of its machines.
	Refused bool `json:"refused,omitempty"`
	// Remediated is the machine whose failure stopped the upgrade and that was handed to remediation; empty for none. No further
	// machine begins until a person asks for another try, also when the failed Machine is gone: an option that fails everywhere
	// would have one machine replaced after the other.
	Remediated string `json:"remediated,omitempty"`
	// RetryAsked is when a person last asked for another try: machines that had failed before are tried again.
	RetryAsked *time.Time `json:"retryAsked,omitempty"`
	// Previous is the record of the upgrade that ended well before this one was refused.
	Previous *Record `json:"previous,omitempty"`
	// Ended is when the upgrade ended well; Version what the machines then ran, and Spec the version of the group's spec at that time. A group whose spec
	// has changed since gives its release to no machine.
	Ended   *time.Time      `json:"ended,omitempty"`
	Version version.Version `json:"version,omitzero"`
	Spec    version.Version `json:"spec,omitzero"`
}

// recorded is the record as it counts now. Nothing is written on a group that is being deleted.
func (f Group) recorded() *Record {
	if f.Deleting {
		return f.Record
	}
	return f.Record.at(f.Now)
}

// at returns r as it counts at the time now: no time in it is after now, for a clock that was ahead
// when r was recorded. It returns r itself where that changes nothing. r may be nil.
func (r *Record) at(now time.Time) *Record {
	if r == nil {
		return nil
	}
	at := *r
	at.Began, at.Previous = record.Past(r.Began, now), r.Previous.at(now)
	at.RetryAsked, at.Ended = record.PastOf(r.RetryAsked, now), record.PastOf(r.Ended, now)
	if reflect.DeepEqual(&at, r) {
		return r
	}
	return &at
}

// Member is a machine of a group.
type Member struct {
	Name    string
	Created time.Time
	Marks   Marks
	Upgrade *Upgrade
	// Deleting says that the machine goes. Such a machine does not count.
	Deleting bool
	// Held says why the machine must be left alone; empty if it need not. Updating says that this is because Cluster API updates it.
	Held     string
	Updating bool
	// Remediation says which remediation of the machine is asked for or under way; empty for none.
	Remediation string
	// NotReady says why the node is not Ready; empty if it is. A machine without a node has NoNode.
	NotReady string
	NoNode   bool
	// Kubelet is the version that the kubelet last reported. KubeletUnknown says why that is not known of
	// a machine of which it must be; empty if it is, or need not be yet.
	Kubelet        version.Version
	KubeletUnknown string
	// Unchanged says that the machine had its release already: no updater was asked to bring it there.
	Unchanged bool
	Spec      version.Version
}

// Group is what DecideGroup decides on: a MachineDeployment or a control plane.
type Group struct {
	Now          time.Time
	ControlPlane bool
	Marks        Marks
	Record       *Record
	// Unreadable says why the record cannot be read; empty if it can.
	Unreadable string
	// Retry says that a person asked for another try.
	Retry            bool
	Paused, Deleting bool
	// Spec is the version of the group's spec.
	Spec     version.Version
	Topology Topology
	// Members are all machines of the group, whatever MachineSet they are of, in any order.
	Members []Member
	// Replicas is how many machines the group should have.
	Replicas int
	// MaxInFlight is how many machines are upgraded at once, at least 1. A control plane upgrades one, whatever it says.
	MaxInFlight int
	// Canary is how many machines are upgraded at once until one of them has the release; 0 means that
	// MaxInFlight is the only limit.
	Canary int
	// ControlPlaneFirst says, for workers, which upgrade of the control plane is under way or asked for; empty for none.
	ControlPlaneFirst string
	// CannotRaise says why the version of the group's spec cannot be raised without machines being replaced; empty if it can.
	CannotRaise string
}

// Recorded returns what is recorded.
func (f Group) Recorded() Recorded[Record] {
	return Recorded[Record]{Marks: f.Marks, Record: f.Record, Retry: f.Retry}
}

// GroupVerdict is what happens next to a group.
type GroupVerdict struct {
	// Kubelets says that it was decided by what the machines run, so that must be read from their nodes.
	Kubelets bool
	// ForgetKubelets says that what was noted of that must be forgotten before After is recorded.
	ForgetKubelets bool
	// After must be recorded before the action is carried out, if it differs from the facts.
	After  Recorded[Record]
	Event  Event
	State  State
	Action GroupAction
}

// GroupAction is what to do next. Mark, Unmark, RetryMember and Raise are followed by another reconcile at once.
//
//sumtype:decl
type GroupAction interface{ groupAction() }

type (
	// Mark has a machine upgraded to an option: what an earlier upgrade left on it goes.
	Mark struct{ Member, To string }
	// Unmark withdraws that, if the machine is still marked for the option.
	Unmark struct{ Member, To string }
	// RetryMember asks for another try of a machine.
	RetryMember struct{ Member string }
	// Raise sets the version of the group's spec. Precondition: all machines run it, and none is replaced for it.
	Raise struct{ Version version.Version }
)

func (Rest) groupAction()        {}
func (Wait) groupAction()        {}
func (Mark) groupAction()        {}
func (Unmark) groupAction()      {}
func (RetryMember) groupAction() {}
func (Raise) groupAction()       {}

// machines counts machines in words.
func machines(n int) string {
	if n == 1 {
		return "1 machine"
	}
	return fmt.Sprintf("%d machines", n)
}

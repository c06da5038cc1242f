package status

import (
	"time"

	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/inplace/request"
	"github.com/windlass-dev/windlass/internal/text"
)

// InPlaceUpgrades are the upgrades in place that annotations ask for, and what is known of those that have ended.
type InPlaceUpgrades struct {
	// Groups are the groups with such annotations, the control plane first, then the MachineDeployments by name.
	Groups text.List[GroupUpgrade] `json:"groups"`
	// Machines are the Machines with such annotations, by group, then by name. A Machine of no group has an empty one, and comes last.
	Machines text.List[MachineUpgrade] `json:"machines"`
	// Lock is the control plane's lock, while somebody holds it; nil otherwise.
	Lock *Lock `json:"lock,omitempty"`
}

// UpgradeState is where an upgrade that an annotation asks for is.
type UpgradeState string

// The states.
const (
	// UpgradeIdle: nothing is asked for, and nothing goes on.
	UpgradeIdle UpgradeState = "Idle"
	// UpgradeAsked: the annotation is there, and nothing shows that anybody has looked at it.
	UpgradeAsked UpgradeState = "Asked"
	// UpgradeHeld: it waits for something.
	UpgradeHeld UpgradeState = "Held"
	// UpgradeRunning: it is under way.
	UpgradeRunning UpgradeState = "Upgrading"
	// UpgradeCancelling: the annotation was removed, and what runs is followed to its end.
	UpgradeCancelling UpgradeState = "Cancelling"
	// UpgradeFailed: it has failed finally, or was refused; a person has to act.
	UpgradeFailed UpgradeState = "Failed"
	// UpgradeUnreadable: what is recorded of it cannot be read.
	UpgradeUnreadable UpgradeState = "Unreadable"
	// UpgradeDone: it has ended well.
	UpgradeDone UpgradeState = "Done"
)

// IsOpen reports whether an upgrade goes on, or waits for somebody.
func (s UpgradeState) IsOpen() bool { return s != UpgradeIdle && s != UpgradeDone }

// Asking is what an object's annotations say, and what follows from them.
type Asking struct {
	State UpgradeState `json:"state"`
	// Option is what is carried out, and To what the annotation asks for: another one, where it was changed. Release is what is installed.
	Option  string `json:"option"`
	To      string `json:"to"`
	Release string `json:"release"`
	// Reason is one of the reasons of package request; Message says what is waited for, or why it has failed.
	Reason  request.Reason `json:"reason"`
	Message string         `json:"message"`
	// Retry says that a person has asked for another try, and nobody has begun it yet.
	Retry bool `json:"-"`
	// Told is since when the condition says so; zero where it says nothing.
	Told time.Time `json:"-"`
}

// GroupUpgrade is the upgrade of the machines of a group. Its JSON is a part of the stable interface of `windlass status` and `windlass upgrade`.
type GroupUpgrade struct {
	// Name is that of Group.
	Name   string `json:"group"`
	Kind   string `json:"kind"`
	Object string `json:"object"`
	Asking
	// Machines is how many machines the group has, or should have if that is more, without those that go. Of them Done have the option, InFlight are asked to
	// upgrade or do, and Failed have failed.
	Machines int `json:"machines"`
	Done     int `json:"done"`
	InFlight int `json:"inFlight"`
	Failed   int `json:"failed"`
	// Began and Ended are zero where nothing is recorded.
	Began time.Time `json:"began,omitzero"`
	Ended time.Time `json:"ended,omitzero"`
}

// MachineUpgrade is the upgrade of one Machine. Its JSON is as stable as that of GroupUpgrade.
type MachineUpgrade struct {
	Machine, Group string
	Asking
	// Work is what is recorded as progress of Option, as for other updates in place; zero where nothing is.
	Work Update
	// ByHand says that the Machine does not have its option from its group.
	ByHand bool
	// ChangeID is the id of the change that runs on the node, where there is one.
	ChangeID string
}

// machineUpgradeDocument is the JSON of a MachineUpgrade: of Work what the upgrade itself does not tell.
type machineUpgradeDocument struct {
	Machine string `json:"machine"`
	// Group is empty for a Machine of no group.
	Group string `json:"group"`
	// ByHand says that the Machine does not have its option from its group.
	ByHand bool `json:"byHand"`
	Asking
	// Phase is empty where nothing is recorded. Updater is at work, the Step-th of Steps.
	Phase   inplace.Phase `json:"phase"`
	Updater string        `json:"updater"`
	Step    int           `json:"step"`
	Steps   int           `json:"steps"`
	Attempt int           `json:"attempt"`
	// Operation is the id that updaters know the attempt by, and ChangeID that of the change on the node.
	Operation string `json:"operation"`
	ChangeID  string `json:"changeID"`
	// Began is when the upgrade began, Since when the attempt or phase did. NotBefore is when the next
	// attempt may start, and ETA when the upgrade should end.
	Began     time.Time `json:"began,omitzero"`
	Since     time.Time `json:"since,omitzero"`
	NotBefore time.Time `json:"notBefore,omitzero"`
	// LastError is why the last attempt failed, and Fix what a person can do about a drain.
	LastError string    `json:"lastError"`
	Fix       string    `json:"fix,omitempty"`
	ETA       time.Time `json:"eta,omitzero"`
}

// MarshalJSON implements json.Marshaler.
func (m MachineUpgrade) MarshalJSON() ([]byte, error) {
	w := m.Work
	return text.EncodeJSON(machineUpgradeDocument{
		m.Machine, m.Group, m.ByHand, m.Asking, w.Phase, w.Updater, w.Step, w.Steps, w.Attempt, w.Operation, m.ChangeID,
		w.Began, w.Since, w.NotBefore, w.LastError, w.Fix, w.At,
	})
}

// Lock is the lock that a control plane Machine holds while it is upgraded.
type Lock struct {
	// Machine is empty where the holder cannot be read; Problem says why.
	Machine string    `json:"machine"`
	Problem string    `json:"problem"`
	Since   time.Time `json:"since,omitzero"`
}

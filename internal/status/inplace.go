package status

import (
	"time"

	"github.com/windlass-dev/windlass/internal/inplace/request"
)

// InPlaceUpgrades are the upgrades in place that annotations ask for, and what is known of those that have ended.
type InPlaceUpgrades struct {
	// Groups are the groups with such annotations, the control plane first, then the MachineDeployments by name.
	Groups []GroupUpgrade
	// Machines are the Machines with such annotations, by group, then by name. A Machine of no group has an empty one, and comes last.
	Machines []MachineUpgrade
	// Lock is the control plane's lock, while somebody holds it; nil otherwise.
	Lock *Lock
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
	State UpgradeState
	// To is what the annotation asks for, and Option what is carried out: the annotation may ask for something else by now. Release is what is installed.
	To, Option, Release string
	// Retry says that a person has asked for another try, and nobody has begun it yet.
	Retry bool
	// Reason is one of the reasons of package annotated; Message says what is waited for, or why it has failed.
	Reason  request.Reason
	Message string
	// Told is since when the condition says so; zero where it says nothing.
	Told time.Time
}

// GroupUpgrade is the upgrade of the machines of a group.
type GroupUpgrade struct {
	// Name is that of Group.
	Name, Kind, Object string
	Asking
	// Machines is how many machines the group has, or should have if that is more, without those that go. Of them Done have the option, InFlight are asked to
	// upgrade or do, and Failed have failed.
	Machines, Done, InFlight, Failed int
	// Began and Ended are zero where nothing is recorded.
	Began, Ended time.Time
}

// MachineUpgrade is the upgrade of one Machine.
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

// Lock is the lock that a control plane Machine holds while it is upgraded.
type Lock struct {
	// Machine is empty where the holder cannot be read; Problem says why.
	Machine, Problem string
	Since            time.Time
}

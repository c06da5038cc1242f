package changereport

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windlass-dev/windlass/internal/gate"
	"github.com/windlass-dev/windlass/internal/status"
	"github.com/windlass-dev/windlass/internal/text"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// Facts are what a report is made from. Those of an upgrade have the gates of the Cluster's namespace.
type Facts struct {
	status.Facts
	// Warnings are the Events of type Warning of the Cluster's namespace, in any order.
	Warnings []corev1.Event
	// Unread says, in sentences without capital and full stop, what could not be read.
	Unread []string
}

// Report is the upgrade of a Cluster that is under way, or else the last one that is recorded.
//
// Its JSON, and that of all that it contains, is the stable interface of `windlass report -o json` and
// `-o yaml`. Fields are never renamed or removed; lists are never null. Times are RFC 3339 in UTC; those
// that are not recorded are left out. Versions that are not known are empty.
type Report struct {
	Namespace string `json:"namespace"`
	Cluster   string `json:"cluster"`
	// Time is when the objects were read, to the second.
	Time time.Time `json:"time"`
	// Upgrade is nil where none is under way and none is recorded.
	Upgrade *Upgrade `json:"upgrade,omitempty"`
	// Steps are in the order in which they come.
	Steps text.List[Step] `json:"steps"`
	// Gates are the steps at gates, by when they were held or approved.
	Gates text.List[Gate] `json:"gates"`
	// Groups are the control plane first, then the MachineDeployments by name; Machines by group, then by
	// name.
	Groups   text.List[Group]   `json:"groups"`
	Machines text.List[Machine] `json:"machines"`
	// ByAnnotation are the upgrades in place that annotations on groups ask for.
	ByAnnotation text.List[status.GroupUpgrade] `json:"inPlaceUpgrades"`
	Failures     text.List[Failure]             `json:"failures"`
	// NotRecorded says, in sentences without capital and full stop, what a reader must not conclude.
	NotRecorded text.List[string] `json:"notRecorded"`
	// Evidence says where each part comes from, and who could have changed it.
	Evidence text.List[Evidence] `json:"evidence"`
}

// State is what an upgrade is at.
type State string

// The states.
const (
	// Running: it is under way.
	Running State = "Running"
	// Held: it is under way, and waits for somebody.
	Held State = "Held"
	// Ended: AfterClusterUpgrade let it pass.
	Ended State = "Ended"
)

// Upgrade is one upgrade of a Cluster with a managed topology.
type Upgrade struct {
	State  State           `json:"state"`
	Engine status.Engine   `json:"engine"`
	From   version.Version `json:"from"`
	Target version.Version `json:"target"`
	Began  time.Time       `json:"began,omitzero"`
	Ended  time.Time       `json:"ended,omitzero"`
	// Planned is when the recorded plan was made; zero where no plan is recorded.
	Planned time.Time `json:"planned,omitzero"`
	// Now, Holds and ETA are those of windlass status; empty for an upgrade that has ended.
	Now   string                 `json:"now"`
	Holds text.List[status.Hold] `json:"heldBy"`
	ETA   status.Estimate        `json:"eta"`
}

// Plan says what is known of the plan of a step.
type Plan string

// The plans of a step.
const (
	// Planned: the recorded plan has the step.
	Planned Plan = "Planned"
	// Computed: no plan is recorded that could have the step; the rules have it for what is left.
	Computed Plan = "Computed"
	// Unplanned: the recorded plan, which is older than the step, does not have it.
	Unplanned Plan = "Unplanned"
	// NotRecorded: no plan is recorded that could have the step.
	NotRecorded Plan = "NotRecorded"
)

// NotMade is the state of a step that was planned for an upgrade that has ended, and of which nothing is
// recorded.
const NotMade status.StepState = "NotMade"

// Step is a step of an upgrade, planned or made.
type Step struct {
	Operation plan.OperationKind `json:"operation"`
	Plan      Plan               `json:"plan"`
	State     status.StepState   `json:"state"`
	From      version.Version    `json:"from"`
	To        version.Version    `json:"to"`
	// Groups, Updated and Machines are those of windlass status: which groups took part in a step that is
	// done is not recorded.
	Groups   text.List[string] `json:"groups"`
	Updated  int               `json:"updated"`
	Machines int               `json:"machines"`
	// Ended is when the hook that follows the step let the upgrade continue, so that waiting at a gate
	// there is part of the step.
	Began time.Time `json:"began,omitzero"`
	Ended time.Time `json:"ended,omitzero"`
}

// GateState is what a step at a gate is at.
type GateState string

// The states of a step at a gate.
const (
	// GateHolds: the Cluster waits there.
	GateHolds GateState = "Holds"
	// GatePassed: the Cluster waited there, and the gate let it pass.
	GatePassed GateState = "Passed"
	// GateApproved: it is approved, and it is not recorded that the gate held it.
	GateApproved GateState = "Approved"
)

// Gate is a step of the upgrade at a gate.
type Gate struct {
	Gate    string          `json:"gate"`
	At      gate.Hook       `json:"at"`
	Version version.Version `json:"version"`
	State   GateState       `json:"state"`
	// Since is from when the gate held it, Passed when it let it pass.
	Since  time.Time `json:"since,omitzero"`
	Passed time.Time `json:"passed,omitzero"`
	// Message is what a gate that holds waits for.
	Message  string    `json:"message"`
	Approval *Approval `json:"approval,omitempty"`
}

// Approval is who approved a step, as Evidence qualifies it.
type Approval struct {
	// By is empty where no name is recorded.
	By   string    `json:"by"`
	Time time.Time `json:"time,omitzero"`
	// Outdated says that the gate was changed afterwards, so that the approval does not count.
	Outdated bool `json:"outdated"`
}

// Way is how a machine came to what it is in the upgrade.
type Way string

// The ways.
const (
	// InPlace: it was updated in place, or is being updated.
	InPlace Way = "InPlace"
	// Created: its Machine was created during the upgrade.
	Created Way = "Created"
	// Untouched: neither is recorded for this upgrade.
	Untouched Way = "Untouched"
)

// Machine is a Machine that exists.
type Machine struct {
	Machine string       `json:"machine"`
	Group   string       `json:"group"`
	Way     Way          `json:"way"`
	State   status.State `json:"state"`
	// From is known for updates in place only. To is the version that the Machine's spec has, or that the
	// update leads to.
	From    version.Version `json:"from"`
	To      version.Version `json:"to"`
	Created time.Time       `json:"created,omitzero"`
	// Began and Ended are those of the update in place; of a Machine that was created, its creation and
	// since when it has been Ready without a break.
	Began time.Time `json:"began,omitzero"`
	Ended time.Time `json:"ended,omitzero"`
	// Updaters are the steps of the update that are done. Attempts counts those of all updaters.
	Updaters text.List[Updater] `json:"updaters"`
	Attempts int                `json:"attempts"`
	// Error is why the last attempt of an update under way failed.
	Error string `json:"error"`
}

// Updater is the part of one updater in the update of a machine.
type Updater struct {
	Updater  string `json:"updater"`
	Attempts int    `json:"attempts"`
	Seconds  int64  `json:"seconds"`
}

// Group counts the machines of a group.
type Group struct {
	Group    string `json:"group"`
	Machines int    `json:"machines"`
	// InPlace, Created and Untouched add up to Machines. Failed have failed finally; Retried needed more
	// than one attempt of an updater.
	InPlace   int `json:"inPlace"`
	Created   int `json:"created"`
	Untouched int `json:"untouched"`
	Failed    int `json:"failed"`
	Retried   int `json:"retried"`
	// Began is the first Began of its machines; Ended the last Ended, zero while one has none.
	Began time.Time `json:"began,omitzero"`
	Ended time.Time `json:"ended,omitzero"`
	// Median and Longest are of the machines that have both times; 0 where none has. Of an even number of
	// machines, Median is the upper one in the middle.
	Median  status.Seconds `json:"medianSeconds"`
	Longest status.Seconds `json:"longestSeconds"`
}

// FailureSource is what tells of a failure.
type FailureSource string

// The sources of failures.
const (
	// FromUpdate: the record of an update in place.
	FromUpdate FailureSource = "Update"
	// FromCondition: a condition of an object.
	FromCondition FailureSource = "Condition"
	// FromEvent: an Event.
	FromEvent FailureSource = "Event"
)

// Failure is something that went wrong, for all objects that tell the same.
type Failure struct {
	Source FailureSource `json:"source"`
	Kind   string        `json:"kind"`
	// Objects are the names of at most maxNames objects, of Count.
	Objects text.List[string] `json:"objects"`
	Count   int               `json:"count"`
	Reason  string            `json:"reason"`
	// Message is that of one of the objects; the others have their own name in it.
	Message string `json:"message"`
	// Times is how often Events tell of it; 0 for other sources. First and Last are when.
	Times int32     `json:"times"`
	First time.Time `json:"first,omitzero"`
	Last  time.Time `json:"last,omitzero"`
}

// Evidence says where a part of the report comes from.
type Evidence struct {
	Part   string `json:"part"`
	Source string `json:"source"`
	// Trust names who could have written something else.
	Trust string `json:"trust"`
}

package chain

import (
	"time"

	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// Decision says what happens now, and what every object of the topology should be like.
type Decision struct {
	Action Action
	// Objects says which version each object has in the desired state, with the effect of Action in it.
	Objects Objects
	// Reason names why it is this action, Message says it to a person. Neither depends on the time.
	Reason  Reason
	Message string
	// Plan is the rest of the chain; it is empty when there is none, or no legal one (Reason is then NoPath).
	Plan plan.Plan
	// Groups says of each group where it stands, in the order of State.Groups.
	Groups []GroupStatus
}

// Objects is what the desired state looks like.
type Objects struct {
	// Leave says that no object is created or changed at all.
	Leave        bool
	ControlPlane Object
	// Groups stand in the order of State.Groups.
	Groups []Object
}

// Object is one object of the desired state.
type Object struct {
	// Name and Kind are those of the Group; empty for the control plane.
	Name    string
	Kind    plan.GroupKind
	Version version.Version
	// Hold says that the object is left alone: one that is to be upgraded gets no other change before, so that there is one rollout and
	// not two, and one that does not exist is not created yet.
	Hold bool
}

// Position is where a group stands in the chain.
type Position string

// The positions of a group.
const (
	// Done: it is at the target.
	Done Position = "Done"
	// Moving: its machines are on their way to the version of its template.
	Moving Position = "Moving"
	// Waiting: it has steps before it.
	Waiting Position = "Waiting"
	// Deferred: it is kept back by an annotation, of its own or of a group before it, although it is its turn.
	Deferred Position = "Deferred"
	// ToCreate: it will be created when the control plane is at the target.
	ToCreate Position = "ToCreate"
	// Leaving: its object is being deleted.
	Leaving Position = "Leaving"
)

// GroupStatus is where a group stands and which stops it has before it.
type GroupStatus struct {
	Name     string
	Kind     plan.GroupKind
	Position Position
	// Version is what its template asks for, with the effect of the Action.
	Version  version.Version
	Upgrades []version.Version
}

// Action is what is done now: one of the types of this package that have "Action" in their comment. Records that are part of an
// action are written after its effect, except where the action says otherwise.
type Action interface{ action() }

// Wait is the Action of doing nothing.
type Wait struct {
	// Until is when to decide again; zero means when something changes.
	Until time.Time
}

// Create is the Action of creating the topology's objects for the first time.
type Create struct{}

// CallHook is the Action of calling the extensions that are registered for a hook. When all let the Cluster pass, or there is none, Then is
// recorded. A crash between the two calls the hook again: extensions may see a call twice, but never none.
type CallHook struct {
	Hook Hook
	// Step is the version that the call is about; zero for hooks that are not about a version.
	Step version.Version
	Then Record
}

// Note is the Action of recording something, without an effect.
type Note struct{ Record Record }

// RaiseControlPlane is the Action of setting the control plane's version. The intent is recorded already; Then follows.
type RaiseControlPlane struct {
	To version.Version
	// Stamp is ControlPlane.Stamp from then on; zero means To.
	Stamp version.Version
	Then  Record
}

// RaiseWorkers is the Action of setting the version of groups.
type RaiseWorkers struct {
	To version.Version
	// Groups are the names of the groups, in their order.
	Groups []string
}

func (Wait) action()              {}
func (Create) action()            {}
func (CallHook) action()          {}
func (Note) action()              {}
func (RaiseControlPlane) action() {}
func (RaiseWorkers) action()      {}

// Record is a change of what is recorded on the Cluster. It is written in one request, so all of it holds or none.
type Record struct {
	// Add and Remove change the pending hooks.
	Add, Remove []Hook
	// Intent replaces the announced control plane step; ClearIntent removes it.
	Intent      *Intent
	ClearIntent bool
	// ChainTarget replaces the target of the upgrade under way; ClearChainTarget removes it.
	// ChainGeneration is the Cluster's generation that ChainTarget was read from.
	ChainTarget      version.Version
	ChainGeneration  int64
	ClearChainTarget bool
	// Lacked is that of the step for which BeforeWorkersUpgrade is removed.
	Lacked map[string]int32
	// InsteadOf is the version of the step that was taken back for this one; zero for none.
	InsteadOf version.Version
	// OKToDelete lets the Cluster go.
	OKToDelete bool
}

// Reason names why a Decision is what it is. The names are stable.
type Reason string

// The reasons.
const (
	// UpToDate: everything is at the target, and nothing is pending.
	UpToDate Reason = "UpToDate"
	// Paused: the Cluster is.
	Paused Reason = "Paused"
	// DeletingCluster: it is going, and nothing is kept up.
	DeletingCluster Reason = "Deleting"
	// Creating: the topology is created for the first time.
	Creating Reason = "Creating"
	// CreatingGroups: groups that were added wait for their objects.
	CreatingGroups Reason = "CreatingGroups"
	// ControlPlaneProvisioning: the control plane has not reported a version yet.
	ControlPlaneProvisioning Reason = "ControlPlaneProvisioning"
	// ControlPlaneUpgrading: the control plane is on its way to the version of its spec.
	ControlPlaneUpgrading Reason = "ControlPlaneUpgrading"
	// NotTakenBack: the control plane's step can neither lead on nor be taken back.
	NotTakenBack Reason = "NotTakenBack"
	// ControlPlaneStep: the control plane begins its next step.
	ControlPlaneStep Reason = "ControlPlaneStep"
	// WorkersStep: groups begin their step.
	WorkersStep Reason = "WorkersStep"
	// WorkersUpgrading: groups are on their way.
	WorkersUpgrading Reason = "WorkersUpgrading"
	// WorkersShort: groups that this upgrade moved lack more machines than before, which could not join any more if the
	// control plane went on.
	WorkersShort Reason = "WorkersShort"
	// WorkersDeferred: only groups that annotations keep back are missing.
	WorkersDeferred Reason = "WorkersDeferred"
	// GroupsLeaving: a group that is being deleted would lag too far behind the control plane's next step.
	GroupsLeaving Reason = "GroupsLeaving"
	// HookDue: a hook is called.
	HookDue Reason = "HookDue"
	// HookBlocking: a hook asked to wait.
	HookBlocking Reason = "HookBlocking"
	// HookFailed: a hook could not be called, or refused.
	HookFailed Reason = "HookFailed"
	// BlockedByAnnotation: a before-upgrade annotation is on the Cluster.
	BlockedByAnnotation Reason = "BlockedByAnnotation"
	// Recording: what has happened is recorded.
	Recording Reason = "Recording"
	// NoPath: there is no legal chain from here to the target.
	NoPath Reason = "NoPath"
	// NoSource: what says where versions come from could not be had.
	NoSource Reason = "NoSource"
)

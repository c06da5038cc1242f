package status

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/chain"
	"github.com/windlass-dev/windlass/internal/text"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// UpgradeFacts are what the upgrade of a Cluster with a managed topology is read from, beside what Facts have for every Cluster.
type UpgradeFacts struct {
	// Source says where the versions of the plan come from. Where it is nil, SourceProblem says why it is not known.
	Source        plan.Source
	SourceProblem string
	// Gates are those of the Cluster's namespace.
	Gates []v1alpha1.UpgradeGate
	// Events are those that are about the Cluster.
	Events []corev1.Event
}

// RolloutFacts are what tells who changes the machines of MachineDeployments, and how far that is.
type RolloutFacts struct {
	// Engine is v1alpha1.EngineManager; empty with stock Cluster API, or if unknown.
	Engine string
	// SilentSince is when windlass manager last renewed its lease, if nobody holds that; zero otherwise.
	SilentSince time.Time
	// EngineSeen is when the core manager last renewed its lease; zero if that is unknown.
	EngineSeen time.Time
	// MachineSets are those of the Cluster. They also tell which Machines cannot be made or deleted.
	MachineSets []*clusterv1.MachineSet
}

// Chain is how the upgrade of a Cluster stands. Of hooks, that they are due is known from the rules, that they hold the Cluster only from
// what the controller says: nothing is called.
type Chain struct {
	State ChainState `json:"state"`
	// Problem says why nothing else is known; empty otherwise.
	Problem string `json:"problem"`
	Engine  Engine `json:"engine"`
	// EngineSeen is when that controller last renewed its lease; zero if that is unknown.
	EngineSeen time.Time `json:"engineSeen,omitzero"`
	// From is what the control plane had when the upgrade began, Began when that was. Both are zero where nobody has recorded it.
	From   version.Version `json:"from"`
	Target version.Version `json:"target"`
	Began  time.Time       `json:"began,omitzero"`
	// AtTarget of Machines have arrived at the target: their kubelets run it or a newer version, and they
	// are not in motion. Machines that are missing count as not there.
	AtTarget int `json:"machinesAtTarget"`
	Machines int `json:"machines"`
	// Reason and Now are what the rules of a chain say about this moment, whatever the controller does.
	Reason chain.Reason `json:"reason"`
	Now    string       `json:"now"`
	// Steps are what is done, then what is running, then what comes, in order.
	Steps text.List[Step] `json:"steps"`
	// PlanMade is when the plan was recorded that PlanChanges compare Steps with; zero if none is. They say
	// which stops have come, and which have gone, as sentences without capital and full stop.
	PlanMade    time.Time         `json:"planMade,omitzero"`
	PlanChanges text.List[string] `json:"planChanges"`
	Holds       text.List[Hold]   `json:"heldBy"`
	ETA         Estimate          `json:"eta"`
	// Condition is the Cluster's TopologyReconciled; nil where there is none. Disagreement says where it and the objects differ; empty if
	// they do not.
	Condition    *Condition `json:"condition,omitempty"`
	Disagreement string     `json:"disagreement"`
	// NotKnown says, in sentences without capital and full stop, what is unknown from the objects.
	NotKnown text.List[string] `json:"notKnown"`
	// OffSpec counts the machines that annotations brought to another version than their spec says, where nothing else is on its way.
	OffSpec int `json:"-"`
	// Brief reports whether Now usually lasts a second: no hook holds the upgrade, and the next thing to do is only about to begin.
	Brief bool `json:"-"`
}

// HasPlan reports whether Steps lead to Target. Without a plan, they are only those that are done or
// running.
func (c Chain) HasPlan() bool { return c.Reason != chain.NoPath && c.Reason != chain.NoSource }

// IsUnderWay reports whether there is an upgrade, also one that is held or paused.
func (c Chain) IsUnderWay() bool {
	switch c.State {
	case ChainUpgrading, ChainHeld:
		return true
	case ChainPaused:
		return len(c.Steps) > 0
	case ChainUpToDate, ChainCreating, ChainDeleting, ChainUnknown:
	}
	return false
}

// Condition is one of an object's conditions.
type Condition struct {
	Status  metav1.ConditionStatus `json:"status"`
	Reason  string                 `json:"reason"`
	Message string                 `json:"message"`
	Since   time.Time              `json:"since,omitzero"`
}

// ChainState is what the upgrade as a whole is at.
type ChainState string

// The states of an upgrade.
const (
	// ChainUpToDate: everything is at the target, and nothing is pending.
	ChainUpToDate ChainState = "UpToDate"
	// ChainUpgrading: there is something left to do.
	ChainUpgrading ChainState = "Upgrading"
	// ChainHeld: there is, but nothing moves until somebody lets it go on.
	ChainHeld ChainState = "Held"
	// ChainCreating, ChainDeleting, ChainPaused: it is not about an upgrade.
	ChainCreating ChainState = "Creating"
	ChainDeleting ChainState = "Deleting"
	ChainPaused   ChainState = "Paused"
	// ChainUnknown: the objects cannot be read; Problem says why.
	ChainUnknown ChainState = "Unknown"
)

// Engine is which controller carries an upgrade out, as far as its traces on the objects tell.
type Engine string

// The engines.
const (
	// Windlass records the way of an upgrade, and every group follows a plan of its own.
	Windlass Engine = "Windlass"
	// ClusterAPI is any other; all groups share one list of stops.
	ClusterAPI Engine = "ClusterAPI"
)

// StepState says whether a step is done.
type StepState string

// The states of a step.
const (
	StepDone    StepState = "Done"
	StepRunning StepState = "Running"
	StepNext    StepState = "Next"
)

// Step is one operation of an upgrade.
type Step struct {
	State StepState          `json:"state"`
	Kind  plan.OperationKind `json:"operation"`
	// Groups are all that stop at To, in the order in which they move: those that are there, those that
	// are on their way, and those that come. GroupKind is theirs, and empty if they are of both kinds.
	// Both are empty for the control plane, and for steps that are done: which groups took part is not
	// recorded.
	GroupKind plan.GroupKind    `json:"groupKind"`
	Groups    text.List[string] `json:"groups"`
	// From is zero where it is not known, and where groups come from different versions.
	From version.Version `json:"from"`
	To   version.Version `json:"to"`
	// Updated of Machines are at To. Both are 0 for a step that is done. A step of workers that comes has
	// Updated if groups are there, and none is on its way.
	Updated  int `json:"updated"`
	Machines int `json:"machines"`
	// Began and Ended are zero where they have not come, or are not known. A step ends when the hook that follows it lets the
	// upgrade continue.
	Began time.Time `json:"began,omitzero"`
	Ended time.Time `json:"ended,omitzero"`
}

// HoldKind says what sort of thing holds an upgrade.
type HoldKind string

// The kinds of holds.
const (
	HeldByHook       HoldKind = "Hook"
	HeldByGate       HoldKind = "UpgradeGate"
	HeldByAnnotation HoldKind = "Annotation"
	HeldByPause      HoldKind = "Pause"
	// HeldByRule: no legal step exists.
	HeldByRule HoldKind = "Rule"
	// HeldByMachines: machines are missing, or cannot be made or deleted.
	HeldByMachines HoldKind = "Machines"
	// HeldByFailure: the controller says that it failed.
	HeldByFailure HoldKind = "Failure"
)

// Hold is one thing that keeps an upgrade from continuing.
type Hold struct {
	Kind HoldKind `json:"kind"`
	// By names it: hooks, a gate, an annotation.
	By string `json:"by"`
	// Message is what it says itself.
	Message string `json:"message"`
	// Since is when it began; with AtEarliest it cannot have been before, but may have been later. Zero where it is not known.
	Since      time.Time `json:"since,omitzero"`
	AtEarliest bool      `json:"atEarliest"`
	// Approved says that a person has approved at the gate, which is to be asked again.
	Approved bool `json:"approved"`
}

// Estimate is how long the rest of an upgrade takes if it continues as its own finished steps went. It is no promise.
type Estimate struct {
	// Unknown says why there is none; empty where there is one.
	Unknown string
	// Least, Likely and Most are of all that was left at Since, by the shortest, mean and longest of the finished steps.
	Least, Likely, Most time.Duration
	// Since is the zero time while the upgrade is held: then they count from when it is let go.
	Since time.Time
}

// Known reports whether there is an estimate.
func (e Estimate) Known() bool { return e.Unknown == "" && e.Most > 0 }

// Window is when the upgrade should end; zero while that depends on who holds it.
func (e Estimate) Window() (earliest, latest time.Time) {
	if !e.Known() || e.Since.IsZero() {
		return time.Time{}, time.Time{}
	}
	return e.Since.Add(e.Least).UTC(), e.Since.Add(e.Most).UTC()
}

// estimateDocument is the JSON of an Estimate: the seconds that are left, and the times that follow from them.
type estimateDocument struct {
	// Known says that there is an estimate. Unknown says why there is none; it is empty also where nothing is left.
	Known   bool   `json:"known"`
	Unknown string `json:"unknown"`
	// Earliest and Latest are when the upgrade should end. They are left out while it is held.
	Earliest time.Time `json:"earliest,omitzero"`
	Latest   time.Time `json:"latest,omitzero"`
	// LeastSeconds, LikelySeconds and MostSeconds are by the shortest, mean and longest of the finished
	// steps. While the upgrade is held, they count from when it is let go.
	LeastSeconds  Seconds `json:"leastSeconds"`
	LikelySeconds Seconds `json:"likelySeconds"`
	MostSeconds   Seconds `json:"mostSeconds"`
}

// MarshalJSON implements json.Marshaler.
func (e Estimate) MarshalJSON() ([]byte, error) {
	earliest, latest := e.Window()
	return text.EncodeJSON(estimateDocument{e.Known(), e.Unknown, earliest, latest, Seconds{e.Least}, Seconds{e.Likely}, Seconds{e.Most}})
}

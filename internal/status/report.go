package status

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/snapshot"
	"github.com/windlass-dev/windlass/internal/text"
	"github.com/windlass-dev/windlass/pkg/version"
)

// Facts are the objects of one Cluster, in any order, and the UpdatePolicies of its namespace.
type Facts struct {
	// Objects has all Machines of the Cluster, which needs no topology.
	snapshot.Objects
	Policies []v1alpha1.UpdatePolicy
	// Prefix begins the keys of the annotations that ask for upgrades in place; empty means v1alpha1.DefaultInPlaceUpgradePrefix. Lock is the control
	// plane's lock; nil where it does not exist.
	Prefix string
	Lock   *corev1.ConfigMap
	// Upgrade is what the report on an upgrade needs besides; nil leaves that out.
	Upgrade *UpgradeFacts
	// Rollouts are zero if HasContext is false.
	Rollouts RolloutFacts
	// Around tells why an upgrade or a rollout does not continue.
	Around snapshot.Around
}

// HasContext reports whether more counts than the objects of the Cluster: it has a managed
// topology, or an UpdatePolicy may bound its rollouts.
func (f Facts) HasContext() bool { return f.Upgrade != nil || len(f.Policies) > 0 }

// Report is how the updates of a cluster stand. It holds points in time instead of durations, so that two reports of the
// same facts are equal but for what the passing of time itself changes: whether an update is late.
//
// Its JSON, and that of all that it contains, is the stable interface of `windlass status -o json` and `-o yaml`. Fields are never renamed or
// removed; lists are never null. Times are RFC 3339 in UTC; those that are not known are left out. Versions that are not known are empty.
type Report struct {
	Namespace string `json:"namespace"`
	Cluster   string `json:"cluster"`
	// ManagerSilentSince is when windlass manager last renewed its lease, if it drives the Cluster and
	// nobody holds the lease any more; zero otherwise.
	ManagerSilentSince time.Time `json:"managerSilentSince,omitzero"`
	// Chain is how the upgrade stands; nil for a Cluster without a managed topology, or where it was not asked for.
	Chain *Chain `json:"upgrade,omitempty"`
	// Groups are the control plane first, then the MachineDeployments by name.
	Groups text.List[Group] `json:"groups"`
	// Machines are all machines that belong to a group, by group, then by name.
	Machines text.List[Machine] `json:"machines"`
	// Updates are the machines under update, by group, then by name; those that wait for their turn are among them.
	Updates text.List[Update] `json:"updates"`
	// InPlace are the upgrades that annotations ask for; nil where there are none.
	InPlace *InPlaceUpgrades `json:"inPlaceUpgrades,omitempty"`
	// OffSpec are the Machines at rest that annotations brought to another version than their spec says, by group, then by name.
	OffSpec []OffSpec `json:"offSpec,omitempty"`
	// Deletions are the Machines whose deletion waits for something, by group, then by name.
	Deletions []Deletion `json:"deletions,omitempty"`
	// Blocked are the objects that say that an update of theirs does not continue by itself.
	Blocked text.List[Blocked] `json:"blocked"`
	// Dirty are the fields that Machines carry but that were not applied, by Machine, then by field.
	Dirty text.List[Dirty] `json:"dirtyFields"`
	// Durations are how long each updater took so far, by its name.
	Durations text.List[Duration] `json:"durations"`
	// Problems say which recorded values could not be read.
	Problems text.List[Problem] `json:"problems"`
}

// State is what a machine's update is at, for counting.
type State string

// The states.
const (
	// UpToDate: the machine is what its owner desires.
	UpToDate State = "UpToDate"
	// Marked: Cluster API has marked the machine for an update, but has not changed its spec yet.
	Marked State = "Marked"
	// Queued: Cluster API has handed the machine over for its update, which has not begun yet.
	Queued State = "Queued"
	// Updating: the update is under way.
	Updating State = "Updating"
	// Finished: the update has ended well, and Cluster API has not noticed yet.
	Finished State = "Finished"
	// Failed: the update failed finally, or is refused; somebody has to do something.
	Failed State = "Failed"
	// Waiting: the machine is not what its owner desires, and nothing has begun; or a MachineHealthCheck has
	// marked it, or its provider has not created it.
	Waiting State = "Waiting"
	// Deleting: the machine goes away.
	Deleting State = "Deleting"
	// Unreadable: what is recorded about the machine's update cannot be read.
	Unreadable State = "Unreadable"
)

// States returns all states, in the order in which they are shown.
func States() []State {
	return []State{UpToDate, Marked, Queued, Updating, Finished, Failed, Waiting, Deleting, Unreadable}
}

// Counts is how many machines are in each state.
type Counts map[State]int

// Group is how one group of machines stands.
type Group struct {
	// Name is "control plane", or the MachineDeployment's name in the topology, or its own where it has none.
	Name string `json:"name"`
	// Kind and Object name the object that owns the group.
	Kind   string `json:"kind"`
	Object string `json:"object"`
	Policy Policy `json:"policy"`
	// Machines counts all machines of the group, and Count those of each state. Missing is how many fewer there are, without those that go,
	// than the group's replicas.
	Machines int    `json:"machines"`
	Missing  int    `json:"missing"`
	Count    Counts `json:"states"`
	// Rollout is how far a rollout is that windlass manager limits; nil if none is under way.
	Rollout *Rollout `json:"rollout,omitempty"`
	// Waits says why machines in the state Waiting wait for a person, why a rollout makes no progress, or why
	// workers will not follow a control plane, and what to do; empty if none do.
	Waits string `json:"waits,omitempty"`
}

// Machine is one machine, and where its update is.
type Machine struct {
	Name  string `json:"name"`
	Group string `json:"group"`
	State State  `json:"state"`
	// Version is the Machine's spec.version as it is written there. Runs is what its kubelet reports; empty
	// before it does.
	Version string `json:"version"`
	Runs    string `json:"runs"`
	// Motion is what happens to the machine; empty for one at rest.
	Motion Motion `json:"motion"`
}

// Motion is what happens to a machine. An upgrade that an annotation asks for is in InPlaceUpgrades.
type Motion string

// The motions.
const (
	// Creation: the machine has no Node yet.
	Creation Motion = "Creation"
	// InPlaceUpdate: the machine is marked, queued, updating, or finished.
	InPlaceUpdate Motion = "InPlaceUpdate"
	// Removal: the machine goes away.
	Removal Motion = "Removal"
)

// Update is one machine's update.
type Update struct {
	Machine string `json:"machine"`
	Group   string `json:"group"`
	// State is Marked, Queued, Updating, Finished, Failed or Unreadable.
	State State `json:"state"`
	// Phase is empty where nothing is recorded yet.
	Phase inplace.Phase `json:"phase"`
	// Updater is the one that is at work, the Step-th of Steps, counted from 1. Once all have done their part it is empty,
	// and Step is Steps.
	Updater string `json:"updater"`
	Step    int    `json:"step"`
	Steps   int    `json:"steps"`
	// Attempt counts from 1. MaxAttempts is 0 where it is unknown.
	Attempt     int             `json:"attempt"`
	MaxAttempts int             `json:"maxAttempts"`
	From        version.Version `json:"from"`
	To          version.Version `json:"to"`
	// Began is when the update began, Since when the attempt or phase did; zero where nothing is recorded.
	Began time.Time `json:"began,omitzero"`
	Since time.Time `json:"since,omitzero"`
	// NotBefore is when the next attempt may start; zero where none is waited for.
	NotBefore time.Time `json:"notBefore,omitzero"`
	// Operation is the id that updaters know the attempt by.
	Operation string `json:"operation"`
	// Message is what is known beyond the other fields: of what Cluster API's condition Updating says, only what is about the
	// current step and attempt. LastError is why the last attempt failed.
	Message   string `json:"message"`
	LastError string `json:"lastError"`
	// Fix says what a person can do about a drain that a PodDisruptionBudget holds; else empty.
	Fix string `json:"fix,omitempty"`
	ETA
}

// ETA is when an update should end, by how long the same updaters took on other machines of the cluster.
type ETA struct {
	// At is zero where it is unknown: an updater of the rest of the plan has not been measured yet, or nothing is
	// being done.
	At time.Time `json:"eta,omitzero"`
	// Late says that At has passed.
	Late bool `json:"late"`
}

// Blocked is an object with the condition windlass.dev/UpdateBlocked. A Machine whose update continues all the same is none.
type Blocked struct {
	Kind  string `json:"kind"`
	Name  string `json:"name"`
	Group string `json:"group"`
	// Reason is one of the reasons of the condition; Message names the fields that are not covered, or what else is wrong.
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
	Since   time.Time `json:"since,omitzero"`
}

// Dirty is a field that a Machine's objects carry but that was not applied to the running machine.
type Dirty struct {
	Machine string `json:"machine"`
	Group   string `json:"group"`
	cover.Pointer
	Since time.Time `json:"since,omitzero"`
}

// Duration is how long an updater took.
type Duration struct {
	Updater string `json:"updater"`
	// Median is of all that were measured, in whole seconds.
	Median Seconds `json:"medianSeconds"`
	// Measured counts the measurements.
	Measured int `json:"measured"`
}

// Problem says which recorded value could not be read, and why.
type Problem struct {
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	Annotation string `json:"annotation"`
	Message    string `json:"message"`
}

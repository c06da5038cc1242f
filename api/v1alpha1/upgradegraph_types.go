package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// UpgradeGraph says which Kubernetes versions clusters may run, which upgrade steps between them are blocked, and which
// versions must be reached before a minor. The Windlass extension plans the upgrades of all clusters whose ClusterClass
// the graph serves.
//
// The steps are the control plane's; the planner derives from them where workers stop, as seldom as version skew and
// updaters allow, unless spec.workers chooses more stops. Cluster API keeps a plan that
// it was given for up to ten minutes, so an edit may take that long to show in an upgrade that is under way.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=ug,categories=windlass
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations={"argocd.argoproj.io/sync-options=Delete=false,Prune=false","kustomize.toolkit.fluxcd.io/prune=disabled"}
// +kubebuilder:metadata:labels={"clusterctl.cluster.x-k8s.io=","clusterctl.cluster.x-k8s.io/move="}
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether the graph can be used"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Why the graph can or cannot be used"
// +kubebuilder:printcolumn:name="Oldest",type=string,JSONPath=`.status.oldestVersion`,description="The oldest version on offer"
// +kubebuilder:printcolumn:name="Newest",type=string,JSONPath=`.status.newestVersion`,description="The newest version on offer"
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,description="What is wrong and how to fix it",priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type UpgradeGraph struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`
	// spec is the graph.
	// +required
	Spec UpgradeGraphSpec `json:"spec,omitzero"`
	// status says whether the graph can be used.
	// +optional
	// +default={"observedGeneration": -1}
	Status UpgradeGraphStatus `json:"status,omitzero"`
}

// UpgradeGraphSpec is an upgrade graph.
//
// +kubebuilder:validation:XValidation:rule="!has(self.blocked) || self.blocked.all(b, !has(b.from) || size(b.from) == 0 || (b.from.matches('^v[0-9]+[.][0-9]+$') ? self.versions.exists(v, v.startsWith(b.from + '.')) : b.from in self.versions))",fieldPath=".blocked",message="each from must be one of spec.versions, or a minor that one of them belongs to"
// +kubebuilder:validation:XValidation:rule="!has(self.blocked) || self.blocked.all(b, !has(b.to) || size(b.to) == 0 || (b.to.matches('^v[0-9]+[.][0-9]+$') ? self.versions.exists(v, v.startsWith(b.to + '.')) : b.to in self.versions))",fieldPath=".blocked",message="each to must be one of spec.versions, or a minor that one of them belongs to"
// +kubebuilder:validation:XValidation:rule="!has(self.workers) || self.workers.all(w, !has(w.versions) || w.versions.all(m, m.matches('^v[0-9]+[.][0-9]+$') ? self.versions.exists(v, v.startsWith(m + '.')) : m in self.versions))",fieldPath=".workers",message="each of the versions in spec.workers must be one of spec.versions, or a minor that one of them belongs to"
type UpgradeGraphSpec struct {
	// versions are the versions that clusters may run or go to. A cluster may start from a version that is not listed.
	// To keep clusters away from a version that some still run, list it and block every step to it.
	// The order matters only between builds of one release that have no order of their own, such as v1.31.2+rke2r1
	// and v1.31.2+rke2r2: the later in the list is the newer.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:XValidation:rule="self.all(v, self.exists_one(w, w == v))",message="the list may contain each version once"
	Versions []Version `json:"versions,omitempty"`

	// classes are the ClusterClasses whose clusters this graph serves. A class must not be served by two graphs: the
	// upgrades of its clusters then stop with an error that names both. A graph without classes serves only where the
	// setting "graph" of the ExtensionConfig names it.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=128
	Classes []ClassReference `json:"classes,omitempty"`

	// blocked are steps that the control plane must not take.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=128
	Blocked []BlockedEdge `json:"blocked,omitempty"`

	// floors are versions that the control plane must reach before a minor.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Floors []Floor `json:"floors,omitempty"`

	// workers are the rules of where workers stop. The first rule that selects a group decides; a group that none selects
	// stops as seldom as it may. Stops that version skew or an updater needs are made whatever a rule says. `windlass
	// manager` follows the rules for each group. Stock Cluster API has one list for all workers of a Cluster, so
	// there each group makes the stops of all groups.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Workers []WorkersRule `json:"workers,omitempty"`

	// knownRisks says what becomes of steps of the control plane that have a known risk. By default `windlass plan` and
	// `windlass preflight` only show it.
	// +optional
	KnownRisks KnownRisks `json:"knownRisks,omitzero"`
}

// Version is a Kubernetes version with all three numbers and a leading v, such as v1.31.2 or v1.31.2+rke2r1.
//
// +kubebuilder:validation:MaxLength=64
// +kubebuilder:validation:XValidation:rule="self.matches('^v(0|[1-9][0-9]{0,8})[.](0|[1-9][0-9]{0,8})[.](0|[1-9][0-9]{0,8})(-[0-9A-Za-z-]+([.][0-9A-Za-z-]+)*)?([+][0-9A-Za-z-]+([.][0-9A-Za-z-]+)*)?$')",message="must be a Kubernetes version with a leading v and all three numbers, such as v1.31.2"
type Version string

// Minor is a Kubernetes minor release with a leading v, such as v1.31.
//
// +kubebuilder:validation:MaxLength=20
// +kubebuilder:validation:XValidation:rule="self.matches('^v(0|[1-9][0-9]{0,8})[.](0|[1-9][0-9]{0,8})$')",message="must be a Kubernetes minor release with a leading v and two numbers, such as v1.31"
type Minor string

// VersionMatch selects versions: one version such as v1.31.2, every version of a minor such as v1.31, or, when empty,
// all versions.
//
// +kubebuilder:validation:MaxLength=64
// +kubebuilder:validation:XValidation:rule="size(self) == 0 || self.matches('^v(0|[1-9][0-9]{0,8})[.](0|[1-9][0-9]{0,8})([.](0|[1-9][0-9]{0,8})(-[0-9A-Za-z-]+([.][0-9A-Za-z-]+)*)?([+][0-9A-Za-z-]+([.][0-9A-Za-z-]+)*)?)?$')",message="must be a version such as v1.31.2, or a minor such as v1.31"
type VersionMatch string

// ClassReference names a ClusterClass.
type ClassReference struct {
	// name is the name of the ClusterClass.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9][a-z0-9.-]*$') && !self.endsWith('-') && !self.endsWith('.') && !self.contains('..')",message="must be the name of a ClusterClass: lower case letters, digits, hyphens and periods"
	Name string `json:"name,omitempty"`

	// namespace is the namespace of the ClusterClass; empty means the classes of that name in all namespaces.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="size(self) == 0 || self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be the name of a namespace: lower case letters, digits and hyphens"
	Namespace string `json:"namespace,omitempty"`
}

// BlockedEdge forbids the steps from any version that from matches to any that to matches.
//
// +kubebuilder:validation:XValidation:rule="(has(self.from) && size(self.from) > 0) || (has(self.to) && size(self.to) > 0)",message="set from, to, or both: without either, every upgrade would be blocked"
type BlockedEdge struct {
	// from selects the versions that a step starts from; empty means any.
	// +optional
	From VersionMatch `json:"from,omitempty"`

	// to selects the versions that a step goes to; empty means any.
	// +optional
	To VersionMatch `json:"to,omitempty"`

	// reason says why, to the people whose upgrade meets the block.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Reason string `json:"reason,omitempty"`
}

// Floor forbids entering the minor before, or a later one, from a version older than atLeast.
//
// +kubebuilder:validation:XValidation:rule="!self.before.matches('^v[0-9]{1,9}[.][0-9]{1,9}$') || !self.atLeast.matches('^v[0-9]{1,9}[.][0-9]{1,9}[.]') || int(self.atLeast.split('.')[0].substring(1)) < int(self.before.split('.')[0].substring(1)) || (self.atLeast.split('.')[0] == self.before.split('.')[0] && int(self.atLeast.split('.')[1]) < int(self.before.split('.')[1]))",message="atLeast must be a version of a minor older than before: nothing can reach it otherwise"
type Floor struct {
	// before is the minor that the floor guards, such as v1.34.
	// +required
	// +kubebuilder:validation:MinLength=1
	Before Minor `json:"before,omitempty"`

	// atLeast is the oldest version of the control plane from which before may be entered, such as v1.33.5.
	// +required
	// +kubebuilder:validation:MinLength=1
	AtLeast Version `json:"atLeast,omitempty"`

	// reason says why, to the people whose upgrade meets the floor.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Reason string `json:"reason,omitempty"`
}

// WorkersRule chooses where groups of workers stop on the way to the target. It selects the groups that match each of
// classes, workerClasses and groups; an empty list matches all.
//
// +kubebuilder:validation:XValidation:rule="self.stops == 'Versions' ? has(self.versions) && size(self.versions) > 0 : !has(self.versions) || size(self.versions) == 0",message="set versions with stops: Versions, and only with it"
type WorkersRule struct {
	// classes are ClusterClasses; the rule is for groups of their Clusters.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Classes []ClassReference `json:"classes,omitempty"`

	// workerClasses are classes of workers: the class of a group in the Cluster's spec.topology.workers.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	WorkerClasses []string `json:"workerClasses,omitempty"`

	// groups are names of MachineDeployments and MachinePools in the Cluster's spec.topology.workers.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Groups []string `json:"groups,omitempty"`

	// stops chooses the stops. Fewest: as few as version skew and updaters allow. EveryMinor: at every minor, at the last
	// version of it that the control plane goes through. Versions: at each of versions.
	// +required
	Stops WorkerStops `json:"stops,omitempty"`

	// versions are where the groups stop. A minor such as v1.31 means the last version of it that the control plane goes
	// through. With a version such as v1.31.2, an upgrade that goes past it without stopping there is refused.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MinLength=1
	Versions []VersionMatch `json:"versions,omitempty"`

	// reason says why, to the people whose machines are updated once more, or not.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Reason string `json:"reason,omitempty"`
}

// KnownRisks says what becomes of steps that have a known risk.
//
// +kubebuilder:validation:MinProperties=1
type KnownRisks struct {
	// action is Warn, the default, or Block. With Block, no plan contains a step of the control plane that a floor or a
	// block of the known risks is about, unless it is accepted. Plans go around such steps where versions allow it. Known
	// risks of the kind Warning never block.
	// +optional
	Action KnownRisksAction `json:"action,omitempty"`

	// accepted are known risks that do not block.
	// +optional
	// +listType=map
	// +listMapKey=id
	// +kubebuilder:validation:MaxItems=64
	Accepted []AcceptedRisk `json:"accepted,omitempty"`
}

// KnownRisksAction is what becomes of steps that have a known risk.
//
// +kubebuilder:validation:Enum=Warn;Block
type KnownRisksAction string

// The values of KnownRisksAction.
const (
	// KnownRisksWarn shows them only.
	KnownRisksWarn KnownRisksAction = "Warn"
	// KnownRisksBlock refuses steps with floors and blocks.
	KnownRisksBlock KnownRisksAction = "Block"
)

// AcceptedRisk is a known risk that somebody has looked at.
type AcceptedRisk struct {
	// id is that of the known risk, such as etcd-36-zombie-members.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be the id of a known risk: lower case letters, digits and hyphens"
	ID string `json:"id,omitempty"`

	// reason says why the clusters of this graph are not affected, or what was done about it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Reason string `json:"reason,omitempty"`
}

// WorkerStops chooses how often workers stop.
//
// +kubebuilder:validation:Enum=Fewest;EveryMinor;Versions
type WorkerStops string

// The values of WorkerStops.
const (
	// WorkerStopsFewest is as few stops as version skew and updaters allow.
	WorkerStopsFewest WorkerStops = "Fewest"
	// WorkerStopsEveryMinor is a stop at every minor.
	WorkerStopsEveryMinor WorkerStops = "EveryMinor"
	// WorkerStopsVersions is a stop at each of the versions that the rule names.
	WorkerStopsVersions WorkerStops = "Versions"
)

// UpgradeGraphStatus is what the Windlass extension found out about a graph.
type UpgradeGraphStatus struct {
	// observedGeneration is the generation of the spec that this status is about; -1 until `windlass extension` has looked at
	// the object.
	// +optional
	// +default=-1
	// +kubebuilder:validation:Minimum=-1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// oldestVersion is the oldest version on offer. It is not set when the spec is not valid.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	OldestVersion string `json:"oldestVersion,omitempty"`

	// newestVersion is the newest version on offer. It is not set when the spec is not valid.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	NewestVersion string `json:"newestVersion,omitempty"`

	// conditions are the state of the graph. The known types are Ready and Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ReadyCondition is the type of the condition that says whether an object can be used. While it is False, the upgrades and
// updates that depend on the faulty part stop with the condition's message.
const ReadyCondition = "Ready"

// StalledCondition is the type of the condition that says that an object is not Ready until somebody edits its spec. It is
// there, and True, only while that is so. kstatus then reports Failed instead of InProgress.
const StalledCondition = "Stalled"

// The reasons of an UpgradeGraph's ReadyCondition.
const (
	// UpgradeGraphValidReason: the graph can be used.
	UpgradeGraphValidReason = "Valid"
	// UpgradeGraphInvalidReason: the spec does not parse or contradicts itself. No upgrade is planned from it.
	UpgradeGraphInvalidReason = "InvalidSpec"
	// UpgradeGraphClassConflictReason: another graph serves one of the same classes. No upgrade of those classes is
	// planned; other classes are not affected.
	UpgradeGraphClassConflictReason = "ClassConflict"
)

// UpgradeGraphList is a list of UpgradeGraphs.
//
// +kubebuilder:object:root=true
type UpgradeGraphList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list's metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitzero"`
	// items are the graphs.
	Items []UpgradeGraph `json:"items"`
}

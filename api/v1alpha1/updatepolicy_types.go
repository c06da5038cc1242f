package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// UpdatePolicy says how the machines of clusters in its namespace are updated. A group of machines (a control plane or a
// MachineDeployment) that no policy selects is replaced machine by machine, as Cluster API does by itself.
//
// Targets, strategy, fallback and ignorePaths are read when a change is decided on. An edit of them takes effect at the next
// change: a decision stands until the change is made, and Cluster API keeps an answer for up to a day. Whether machines are guarded
// against replacement, which follows from targets, strategy and fallback, changes at once. The other fields are read
// again and again while machines are updated: an edit of them counts for updates that are under way, too.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Namespaced,shortName=upol,categories=windlass
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations={"argocd.argoproj.io/sync-options=Delete=false,Prune=false","kustomize.toolkit.fluxcd.io/prune=disabled"}
// +kubebuilder:metadata:labels={"clusterctl.cluster.x-k8s.io=","clusterctl.cluster.x-k8s.io/move=","visualizer.cluster.x-k8s.io="}
// +kubebuilder:printcolumn:name="Strategy",type=string,JSONPath=`.spec.strategy`,description="How machines are updated"
// +kubebuilder:printcolumn:name="Fallback",type=string,JSONPath=`.spec.fallback`,description="What happens where Updaters do not cover a change"
// +kubebuilder:printcolumn:name="Groups",type=integer,JSONPath=`.status.groupCount`,description="How many groups of machines the policy counts for"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether the policy can be used"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Why the policy can or cannot be used"
// +kubebuilder:printcolumn:name="Guarding",type=string,JSONPath=`.status.conditions[?(@.type=="Guarding")].status`,description="Whether machines are guarded against replacement"
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,description="What is wrong and how to fix it",priority=1
// +kubebuilder:printcolumn:name="Guard",type=string,JSONPath=`.status.conditions[?(@.type=="Guarding")].message`,description="Why machines are not guarded",priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type UpdatePolicy struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`
	// spec is the policy.
	// +required
	Spec UpdatePolicySpec `json:"spec,omitzero"`
	// status says whether the policy can be used, and for which groups it counts.
	// +optional
	// +default={"observedGeneration": -1}
	Status UpdatePolicyStatus `json:"status,omitzero"`
}

// UpdatePolicySpec is a policy.
//
// +kubebuilder:validation:XValidation:rule="!has(self.fallback) || !has(self.strategy) || self.strategy == 'ExternalUpdate'",fieldPath=".fallback",message="fallback goes with strategy ExternalUpdate only: with RollingUpdate machines are always replaced"
// +kubebuilder:validation:XValidation:rule="!has(self.onDelete) || !has(self.strategy) || self.strategy == 'ExternalUpdate'",fieldPath=".onDelete",message="onDelete goes with strategy ExternalUpdate only"
// +kubebuilder:validation:XValidation:rule="!has(self.handOver) || !has(self.strategy) || self.strategy == 'ExternalUpdate'",fieldPath=".handOver",message="handOver goes with strategy ExternalUpdate only"
// +kubebuilder:validation:XValidation:rule="!has(self.handOver) || self.handOver != 'Group' || !(has(self.drain) && self.drain) && !has(self.batches) && !has(self.order) && !has(self.ignorePaths)",fieldPath=".handOver",message="handOver Group goes without drain, batches, order and ignorePaths: the updater drains, chooses the order, and makes the whole change"
// +kubebuilder:validation:XValidation:rule="!has(self.handOver) || self.handOver != 'Group' || !has(self.soakSeconds) && !has(self.machineDeadlineSeconds)",fieldPath=".handOver",message="handOver Group goes without soakSeconds and machineDeadlineSeconds: Windlass does not know when a machine begins"
// +kubebuilder:validation:XValidation:rule="!has(self.handOver) || self.handOver != 'Group' || !(has(self.onDelete) && self.onDelete == 'InPlace') && !(has(self.onFailure) && self.onFailure == 'Remediate')",fieldPath=".handOver",message="handOver Group goes without onDelete InPlace and onFailure Remediate"
// +kubebuilder:validation:XValidation:rule="!has(self.prefetch) || !has(self.strategy) || self.strategy == 'ExternalUpdate'",fieldPath=".prefetch",message="prefetch goes with strategy ExternalUpdate only"
// +kubebuilder:validation:XValidation:rule="!has(self.prefetch) || !has(self.handOver) || self.handOver != 'Group'",fieldPath=".prefetch",message="prefetch goes without handOver Group: the updater has the whole group, and prepares it"
// +kubebuilder:validation:XValidation:rule="!has(self.maxFailures) || has(self.onFailure) && self.onFailure == 'Pause'",fieldPath=".maxFailures",message="maxFailures goes with onFailure Pause only"
type UpdatePolicySpec struct {
	// targets are the groups of machines that the policy is for, when a change is decided on and while machines are updated. A
	// group is selected if one of them matches. Where several
	// policies select a group, the one that names it most precisely counts: by name of the group, by labels of the group,
	// by name of the cluster, by labels of the cluster, any. Of two that name the group alike, the one that names the cluster
	// more precisely counts. Two of the same precision block the group's updates with an error that names both.
	// +required
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="self.map(t, has(t.machineDeployments) ? size(t.machineDeployments) : 0).sum() + self.map(t, !has(t.clusterSelector) ? 0 : (has(t.clusterSelector.matchLabels) ? size(t.clusterSelector.matchLabels) : 0) + (has(t.clusterSelector.matchExpressions) ? t.clusterSelector.matchExpressions.map(e, 1 + (has(e.values) ? size(e.values) : 0)).sum() : 0)).sum() + self.map(t, !has(t.selector) ? 0 : (has(t.selector.matchLabels) ? size(t.selector.matchLabels) : 0) + (has(t.selector.matchExpressions) ? t.selector.matchExpressions.map(e, 1 + (has(e.values) ? size(e.values) : 0)).sum() : 0)).sum() <= 1024",message="targets may have at most 1024 names of machineDeployments, entries of selectors and values in all. Fix: select MachineDeployments by a label that they share, or use several UpdatePolicies"
	// +listType=atomic
	Targets []UpdateTarget `json:"targets,omitempty"`
	// strategy is ExternalUpdate to update machines in place by Updaters, or RollingUpdate to replace them. It is read when a
	// change is decided on: updates that are decided on continue in place.
	// +required
	// +kubebuilder:validation:Enum=ExternalUpdate;RollingUpdate
	Strategy UpdateStrategy `json:"strategy,omitempty"`
	// fallback is what happens where Updaters do not cover a change: RollingUpdate replaces machines, None leaves
	// everything unchanged, reports what is not covered, and guards the machines against replacement. Unset means None with
	// ExternalUpdate; it must be unset with RollingUpdate. It is read when a change is decided on; the guard follows an edit at once.
	// +optional
	// +kubebuilder:validation:Enum=RollingUpdate;None
	Fallback UpdateFallback `json:"fallback,omitempty"`
	// maxInFlight is how many machines of a cluster's MachineDeployments under this policy are updated at once. In `windlass
	// manager` it also bounds, for each MachineDeployment, how many machines a rollout creates and deletes at once. Cluster
	// API's own limits, such as maxUnavailable, hold as well. An edit counts at once; updates that have begun continue.
	// +optional
	// +default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	MaxInFlight   int32 `json:"maxInFlight,omitempty"`
	RolloutLimits `json:",inline"`
	// onDelete is what a change means for MachineDeployments with the strategy OnDelete: Wait until a person deletes machines,
	// or InPlace, which updates them in place, one after another or as maxInFlight says. Machines that Updaters do not cover
	// wait for a person then, too. Unset means Wait; it must be unset with strategy RollingUpdate. Only `windlass manager`
	// reads it. An edit counts at once.
	// +optional
	// +kubebuilder:validation:Enum=Wait;InPlace
	OnDelete OnDeleteAction `json:"onDelete,omitempty"`
	// handOver is what Updaters with the protocol HandOver are handed: Machine, one machine after another, or Group, all
	// machines of a MachineDeployment in one request. With Group only these Updaters are asked. The one that accepts drains
	// and updates the machines within the limits of the request, and writes the new specs of their Machines, bootstrap
	// configs and infrastructure machines. Until then Windlass changes, moves, creates and deletes nothing for them.
	// maxAttempts and attemptTimeoutSeconds do not count then, and maxInFlight counts for each MachineDeployment. Unset means
	// Machine. Only `windlass manager` reads it. An edit counts at once: one from Group to Machine ends the hand-over.
	// +optional
	// +kubebuilder:validation:Enum=Machine;Group
	HandOver HandOverUnit `json:"handOver,omitempty"`
	// drain says whether nodes are cordoned and drained before the first updater that needs it. An edit counts at once, also for
	// a node that is being drained.
	// +optional
	Drain bool `json:"drain,omitempty"`
	// prefetch has machines prepared for their next Kubernetes version before their update may begin: while an UpgradeGate,
	// an annotation or the control plane holds it. An updater that can prepare a machine brings what the update needs to it,
	// such as binaries and container images. The node works as before: nothing is drained or restarted. Unset means that
	// each machine is prepared right before its drain. An edit counts at once.
	// +optional
	Prefetch UpdatePrefetch `json:"prefetch,omitzero"`
	// soakSeconds is how long a node must be Ready at the new version before its update counts as done. In `windlass manager`
	// a machine that replaces another one counts as done when it has been Available as long. An edit counts at once.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	SoakSeconds int32 `json:"soakSeconds,omitempty"`
	// maxAttempts is how often an updater may try before the update fails finally. An edit counts at once: when the next attempt
	// fails.
	// +optional
	// +default=3
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	MaxAttempts int32 `json:"maxAttempts,omitempty"`
	// attemptTimeoutSeconds is how long an attempt may take, and how long its result may take to show on the node. An edit counts
	// at once, also for the attempt that is under way.
	// +optional
	// +default=1800
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	AttemptTimeoutSeconds int32 `json:"attemptTimeoutSeconds,omitempty"`
	// onFailure is what happens to a machine whose update failed finally: Wait for a person, or Remediate it, which
	// replaces it if a MachineHealthCheck is responsible for it. Pause waits too, and `windlass manager` begins no other machine
	// of the MachineDeployment once maxFailures have failed. An edit counts at once, for updates that fail from then on.
	// +optional
	// +default="Wait"
	// +kubebuilder:validation:Enum=Wait;Remediate;Pause
	OnFailure UpdateFailureAction `json:"onFailure,omitempty"`
	// maxFailures is how many failed machines of a MachineDeployment hold its rollout with onFailure Pause; unset means 1.
	// Updates that failed count, and changes that take longer than machineDeadlineSeconds. Nothing is rolled back. An edit
	// counts at once.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	MaxFailures int32 `json:"maxFailures,omitempty"`
	// machineDeadlineSeconds is how long a machine may take from the begin of its update, or from
	// its creation, until it is available. The wait for its turn and soakSeconds do not count. After
	// that the rollout of its MachineDeployment is held, with onFailure Pause once maxFailures are
	// reached. Unset means no deadline. Only `windlass manager` reads it. An edit counts at once.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=604800
	MachineDeadlineSeconds int32 `json:"machineDeadlineSeconds,omitempty"`
	// groupDeadlineSeconds is how long the rollout of a MachineDeployment may take. After that no
	// other machine begins. It does not count while partition or another limit holds the rollout, and
	// counts from zero afterwards. Unset means no deadline. Only `windlass manager` reads it. An edit
	// counts at once.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2592000
	GroupDeadlineSeconds int32 `json:"groupDeadlineSeconds,omitempty"`
	// ignorePaths are fields that need not be applied to a running machine. They count as covered, and the Machine records
	// them as dirty. They are read when a change is decided on.
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +listType=map
	// +listMapKey=object
	// +listMapKey=path
	IgnorePaths []IgnorePath `json:"ignorePaths,omitempty"`
}

// UpdatePrefetch is how machines are prepared before their update may begin.
type UpdatePrefetch struct {
	// maxInFlight is how many machines of a Cluster under this policy are prepared at once.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	MaxInFlight int32 `json:"maxInFlight,omitempty"`
}

// RolloutLimits are the limits of a rollout that are counted in machines of a MachineDeployment, and its
// order. Scenario files of `windlass simulate` have the same fields.
type RolloutLimits struct {
	// canary is how many machines of each MachineDeployment are updated or replaced first: a number, or a percentage of
	// spec.replicas, rounded up. In `windlass manager` no other one begins until all of these are done; a canary that fails
	// holds the rollout. Beside Cluster API's own controllers any canary counts as 1, and the others begin when the first
	// machine has finished the update or failed it finally. 0 turns this off. An edit counts at once.
	// +optional
	// +default=1
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 10000 : self.matches('^(100|[1-9]?[0-9])%$')",message="must be a number between 0 and 10000, or a percentage between 0% and 100%, such as 25%"
	Canary *intstr.IntOrString `json:"canary,omitempty"`
	// batches are how many machines of a MachineDeployment are updated or replaced after the canary, each a number or a
	// percentage of spec.replicas, rounded up, at least 1. A batch begins when all machines before it are done. The last one
	// repeats. Without batches all machines after the canary form one. Only `windlass manager` reads it. An edit counts at once.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:XIntOrString
	// +kubebuilder:validation:items:MaxLength=16
	// +kubebuilder:validation:items:XValidation:rule="type(self) == int ? self >= 1 && self <= 10000 : self.matches('^(100|[1-9][0-9]?)%$')",message="must be a number between 1 and 10000, or a percentage between 1% and 100%, such as 25%"
	Batches []intstr.IntOrString `json:"batches,omitempty"`
	// partition is how many machines of each MachineDeployment stay at the old template: a number, or a percentage of
	// spec.replicas, rounded up. A machine that is updated already stays so. An upgrade of the Cluster waits as long as machines
	// are kept. Only `windlass manager` reads it. An edit counts at once.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 10000 : self.matches('^(100|[1-9]?[0-9])%$')",message="must be a number between 0 and 10000, or a percentage between 0% and 100%, such as 25%"
	Partition *intstr.IntOrString `json:"partition,omitempty"`
	// order says which machines of a MachineDeployment a rollout takes first. Without it Cluster API's order counts. Only
	// `windlass manager` reads it. An edit counts at once.
	// +optional
	Order UpdateOrder `json:"order,omitzero"`
}

// OnDeleteAction is what a change means for groups with the strategy OnDelete.
type OnDeleteAction string

const (
	// OnDeleteWait waits until a person deletes machines.
	OnDeleteWait OnDeleteAction = "Wait"
	// OnDeleteInPlace updates machines in place.
	OnDeleteInPlace OnDeleteAction = "InPlace"
)

// HandOverUnit is what an updater with the protocol HandOver is handed at once.
type HandOverUnit string

const (
	// HandOverMachine hands over one machine.
	HandOverMachine HandOverUnit = "Machine"
	// HandOverGroup hands over all machines of a MachineDeployment.
	HandOverGroup HandOverUnit = "Group"
)

// UpdateOrder is in which order machines are taken.
//
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:XValidation:rule="!has(self.oneAtATime) || !self.oneAtATime || has(self.labels)",fieldPath=".oneAtATime",message="oneAtATime needs labels"
type UpdateOrder struct {
	// labels are keys of labels of Machines, the most important first. Machines are taken in the order of the values, compared
	// as text; a missing label comes first. Where machines may not be replaced, unavailable ones are taken before available
	// ones; with oneAtATime only among those with the same values. A Machine without the label topology.kubernetes.io/zone counts by its spec.failureDomain.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="self.all(key, self.exists_one(other, other == key))",message="must not name a label twice"
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$')",message="must be the key of a label, such as rack or example.com/rack"
	Labels []string `json:"labels,omitempty"`
	// oneAtATime has all machines with the same values done before any others begin: one rack or zone at a time. A machine that
	// fails holds the next ones.
	// +optional
	OneAtATime bool `json:"oneAtATime,omitempty"`
	// last selects Machines by labels that are taken after all others.
	// +optional
	// +kubebuilder:validation:XValidation:rule="has(self.matchLabels) && size(self.matchLabels) > 0 || has(self.matchExpressions) && size(self.matchExpressions) > 0",message="must select Machines: set matchLabels or matchExpressions, or remove last"
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, e.operator in ['In', 'NotIn', 'Exists', 'DoesNotExist'])",fieldPath=".matchExpressions",message="operator must be In, NotIn, Exists or DoesNotExist"
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, !(e.operator in ['In', 'NotIn']) || has(e.values) && size(e.values) > 0)",fieldPath=".matchExpressions",message="values are required with operator In or NotIn"
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, !(e.operator in ['Exists', 'DoesNotExist']) || !has(e.values) || size(e.values) == 0)",fieldPath=".matchExpressions",message="values must be empty with operator Exists or DoesNotExist"
	Last *metav1.LabelSelector `json:"last,omitempty"`
}

// UpdateTarget selects groups of machines. All fields that are set must match; without any, all groups of the namespace do.
//
// +kubebuilder:validation:XValidation:rule="!has(self.clusterName) || !has(self.clusterSelector)",message="set clusterName or clusterSelector, not both"
type UpdateTarget struct {
	// clusterName is the name of a Cluster.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of a Cluster: lower case letters, digits, hyphens and periods"
	ClusterName string `json:"clusterName,omitempty"`
	// clusterSelector selects Clusters by labels; empty means all.
	// +optional
	ClusterSelector *metav1.LabelSelector `json:"clusterSelector,omitempty"`
	// controlPlane selects the control plane.
	// +optional
	ControlPlane bool `json:"controlPlane,omitempty"`
	// machineDeployments selects MachineDeployments by the name of their topology, or of the object where they have none.
	// With controlPlane, either matches.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=128
	MachineDeployments []MachineDeploymentName `json:"machineDeployments,omitempty"`
	// selector selects MachineDeployments and control plane objects by labels; empty means all.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
}

// MachineDeploymentName is the name of a MachineDeployment's topology, or of the object where it has none.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=253
// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9][a-z0-9.-]*$') && !self.endsWith('-') && !self.endsWith('.') && !self.contains('..')",message="must be the name of a MachineDeployment or of its topology: lower case letters, digits, hyphens and periods"
type MachineDeploymentName string

// UpdateStrategy is how machines are updated.
type UpdateStrategy string

// The strategies.
const (
	// ExternalUpdate: Updaters change the running machine.
	ExternalUpdate UpdateStrategy = "ExternalUpdate"
	// RollingUpdate: machines are replaced, as Cluster API does by itself.
	RollingUpdate UpdateStrategy = "RollingUpdate"
)

// UpdateFallback is what happens where Updaters do not cover a change.
type UpdateFallback string

// The fallbacks.
const (
	// FallbackRollingUpdate: machines are replaced.
	FallbackRollingUpdate UpdateFallback = "RollingUpdate"
	// FallbackNone: everything stays as it is, and machines are guarded against replacement.
	FallbackNone UpdateFallback = "None"
)

// UpdateFailureAction is what happens to a machine whose update failed finally.
type UpdateFailureAction string

// The actions.
const (
	// FailureWait: the machine stays as it is until a person decides.
	FailureWait UpdateFailureAction = "Wait"
	// FailureRemediate: the machine is handed to remediation.
	FailureRemediate UpdateFailureAction = "Remediate"
	// FailurePause: the machine stays as it is, and maxFailures of them hold the rollout.
	FailurePause UpdateFailureAction = "Pause"
)

// IgnorePath names fields that need not be applied to a running machine.
//
// +kubebuilder:validation:XValidation:rule="!has(self.object) || !has(self.path) || self.object != 'Machine' || self.path != '/spec/version'",fieldPath=".path",message="the Kubernetes version of a Machine cannot be ignored: an update is done when the node runs that version"
type IgnorePath struct {
	// object is Machine, InfrastructureMachine or BootstrapConfig.
	// +required
	// +kubebuilder:validation:Enum=Machine;InfrastructureMachine;BootstrapConfig
	Object IgnoreObject `json:"object,omitempty"`
	// path is a JSON pointer in the object, such as /spec/backend/docker/customImage. It names the field and all below.
	// In templates, the same field stands under /spec/template.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.matches('^/spec(/([^~/]|~[01])+)+$')",message="must be a JSON pointer to a field below /spec, such as /spec/image; a ~ in a name is written ~0, a / is written ~1"
	Path string `json:"path,omitempty"`
}

// IgnoreObject is one of a machine's three objects.
type IgnoreObject string

// The objects.
const (
	IgnoreMachine        IgnoreObject = "Machine"
	IgnoreInfrastructure IgnoreObject = "InfrastructureMachine"
	IgnoreBootstrap      IgnoreObject = "BootstrapConfig"
)

// UpdatePolicyStatus is what Windlass found out about a policy.
type UpdatePolicyStatus struct {
	// observedGeneration is the generation of the spec that this status is about; -1 until `windlass extension` has looked at
	// the object.
	// +optional
	// +default=-1
	// +kubebuilder:validation:Minimum=-1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// groupCount is how many groups the policy counts for. It is not set when the spec is not valid.
	// +optional
	// +kubebuilder:validation:Minimum=0
	GroupCount *int32 `json:"groupCount,omitempty"`
	// groups are the groups that the policy counts for, by cluster, the control plane first. Only the first 256 are listed.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=512
	Groups []string `json:"groups,omitempty"`
	// warnings say which groups cannot be updated as the policy asks, and why, in the same order. Only the first 16
	// are listed.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=1024
	Warnings []string `json:"warnings,omitempty"`
	// conditions are the state of the policy. The known types are Ready, Stalled and Guarding.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// The reasons of an UpdatePolicy's ReadyCondition.
const (
	// UpdatePolicyValidReason: the policy can be used.
	UpdatePolicyValidReason = "Valid"
	// UpdatePolicyNoGroupsReason: the policy can be used, and counts for no group of machines.
	UpdatePolicyNoGroupsReason = "NoGroups"
	// UpdatePolicyInvalidReason: the spec does not parse. The groups that it could select are not updated.
	UpdatePolicyInvalidReason = "InvalidSpec"
	// UpdatePolicyConflictReason: another policy selects one of the same groups with the same precision. Those groups are not
	// updated; others are not affected.
	UpdatePolicyConflictReason = "Conflict"
	// UpdatePolicyTooManyReason: the namespace has too many policies and groups to compare each with each. The guard
	// is asked about all Machines of the namespace if a policy keeps machines.
	UpdatePolicyTooManyReason = "TooManyPoliciesAndGroups"
)

// GuardingCondition is the type of the condition that says whether the groups of a policy without fallback are guarded:
// whether the API server refuses to replace their machines.
const GuardingCondition = "Guarding"

// The reasons of GuardingCondition.
const (
	// GuardInstalledReason: the guard is installed, and watches the namespace.
	GuardInstalledReason = "GuardInstalled"
	// GuardMissingReason: the guard's ValidatingWebhookConfiguration is not installed, or does not refuse what it must.
	GuardMissingReason = "GuardMissing"
	// GuardUnreachableReason: API servers cannot call the guard, so they refuse to create and to delete the Machines that policies keep.
	GuardUnreachableReason = "GuardUnreachable"
	// NamespaceExcludedReason: the guard leaves the namespace out, because of GuardLabel or another selector.
	NamespaceExcludedReason = "NamespaceExcluded"
	// GuardNotCoveringReason: the API server does not ask the guard yet about a group that the policy keeps.
	GuardNotCoveringReason = "GuardNotCovering"
	// GuardConflictReason: several policies select a group of the policy with the same precision, so the guard refuses
	// to create and to delete its Machines.
	GuardConflictReason = "Conflict"
	// GuardInvalidPolicyReason: another policy, which is invalid, may count for a group that the policy selects, so the guard
	// refuses to create and to delete its Machines.
	GuardInvalidPolicyReason = "InvalidPolicy"
	// NotNeededReason: the policy has no group to guard: its fallback or strategy replaces machines, or it counts for none.
	NotNeededReason = "NotNeeded"
)

// UpdatePolicyList is a list of UpdatePolicies.
//
// +kubebuilder:object:root=true
type UpdatePolicyList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list's metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitzero"`
	// items are the UpdatePolicies.
	Items []UpdatePolicy `json:"items"`
}

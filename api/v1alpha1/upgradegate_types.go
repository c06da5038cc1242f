package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// UpgradeGate holds upgrades of Clusters in its namespace at certain steps, until all that it requires is met. It is asked
// through Cluster API's lifecycle hooks, so that it holds whichever controller runs the upgrade. A gate decides when a
// step may begin; it does not stop one that has begun. What cannot be evaluated holds the upgrade, and says why.
//
// Why a Cluster waits is also in its TopologyReconciled condition.
//
// Ready says that the gate can be evaluated, not that it is open: a gate that holds a Cluster is Ready.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Namespaced,shortName=ugate,categories=windlass
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations={"argocd.argoproj.io/sync-options=Delete=false,Prune=false","kustomize.toolkit.fluxcd.io/prune=disabled"}
// +kubebuilder:metadata:labels={"clusterctl.cluster.x-k8s.io=","clusterctl.cluster.x-k8s.io/move=","visualizer.cluster.x-k8s.io="}
// +kubebuilder:printcolumn:name="At",type=string,JSONPath=`.spec.steps[0].at`,description="The first of the steps that the gate is at"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether the gate can be evaluated"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Why the gate can or cannot be evaluated"
// +kubebuilder:printcolumn:name="Waiting",type=integer,JSONPath=`.status.waitingCount`,description="How many Clusters wait at the gate"
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,description="What is wrong and how to fix it",priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63",message="the name of an UpgradeGate may have at most 63 characters: conditions contain it with the names of others"
type UpgradeGate struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`
	// spec says which upgrades the gate holds, where, and until when.
	// +required
	Spec UpgradeGateSpec `json:"spec,omitzero"`
	// status says which Clusters wait at the gate, and which steps were approved.
	// +optional
	// +default={"observedGeneration": -1}
	Status UpgradeGateStatus `json:"status,omitzero"`
}

// UpgradeGateSpec says which upgrades a gate holds, where, and until when.
//
// +kubebuilder:validation:XValidation:rule="!has(self.clusterName) || !has(self.clusterSelector)",message="set clusterName or clusterSelector, not both"
type UpgradeGateSpec struct {
	// clusterName is the name of the one Cluster that the gate is for. Without it and clusterSelector, the gate is for all
	// Clusters of its namespace.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of a Cluster: lower case letters, digits, hyphens and periods"
	ClusterName string `json:"clusterName,omitempty"`
	// clusterSelector selects Clusters by labels; empty means all.
	// +optional
	ClusterSelector *metav1.LabelSelector `json:"clusterSelector,omitempty"`
	// steps are where in an upgrade the gate is.
	// +required
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=6
	// +listType=map
	// +listMapKey=at
	Steps []GateStep `json:"steps,omitempty"`
	// requires is what must be met, all of it, before an upgrade continues. Approval and windows are looked at first; the checks
	// are made once these are met.
	// +required
	Requires GateRequirements `json:"requires,omitzero"`
}

// GateStep is a place in an upgrade.
type GateStep struct {
	// at is the lifecycle hook of Cluster API at which the gate is. A chain of minors has a BeforeClusterUpgrade at its
	// beginning, with the target's version (of Windlass' engine another one for each new target while it runs), and an
	// AfterClusterUpgrade at its end, which holds the next upgrade; the others come at each version that the control plane, or
	// the workers, stop at.
	// +required
	// +kubebuilder:validation:Enum=BeforeClusterUpgrade;BeforeControlPlaneUpgrade;AfterControlPlaneUpgrade;BeforeWorkersUpgrade;AfterWorkersUpgrade;AfterClusterUpgrade
	At GateHook `json:"at,omitempty"`
	// versions are those that the gate is at: minors such as v1.32, or versions such as v1.32.4, which stand for all their builds
	// unless they name one. The version is the one that a step leads to, or has led to. Empty means all.
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +listType=set
	Versions []GateVersion `json:"versions,omitempty"`
}

// GateHook names a lifecycle hook of Cluster API.
type GateHook string

// GateVersion is a minor release or a version of Kubernetes.
//
// +kubebuilder:validation:MinLength=4
// +kubebuilder:validation:MaxLength=128
// +kubebuilder:validation:XValidation:rule="self.matches('^v[0-9]{1,9}[.][0-9]{1,9}([.][0-9]{1,9}(-[0-9A-Za-z.-]+)?([+][0-9A-Za-z.-]+)?)?$')",message="must be a minor release such as v1.32, or a version such as v1.32.4"
type GateVersion string

// GateRequirements are what must be met before an upgrade continues.
//
// +kubebuilder:validation:XValidation:rule="has(self.approval) || has(self.windows) || has(self.checks)",message="set at least one of approval, windows and checks: a gate that requires nothing holds nothing"
type GateRequirements struct {
	// approval, when it is set, makes every step of every Cluster wait until a person approves it, with `windlass approve`.
	// +optional
	Approval *GateApproval `json:"approval,omitempty"`
	// windows are when a step may begin: in any of them. A step that has begun continues after its window.
	// +optional
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +listType=atomic
	Windows []GateWindow `json:"windows,omitempty"`
	// checks are what is looked at in the cluster. NodesReady: every Node is Ready. EtcdHealthy: the control plane object says
	// EtcdClusterHealthy, as that of kubeadm does. NoDeprecatedAPIs: the API server, which has run for ten minutes at least,
	// has seen no request for an API that the step's version removes. BudgetsCanBeSatisfied: no PodDisruptionBudget forbids every eviction indefinitely.
	// +optional
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4
	// +listType=set
	Checks []GateCheck `json:"checks,omitempty"`
}

// GateApproval makes steps wait for a person.
type GateApproval struct{}

// GateCheck names what is looked at in a cluster.
//
// +kubebuilder:validation:Enum=NodesReady;EtcdHealthy;NoDeprecatedAPIs;BudgetsCanBeSatisfied
type GateCheck string

// GateWindow is a time of the day, on some days of the week.
type GateWindow struct {
	// timeZone is the name of the zone in the IANA database, such as Europe/Berlin or UTC. Summer time counts: where a clock is
	// put forward over from or to, the moment of that counts instead; where it is put back, the window is the longer one.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*$') && self != 'Local'",message="must be the name of a time zone in the IANA database, such as Europe/Berlin or UTC"
	TimeZone string `json:"timeZone,omitempty"`
	// days are those on which the window opens; empty means every day.
	// +optional
	// +kubebuilder:validation:MaxItems=7
	// +kubebuilder:validation:items:Enum=Monday;Tuesday;Wednesday;Thursday;Friday;Saturday;Sunday
	// +listType=set
	Days []string `json:"days,omitempty"`
	// from is when the window opens, such as "22:00".
	// +required
	// +kubebuilder:validation:MaxLength=5
	// +kubebuilder:validation:XValidation:rule="self.matches('^([01][0-9]|2[0-3]):[0-5][0-9]$')",message="must be a time such as \"22:00\", in quotes, from \"00:00\" to \"23:59\""
	From string `json:"from,omitempty"`
	// to is when the window closes: the next day, if it is not later than from.
	// +required
	// +kubebuilder:validation:MaxLength=5
	// +kubebuilder:validation:XValidation:rule="self.matches('^([01][0-9]|2[0-3]):[0-5][0-9]$')",message="must be a time such as \"04:00\", in quotes, from \"00:00\" to \"23:59\""
	To string `json:"to,omitempty"`
}

// UpgradeGateStatus says which Clusters wait at a gate, and which steps were approved.
type UpgradeGateStatus struct {
	// observedGeneration is the generation of the spec that the conditions are about; -1 until `windlass extension` has
	// looked at the object.
	// +optional
	// +default=-1
	// +kubebuilder:validation:Minimum=-1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// waitingCount is how many Clusters wait at the gate: the length of waiting.
	// +optional
	WaitingCount int32 `json:"waitingCount,omitempty"`
	// waiting are the Clusters that wait at the gate. Beyond its bound Clusters wait just as well, but are not listed until others
	// have passed.
	// +optional
	// +kubebuilder:validation:MaxItems=300
	// +listType=map
	// +listMapKey=cluster
	Waiting []GateWaiting `json:"waiting,omitempty"`
	// approvals are the steps that were approved. Each holds for one Cluster, by its uid, at one step to one version, as long as the
	// spec of the gate does not change. It is kept until the Cluster's upgrade has passed AfterClusterUpgrade, or the Cluster is gone,
	// or it is one of the oldest and the list is full; if it is still needed, it is then asked for again.
	// +optional
	// +kubebuilder:validation:MaxItems=400
	// +listType=map
	// +listMapKey=clusterUID
	// +listMapKey=at
	// +listMapKey=version
	Approvals []GateApprovalRecord `json:"approvals,omitempty"`
	// passed are steps that the gate let pass after a Cluster had waited there, and, from the end of an upgrade on, steps that were
	// approved and at which the Cluster never waited. They are in the order in which they were recorded. They are for reports: nothing is
	// decided by them. Where the list is full, the oldest are removed.
	// +optional
	// +kubebuilder:validation:MaxItems=200
	// +listType=atomic
	Passed []GatePassed `json:"passed,omitempty"`
	// conditions are the state of the gate. The known types are Ready, Stalled and Waiting.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=6
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// GatePassed is a step of a Cluster that a gate let pass.
type GatePassed struct {
	// cluster is the name of the Cluster.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Cluster string `json:"cluster,omitempty"`
	// clusterUID is the uid of the Cluster.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	ClusterUID string `json:"clusterUID,omitempty"`
	// at is the lifecycle hook that the gate let pass.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	At GateHook `json:"at,omitempty"`
	// version is the version that the step leads to, or has led to.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Version string `json:"version,omitempty"`
	// since is when the Cluster was first held at this step; absent if the gate did not hold it.
	// +optional
	Since metav1.Time `json:"since,omitzero"`
	// time is when the gate let the step pass; absent if the gate did not hold it.
	// +optional
	Time metav1.Time `json:"time,omitzero"`
	// approvedBy is the by of the approval that counted then; absent if none did.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	ApprovedBy string `json:"approvedBy,omitempty"`
	// approvedTime is the time of the approval that counted then; absent if none did.
	// +optional
	ApprovedTime metav1.Time `json:"approvedTime,omitzero"`
}

// WaitingCondition is the type of the condition of an UpgradeGate that is True while it holds a Cluster. No Cluster waits
// at a gate that is not asked, so False does not say that the gate would let one pass.
const WaitingCondition = "Waiting"

// The reasons of an UpgradeGate's conditions.
const (
	// UpgradeGateValidReason: the gate can be evaluated.
	UpgradeGateValidReason = "Valid"
	// UpgradeGateNoClustersReason: the gate can be evaluated, and is for no Cluster.
	UpgradeGateNoClustersReason = "NoClusters"
	// UpgradeGateInvalidReason: the spec does not parse. The gate holds every upgrade that it might be meant for.
	UpgradeGateInvalidReason = "InvalidSpec"
	// ClustersWaitReason: at least one Cluster waits.
	ClustersWaitReason = "ClustersWait"
	// NoClusterWaitsReason: no Cluster waits.
	NoClusterWaitsReason = "NoClusterWaits"
)

// GateWaiting is a Cluster that waits at a gate.
type GateWaiting struct {
	// cluster is the name of the Cluster.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Cluster string `json:"cluster,omitempty"`
	// clusterUID is the uid of the Cluster.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	ClusterUID string `json:"clusterUID,omitempty"`
	// at is the lifecycle hook at which the Cluster waits.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	At GateHook `json:"at,omitempty"`
	// version is the version that the step leads to, or has led to.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Version string `json:"version,omitempty"`
	// since is when the Cluster was first held at this step.
	// +required
	Since metav1.Time `json:"since,omitzero"`
	// message says what is not met; the whole of it is in the condition TopologyReconciled of the Cluster.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Message string `json:"message,omitempty"`
}

// GateApprovalRecord is an approval of one step of one Cluster.
type GateApprovalRecord struct {
	// cluster is the name of the Cluster.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Cluster string `json:"cluster,omitempty"`
	// clusterUID is the uid of the Cluster, so that an approval does not hold for another one of the same name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	ClusterUID string `json:"clusterUID,omitempty"`
	// at is the lifecycle hook that may continue.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	At GateHook `json:"at,omitempty"`
	// version is the version that the step leads to, or has led to.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Version string `json:"version,omitempty"`
	// generation is the metadata.generation of the gate that was approved at. The approval does not count when the gate's is another.
	// +required
	// +kubebuilder:validation:Minimum=1
	Generation int64 `json:"generation,omitempty"`
	// by is the user name of who approved, as the API server told it to `windlass approve`; the API server's audit log is the proof.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	By string `json:"by,omitempty"`
	// time is when it was approved.
	// +required
	Time metav1.Time `json:"time,omitzero"`
}

// UpgradeGateList is a list of UpgradeGates.
//
// +kubebuilder:object:root=true
type UpgradeGateList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list's metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitzero"`
	// items are the gates.
	Items []UpgradeGate `json:"items"`
}

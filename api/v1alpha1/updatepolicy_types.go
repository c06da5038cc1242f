package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// UpdatePolicy says how the machines of clusters in its namespace are updated. A group of machines (a control plane or a
// MachineDeployment) that no policy selects is replaced machine by machine, as Cluster API does by itself.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Namespaced,categories=windlass
// +kubebuilder:subresource:status
type UpdatePolicy struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`
	// +required
	Spec UpdatePolicySpec `json:"spec,omitzero"`
	// +optional
	Status UpdatePolicyStatus `json:"status,omitzero"`
}

// UpdatePolicySpec is a policy.
type UpdatePolicySpec struct {
	// targets are the groups of machines that the policy is for. Where several policies select a group, the one that names
	// it most precisely counts: by name of the group, by labels of the group, by name of the cluster, by labels of the
	// cluster, any. Two of the same precision block the group's updates with an error that names both.
	// +required
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	Targets []UpdateTarget `json:"targets,omitempty"`
	// strategy is ExternalUpdate to update machines in place by Updaters, or RollingUpdate to replace them.
	// +required
	// +kubebuilder:validation:Enum=ExternalUpdate;RollingUpdate
	Strategy UpdateStrategy `json:"strategy,omitempty"`
	// fallback is what happens where Updaters do not cover a change: RollingUpdate replaces machines, None leaves
	// everything as it is, says what is not covered, and guards the machines against replacement.
	// +optional
	// +default="None"
	// +kubebuilder:validation:Enum=RollingUpdate;None
	Fallback UpdateFallback `json:"fallback,omitempty"`
	// maxInFlight is how many machines of a cluster's MachineDeployments under this policy are updated at once. Cluster
	// API's own limits, such as maxUnavailable, hold as well.
	// +optional
	// +default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	MaxInFlight int32 `json:"maxInFlight,omitempty"`
	// drain says whether nodes are cordoned and drained before the first updater that needs it.
	// +optional
	Drain bool `json:"drain,omitempty"`
	// soakSeconds is how long a node must be Ready at the new version before its update counts as done.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	SoakSeconds int32 `json:"soakSeconds,omitempty"`
	// maxAttempts is how often an updater may try before the update fails finally.
	// +optional
	// +default=3
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	MaxAttempts int32 `json:"maxAttempts,omitempty"`
	// attemptTimeoutSeconds is how long an attempt may take, and how long its result may take to show on the node.
	// +optional
	// +default=1800
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	AttemptTimeoutSeconds int32 `json:"attemptTimeoutSeconds,omitempty"`
	// onFailure is what happens to a machine whose update failed finally: Wait for a person, or Remediate it, which
	// replaces it if a MachineHealthCheck is responsible for it.
	// +optional
	// +default="Wait"
	// +kubebuilder:validation:Enum=Wait;Remediate
	OnFailure UpdateFailureAction `json:"onFailure,omitempty"`
	// ignorePaths are fields that need not be applied to a running machine. They count as covered, and the Machine records
	// them as dirty.
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	IgnorePaths []IgnorePath `json:"ignorePaths,omitempty"`
}

// UpdateTarget selects groups of machines. All fields that are set must match.
type UpdateTarget struct {
	// clusterName is the name of a Cluster.
	// +optional
	ClusterName string `json:"clusterName,omitempty"`
	// clusterSelector selects Clusters by labels.
	// +optional
	ClusterSelector *metav1.LabelSelector `json:"clusterSelector,omitempty"`
	// controlPlane selects the control plane.
	// +optional
	ControlPlane bool `json:"controlPlane,omitempty"`
	// machineDeployments selects MachineDeployments by the name of their topology, or of the object where they have none.
	// With controlPlane, either matches.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	MachineDeployments []string `json:"machineDeployments,omitempty"`
	// selector selects MachineDeployments and control plane objects by labels.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
}

// UpdateStrategy is how machines are updated.
type UpdateStrategy string

// The strategies.
const (
	ExternalUpdate UpdateStrategy = "ExternalUpdate"
	RollingUpdate  UpdateStrategy = "RollingUpdate"
)

// UpdateFallback is what happens where Updaters do not cover a change.
type UpdateFallback string

// The fallbacks.
const (
	FallbackRollingUpdate UpdateFallback = "RollingUpdate"
	FallbackNone          UpdateFallback = "None"
)

// UpdateFailureAction is what happens to a machine whose update failed finally.
type UpdateFailureAction string

// The actions.
const (
	FailureWait      UpdateFailureAction = "Wait"
	FailureRemediate UpdateFailureAction = "Remediate"
)

// IgnorePath names fields that need not be applied to a running machine.
type IgnorePath struct {
	// object is Machine, InfrastructureMachine or BootstrapConfig.
	// +required
	// +kubebuilder:validation:Enum=Machine;InfrastructureMachine;BootstrapConfig
	Object IgnoreObject `json:"object,omitempty"`
	// path is a JSON pointer in the object, such as /spec/backend/docker/customImage. It names the field and all below.
	// In templates, the same field stands under /spec/template.
	// +required
	// +kubebuilder:validation:MaxLength=512
	Path string `json:"path,omitempty"`
}

// IgnoreObject is one of a machine's three objects.
type IgnoreObject string

// UpdatePolicyStatus is what Windlass found out about a policy.
type UpdatePolicyStatus struct {
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// groups are the groups that the policy counts for, in order of their names.
	// +optional
	// +listType=atomic
	Groups []string `json:"groups,omitempty"`
	// conditions are the state of the policy. The known types are Ready and Guarding.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// UpdatePolicyList is a list of UpdatePolicies.
//
// +kubebuilder:object:root=true
type UpdatePolicyList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []UpdatePolicy `json:"items"`
}

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Updater registers a program that can change running machines. Of a change, each Updater says which part it can make;
// where together they cover all of it, they run one after another, and the machine is not replaced.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,categories=windlass
// +kubebuilder:subresource:status
type Updater struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`
	// +required
	Spec UpdaterSpec `json:"spec,omitzero"`
	// +optional
	Status UpdaterStatus `json:"status,omitzero"`
}

// UpdaterSpec says how an updater is reached, and for which machines.
type UpdaterSpec struct {
	// order is the updater's place among others: the lowest is asked, and runs, first; equals by name.
	// +optional
	Order int32 `json:"order,omitempty"`
	// inProcess is an updater that is part of Windlass. Exactly one of inProcess and remote is set.
	// +optional
	InProcess *InProcessUpdater `json:"inProcess,omitempty"`
	// remote is an updater that is reached over HTTPS.
	// +optional
	Remote *RemoteUpdater `json:"remote,omitempty"`
	// namespaceSelector selects the namespaces of machines by their labels; unset means all.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	// selector selects machines by the labels of the Machine, or of the MachineSet's template; unset means all.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// transitions limit which changes of the Kubernetes version the updater makes.
	// +optional
	Transitions Transitions `json:"transitions,omitzero"`
}

// InProcessUpdater names an updater that is part of Windlass.
type InProcessUpdater struct {
	// kind is Simulated.
	// +required
	// +kubebuilder:validation:Enum=Simulated
	Kind InProcessKind `json:"kind,omitempty"`
}

// InProcessKind names an updater that is part of Windlass.
type InProcessKind string

// SimulatedUpdater sets the kubelet version of simulated nodes, and nothing else. It is for development.
const SimulatedUpdater InProcessKind = "Simulated"

// RemoteUpdater says how to reach an updater.
type RemoteUpdater struct {
	// protocol is RuntimeHooks for an updater that serves Cluster API's hooks CanUpdateMachine, CanUpdateMachineSet and
	// UpdateMachine; HandOver for one that is given machines and marks them updated itself.
	// +optional
	// +default="RuntimeHooks"
	// +kubebuilder:validation:Enum=RuntimeHooks;HandOver
	Protocol UpdaterProtocol `json:"protocol,omitempty"`
	// url is the https URL of the updater. Exactly one of url and service is set.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	URL string `json:"url,omitempty"`
	// service is the Service of the updater.
	// +optional
	Service *ServiceReference `json:"service,omitempty"`
	// caBundle holds the certificates, in PEM, one of which must have signed the updater's; unset means the system's.
	// +optional
	CABundle []byte `json:"caBundle,omitempty"`
	// timeoutSeconds is how long one request may take.
	// +optional
	// +default=10
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=20
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`
	// failurePolicy says what an updater that cannot be asked means for a decision: with Fail nothing is decided, with
	// Ignore the updater counts as covering nothing. A running update never ends because of it.
	// +optional
	// +default="Fail"
	// +kubebuilder:validation:Enum=Fail;Ignore
	FailurePolicy UpdaterFailurePolicy `json:"failurePolicy,omitempty"`
}

// UpdaterProtocol is how Windlass talks to a remote updater.
type UpdaterProtocol string

// The protocols.
const (
	RuntimeHooksProtocol UpdaterProtocol = "RuntimeHooks"
	HandOverProtocol     UpdaterProtocol = "HandOver"
)

// UpdaterFailurePolicy says what an updater that cannot be asked means for a decision.
type UpdaterFailurePolicy string

// The failure policies.
const (
	UpdaterFail   UpdaterFailurePolicy = "Fail"
	UpdaterIgnore UpdaterFailurePolicy = "Ignore"
)

// ServiceReference names a Service.
type ServiceReference struct {
	// +required
	Namespace string `json:"namespace,omitempty"`
	// +required
	Name string `json:"name,omitempty"`
	// port is the Service's port.
	// +optional
	// +default=443
	Port int32 `json:"port,omitempty"`
	// path is prepended to the hooks' paths.
	// +optional
	Path string `json:"path,omitempty"`
}

// Transitions limit which changes of the Kubernetes version an updater makes.
type Transitions struct {
	// maxMinors is how many minors the updater can move a kubelet at once; 0 means any number that version skew allows.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10
	MaxMinors int32 `json:"maxMinors,omitempty"`
	// needsDrain says that the node should be drained before the updater runs, where the policy drains.
	// +optional
	NeedsDrain bool `json:"needsDrain,omitempty"`
}

// UpdaterStatus is what Windlass found out about an updater.
type UpdaterStatus struct {
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// lastRequest is what the updater was last asked. It is written at most once a minute.
	// +optional
	LastRequest *UpdaterRequest `json:"lastRequest,omitempty"`
	// conditions are the state of the updater. The known type is Ready.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// UpdaterRequest is one request to an updater, and how it ended.
type UpdaterRequest struct {
	// +required
	Hook string `json:"hook,omitempty"`
	// object is the Machine or MachineSet that the request was about, as namespace/name.
	// +optional
	Object string `json:"object,omitempty"`
	// +required
	Time metav1.Time `json:"time,omitzero"`
	// outcome is Answered or Failed.
	// +required
	Outcome string `json:"outcome,omitempty"`
	// message is what the updater said, or what went wrong.
	// +optional
	Message string `json:"message,omitempty"`
}

// UpdaterList is a list of Updaters.
//
// +kubebuilder:object:root=true
type UpdaterList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []Updater `json:"items"`
}

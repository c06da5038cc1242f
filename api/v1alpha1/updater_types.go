package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Updater registers a program that can change running machines. Of a change, each Updater says which part it can make;
// where together they cover all of it, they run one after another, and the machine is not replaced.
//
// Whether machines are updated in place at all is for an UpdatePolicy to say.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=upd,categories=windlass
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations={"argocd.argoproj.io/sync-options=Delete=false,Prune=false","kustomize.toolkit.fluxcd.io/prune=disabled"}
// +kubebuilder:metadata:labels={"clusterctl.cluster.x-k8s.io=","clusterctl.cluster.x-k8s.io/move="}
// +kubebuilder:printcolumn:name="Order",type=integer,JSONPath=`.spec.order`,description="The place among other Updaters; the lowest is first"
// +kubebuilder:printcolumn:name="In-Process",type=string,JSONPath=`.spec.inProcess.kind`,description="Which part of Windlass it is"
// +kubebuilder:printcolumn:name="Remote",type=string,JSONPath=`.spec.remote.protocol`,description="How it is spoken to over HTTPS"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether it can be asked"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Why it can or cannot be asked"
// +kubebuilder:printcolumn:name="Last Request",type=date,JSONPath=`.status.lastRequest.time`,description="How long ago it was last asked"
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,description="What is wrong and how to fix it",priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63",message="the name of an Updater may have at most 63 characters: annotations of its machines contain it"
type Updater struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`
	// spec says how the updater is reached, and for which machines.
	// +required
	Spec UpdaterSpec `json:"spec,omitzero"`
	// status says whether the updater can be asked.
	// +optional
	// +default={"observedGeneration": -1}
	Status UpdaterStatus `json:"status,omitzero"`
}

// UpdaterSpec says how an updater is reached, and for which machines.
//
// +kubebuilder:validation:XValidation:rule="has(self.inProcess) != has(self.remote)",message="set exactly one of inProcess and remote"
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
	// namespaceSelector selects the namespaces of machines by their labels; unset or empty means all.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	// selector selects machines by the labels of the Machine, or of the MachineSet's template; unset or empty means all.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// transitions limit which changes of the Kubernetes version the updater makes.
	// +optional
	Transitions Transitions `json:"transitions,omitzero"`
}

// InProcessUpdater names an updater that is part of Windlass.
//
// +kubebuilder:validation:XValidation:rule="has(self.k8sd) == (self.kind == 'K8sd')",message="set k8sd where kind is K8sd, and only there"
// +kubebuilder:validation:XValidation:rule="has(self.host) == (self.kind in ['Kubeadm', 'RKE2', 'K3s'])",message="set host where kind is Kubeadm, RKE2 or K3s, and only there"
type InProcessUpdater struct {
	// kind is K8sd for one that refreshes the snap of Canonical Kubernetes, and Kubeadm, RKE2 or K3s for one that upgrades Linux hosts that were made with these.
	// +required
	// +kubebuilder:validation:Enum=K8sd;Kubeadm;RKE2;K3s
	Kind InProcessKind `json:"kind,omitempty"`
	// k8sd says how k8sd on the nodes is reached, and whom to trust as k8sd. It is required where kind is K8sd.
	// +optional
	K8sd *K8sdConfig `json:"k8sd,omitempty"`
	// host says how hosts are reached, and where binaries come from. It is required where kind is Kubeadm, RKE2 or K3s.
	// +optional
	Host *HostConfig `json:"host,omitempty"`
}

// InProcessKind names an updater that is part of Windlass.
type InProcessKind string

// ForHosts reports whether updaters of the kind upgrade Linux hosts, for which HostConfig counts.
func (k InProcessKind) ForHosts() bool {
	return k == KubeadmUpdater || k == RKE2Updater || k == K3sUpdater
}

// The updaters that are part of Windlass.
const (
	// K8sdUpdater asks k8sd on each node to refresh the node's snap of Canonical Kubernetes.
	K8sdUpdater InProcessKind = "K8sd"
	// KubeadmUpdater upgrades Kubernetes on hosts that kubeadm made.
	KubeadmUpdater InProcessKind = "Kubeadm"
	// RKE2Updater upgrades hosts that run RKE2.
	RKE2Updater InProcessKind = "RKE2"
	// K3sUpdater upgrades hosts that run K3s.
	K3sUpdater InProcessKind = "K3s"
)

// RemoteUpdater says how to reach an updater. The connection is always TLS, and the updater's certificate is always verified.
//
// +kubebuilder:validation:XValidation:rule="has(self.url) != has(self.service)",message="set exactly one of url and service"
type RemoteUpdater struct {
	// protocol is RuntimeHooks for an updater that serves Cluster API's hooks CanUpdateMachine, CanUpdateMachineSet and
	// UpdateMachine; HandOver for one that is given machines and marks them updated itself.
	// +optional
	// +default="RuntimeHooks"
	// +kubebuilder:validation:Enum=RuntimeHooks;HandOver
	Protocol UpdaterProtocol `json:"protocol,omitempty"`
	// url is the https URL of the updater, to which the hooks' paths are appended. Exactly one of url and service is set.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.startsWith('https://')",message="must begin with https://, also where the updater runs on this machine: updaters are reached over TLS only"
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('https://') || (isURL(self) && size(url(self).getHostname()) > 0)",message="must be a URL with a host, such as https://updater.example:8443/hooks"
	// +kubebuilder:validation:XValidation:rule="!self.matches('[?#]|^[^/]*//[^/]*@')",message="must have no query, fragment or user info: a URL of an updater is a host, a port and a path"
	URL string `json:"url,omitempty"`
	// service is the Service of the updater. Its certificate must be for NAME.NAMESPACE.svc.
	// +optional
	Service *ServiceReference `json:"service,omitempty"`
	// caBundle holds the certificates, in PEM, one of which must have signed the updater's; unset means the system's.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=262144
	// +kubebuilder:validation:XValidation:rule="string(self).contains('-----BEGIN CERTIFICATE-----')",message="must hold certificates in PEM, encoded in base64 as a whole"
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
	// namespace is the namespace of the Service.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be the name of a namespace: lower case letters, digits and hyphens"
	Namespace string `json:"namespace,omitempty"`
	// name is the name of the Service.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be the name of a Service: lower case letters, digits and hyphens"
	Name string `json:"name,omitempty"`
	// port is the Service's port.
	// +optional
	// +default=443
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`
	// path is prepended to the hooks' paths.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="isURL(self) && self.startsWith('/') && !self.startsWith('//') && !self.matches('[?#]')",message="must be a path that begins with one slash, without query or fragment, such as /hooks"
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
	// observedGeneration is the generation of the spec that the conditions are about; -1 until `windlass extension` has looked at
	// the object.
	// +optional
	// +default=-1
	// +kubebuilder:validation:Minimum=-1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// lastRequest is what the updater was last asked. It is written at most once a minute.
	// +optional
	LastRequest *UpdaterRequest `json:"lastRequest,omitempty"`
	// digestsSerial is the highest serial of a signed manifest of digests that was seen. Manifests with a lower one are refused.
	// +optional
	// +kubebuilder:validation:Minimum=1
	DigestsSerial int64 `json:"digestsSerial,omitempty"`
	// conditions are the state of the updater. The known types are Ready and Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// UpdaterRequest is one request to an updater, and how it ended.
type UpdaterRequest struct {
	// hook is the name of the request, such as CanUpdateMachine.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Hook string `json:"hook,omitempty"`
	// object is the Machine or MachineSet that the request was about, as namespace/name.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Object string `json:"object,omitempty"`
	// time is when the request was made.
	// +required
	Time metav1.Time `json:"time,omitzero"`
	// outcome is Answered where the updater gave an answer that can be used, whatever it says; otherwise Failed.
	// +required
	// +kubebuilder:validation:Enum=Answered;Failed
	Outcome UpdaterRequestOutcome `json:"outcome,omitempty"`
	// message is what the updater said, or what went wrong.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	Message string `json:"message,omitempty"`
}

// UpdaterRequestOutcome is how a request to an updater ended.
type UpdaterRequestOutcome string

// The outcomes.
const (
	RequestAnswered UpdaterRequestOutcome = "Answered"
	RequestFailed   UpdaterRequestOutcome = "Failed"
)

// The reasons of an Updater's ReadyCondition.
const (
	// UpdaterReachableReason: the updater answered when it was last looked at.
	UpdaterReachableReason = "Reachable"
	// UpdaterUnreachableReason: the updater did not answer, or not as an updater does. What that means for decisions is up to
	// its failurePolicy.
	UpdaterUnreachableReason = "Unreachable"
	// UpdaterInvalidReason: the spec cannot be used, such as a selector that does not parse. Nothing is decided for machines
	// that the Updater may be meant for.
	UpdaterInvalidReason = "InvalidSpec"
)

// UpdaterList is a list of Updaters.
//
// +kubebuilder:object:root=true
type UpdaterList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list's metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitzero"`
	// items are the Updaters.
	Items []Updater `json:"items"`
}

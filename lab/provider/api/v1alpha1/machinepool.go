package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// HostMachinePool is a HostMachine for each replica of a MachinePool. Machines that are outdated are replaced one after another.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=hostmachinepools,scope=Namespaced,categories=cluster-api
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:printcolumn:name="Replicas",type=integer,JSONPath=".status.replicas"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=".status.conditions[?(@.type=='Ready')].status"
type HostMachinePool struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              HostMachinePoolSpec   `json:"spec,omitempty"`
	Status            HostMachinePoolStatus `json:"status,omitempty"`
}

// HostMachinePoolSpec is what a HostMachinePool should be.
type HostMachinePoolSpec struct {
	// providerIDList has the provider IDs of the pool's machines. The provider sets it.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10000
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=512
	ProviderIDList []string `json:"providerIDList,omitempty"`
	// diskSize is how much each host can write.
	// +optional
	DiskSize *resource.Quantity `json:"diskSize,omitempty"`
}

// HostMachinePoolStatus is what a HostMachinePool is.
type HostMachinePoolStatus struct {
	// initialization tells Cluster API that all machines were there once.
	// +optional
	Initialization Initialization `json:"initialization,omitempty,omitzero"`
	// ready is initialization.provisioned. The MachinePool controller of Cluster API v1.14 reads this field of an older
	// contract only (controllers/external, IsReady).
	// +optional
	Ready bool `json:"ready,omitempty"`
	// infrastructureMachineKind is HostMachine.
	// +optional
	InfrastructureMachineKind string `json:"infrastructureMachineKind,omitempty"`
	// replicas counts the machines that are not being deleted.
	// +optional
	Replicas int32 `json:"replicas"`
	// conditions are Ready and Paused.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// GetConditions implements conditions.Getter.
func (p *HostMachinePool) GetConditions() []metav1.Condition { return p.Status.Conditions }

// SetConditions implements conditions.Setter.
func (p *HostMachinePool) SetConditions(conditions []metav1.Condition) {
	p.Status.Conditions = conditions
}

// HostMachinePoolList is a list of HostMachinePools.
//
// +kubebuilder:object:root=true
type HostMachinePoolList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []HostMachinePool `json:"items"`
}

// HostMachinePoolTemplate is what a ClusterClass makes HostMachinePools from. Its spec may be changed, so no webhook has to let
// Cluster API's dry runs pass.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=hostmachinepooltemplates,scope=Namespaced,categories=cluster-api
// +kubebuilder:storageversion
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
type HostMachinePoolTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              HostMachinePoolTemplateSpec `json:"spec,omitempty"`
}

// HostMachinePoolTemplateSpec has the template.
type HostMachinePoolTemplateSpec struct {
	Template HostMachinePoolTemplateResource `json:"template"`
}

// HostMachinePoolTemplateResource is a HostMachinePool to be made.
type HostMachinePoolTemplateResource struct {
	// metadata is added to the HostMachinePool's.
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`
	Spec       HostMachinePoolSpec  `json:"spec"`
}

// HostMachinePoolTemplateList is a list of HostMachinePoolTemplates.
//
// +kubebuilder:object:root=true
type HostMachinePoolTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []HostMachinePoolTemplate `json:"items"`
}

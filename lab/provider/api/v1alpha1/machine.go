package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// HostMachine is a host. These annotations make it suffer while they are there:
// fault.lab.windlass.dev/power-off, /disk-full and /network-lost with the value "true", and
// /slow-disk with a duration.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=hostmachines,scope=Namespaced,categories=cluster-api
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=".status.version"
// +kubebuilder:printcolumn:name="Address",type=string,JSONPath=".status.addresses[0].address"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=".status.conditions[?(@.type=='Ready')].status"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=".status.conditions[?(@.type=='Ready')].reason"
type HostMachine struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              HostMachineSpec   `json:"spec,omitempty"`
	Status            HostMachineStatus `json:"status,omitempty"`
}

// HostMachineSpec is what a HostMachine should be. What its host was made from does not change with it.
type HostMachineSpec struct {
	// providerID is that of the Node. The provider sets it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	ProviderID string `json:"providerID,omitempty"`
	// diskSize is how much the host can write.
	// +optional
	DiskSize *resource.Quantity `json:"diskSize,omitempty"`
	// pool is set on the machines of a HostMachinePool. Others have what is in it from their Machine.
	// +optional
	Pool *PoolMember `json:"pool,omitempty"`
}

// PoolMember is what a machine of a pool has from the MachinePool.
type PoolMember struct {
	// version of Kubernetes.
	// +optional
	Version string `json:"version,omitempty"`
	// dataSecretName is the Secret with the user data.
	DataSecretName string `json:"dataSecretName"`
}

// HostMachineStatus is what a HostMachine is.
type HostMachineStatus struct {
	// initialization tells Cluster API that the host runs.
	// +optional
	Initialization Initialization `json:"initialization,omitempty,omitzero"`
	// bootstrapped means that the host has carried out its user data with success. The host itself forgets it
	// at a power cut.
	// +optional
	Bootstrapped bool `json:"bootstrapped,omitempty"`
	// version of Kubernetes that the host was made with.
	// +optional
	Version string `json:"version,omitempty"`
	// failureDomain is that of the Machine.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	FailureDomain string `json:"failureDomain,omitempty"`
	// addresses of the host.
	// +optional
	// +listType=atomic
	Addresses []clusterv1.MachineAddress `json:"addresses,omitempty"`
	// conditions are Ready and Paused.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// GetConditions implements conditions.Getter.
func (m *HostMachine) GetConditions() []metav1.Condition { return m.Status.Conditions }

// SetConditions implements conditions.Setter.
func (m *HostMachine) SetConditions(conditions []metav1.Condition) { m.Status.Conditions = conditions }

// InternalIP returns the host's address; empty before there is one.
func (m *HostMachine) InternalIP() string {
	for _, address := range m.Status.Addresses {
		if address.Type == clusterv1.MachineInternalIP {
			return address.Address
		}
	}
	return ""
}

// HostMachineList is a list of HostMachines.
//
// +kubebuilder:object:root=true
type HostMachineList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []HostMachine `json:"items"`
}

// HostMachineTemplate is what Cluster API makes HostMachines from. Its spec may be changed, so no webhook has to let
// Cluster API's dry runs pass.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=hostmachinetemplates,scope=Namespaced,categories=cluster-api
// +kubebuilder:storageversion
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
type HostMachineTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              HostMachineTemplateSpec `json:"spec,omitempty"`
}

// HostMachineTemplateSpec has the template.
type HostMachineTemplateSpec struct {
	Template HostMachineTemplateResource `json:"template"`
}

// HostMachineTemplateResource is a HostMachine to be made.
type HostMachineTemplateResource struct {
	// metadata is added to the HostMachine's.
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`
	Spec       HostMachineSpec      `json:"spec"`
}

// HostMachineTemplateList is a list of HostMachineTemplates.
//
// +kubebuilder:object:root=true
type HostMachineTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []HostMachineTemplate `json:"items"`
}

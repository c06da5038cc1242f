package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// HostCluster is the load balancer of a Cluster's API servers.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=hostclusters,scope=Namespaced,categories=cluster-api
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:printcolumn:name="Endpoint",type=string,JSONPath=".spec.controlPlaneEndpoint.host"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=".status.conditions[?(@.type=='Ready')].status"
type HostCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              HostClusterSpec   `json:"spec,omitempty"`
	Status            HostClusterStatus `json:"status,omitempty"`
}

// HostClusterSpec is what a HostCluster should be.
type HostClusterSpec struct {
	// controlPlaneEndpoint is where the API servers are reached. Where it is not set, the provider makes a load balancer and
	// sets it.
	// +optional
	ControlPlaneEndpoint clusterv1.APIEndpoint `json:"controlPlaneEndpoint,omitempty,omitzero"`
	// failureDomains are names among which Cluster API spreads machines. They mean nothing to hosts.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	FailureDomains []string `json:"failureDomains,omitempty"`
}

// HostClusterStatus is what a HostCluster is.
type HostClusterStatus struct {
	// initialization tells Cluster API that the Cluster's infrastructure is there.
	// +optional
	Initialization Initialization `json:"initialization,omitempty,omitzero"`
	// loadBalancer is the address of the load balancer that the provider has made.
	// +optional
	LoadBalancer string `json:"loadBalancer,omitempty"`
	// failureDomains are those of the spec, as Cluster API reads them.
	// +optional
	// +listType=map
	// +listMapKey=name
	FailureDomains []clusterv1.FailureDomain `json:"failureDomains,omitempty"`
	// conditions are Ready and Paused.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Initialization is set once by the provider, and stays.
// +kubebuilder:validation:MinProperties=1
type Initialization struct {
	// provisioned means that the infrastructure is there.
	// +optional
	Provisioned *bool `json:"provisioned,omitempty"`
}

// GetConditions implements conditions.Getter.
func (c *HostCluster) GetConditions() []metav1.Condition { return c.Status.Conditions }

// SetConditions implements conditions.Setter.
func (c *HostCluster) SetConditions(conditions []metav1.Condition) { c.Status.Conditions = conditions }

// HostClusterList is a list of HostClusters.
//
// +kubebuilder:object:root=true
type HostClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []HostCluster `json:"items"`
}

// HostClusterTemplate is what a ClusterClass makes HostClusters from. Its spec may be changed, so no webhook has to let
// Cluster API's dry runs pass.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=hostclustertemplates,scope=Namespaced,categories=cluster-api
// +kubebuilder:storageversion
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
type HostClusterTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              HostClusterTemplateSpec `json:"spec,omitempty"`
}

// HostClusterTemplateSpec has the template.
type HostClusterTemplateSpec struct {
	Template HostClusterTemplateResource `json:"template"`
}

// HostClusterTemplateResource is a HostCluster to be made.
type HostClusterTemplateResource struct {
	// metadata is added to the HostCluster's.
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`
	Spec       HostClusterSpec      `json:"spec"`
}

// HostClusterTemplateList is a list of HostClusterTemplates.
//
// +kubebuilder:object:root=true
type HostClusterTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []HostClusterTemplate `json:"items"`
}

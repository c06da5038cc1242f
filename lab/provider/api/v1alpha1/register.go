package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion of all kinds of this package.
var GroupVersion = schema.GroupVersion{Group: "infrastructure.cluster.x-k8s.io", Version: "v1alpha1"}

// AddToScheme registers the kinds.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&HostCluster{}, &HostClusterList{}, &HostClusterTemplate{}, &HostClusterTemplateList{},
		&HostMachine{}, &HostMachineList{}, &HostMachineTemplate{}, &HostMachineTemplateList{},
		&HostMachinePool{}, &HostMachinePoolList{}, &HostMachinePoolTemplate{}, &HostMachinePoolTemplateList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

package capi

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
)

// etcdClusterHealthy is the condition of KubeadmControlPlanes with etcd of their own. It takes the etcd
// members of all Machines together, and compares them with etcd's own list.
const etcdClusterHealthy = controlplanev1.KubeadmControlPlaneEtcdClusterHealthyCondition

// EtcdProblem returns what a control plane object reports to be wrong with etcd, empty if nothing is.
// The error is that of an object which does not report on etcd.
func EtcdProblem(object *unstructured.Unstructured) (problem string, err error) {
	name := object.GetKind() + " " + object.GetName()
	condition := FindCondition(object, etcdClusterHealthy)
	switch {
	case condition == nil:
		return "", fmt.Errorf("%s has no condition %s, which is that of KubeadmControlPlanes with etcd of their own",
			name, etcdClusterHealthy)
	case condition.Status == metav1.ConditionTrue:
		return "", nil
	default:
		return fmt.Sprintf("%s reports %v: %v", name, condition.Reason, condition.Message), nil
	}
}

package updatepolicy_test

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/policy"
)

var (
	controlPlane = policy.Group{
		Namespace: "ns", Cluster: "prod", ClusterLabels: map[string]string{"tier": "gold"}, ControlPlane: true,
		Topology: "prod-cp", Object: "prod-cp", Labels: map[string]string{"hardware": "big"},
	}
	workers = policy.Group{
		Namespace: "ns", Cluster: "prod", ClusterLabels: map[string]string{"tier": "gold"},
		Topology: "md-0", Object: "prod-md-0-x7k2p", Labels: map[string]string{"hardware": "gpu"},
	}
)

func labelled(key, value string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
}

// broken is a selector that the CRD's schema accepts and that does not parse.
func broken() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "hardware", Operator: "Is"}}}
}

func newPolicy(name string, targets ...v1alpha1.UpdateTarget) v1alpha1.UpdatePolicy {
	return v1alpha1.UpdatePolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Generation: 3},
		Spec:       v1alpha1.UpdatePolicySpec{Targets: targets, Strategy: v1alpha1.ExternalUpdate},
	}
}

type target = v1alpha1.UpdateTarget

func names(items ...v1alpha1.MachineDeploymentName) []v1alpha1.MachineDeploymentName { return items }

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

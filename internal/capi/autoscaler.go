package capi

import "k8s.io/apimachinery/pkg/labels"

// AutoscalerSelectors select the Deployments of cluster autoscalers, by the labels of their chart and example.
func AutoscalerSelectors() []labels.Selector {
	return []labels.Selector{
		labels.SelectorFromSet(labels.Set{"app": "cluster-autoscaler"}),
		labels.SelectorFromSet(labels.Set{"app.kubernetes.io/name": "cluster-autoscaler"}),
		labels.SelectorFromSet(labels.Set{"app.kubernetes.io/name": "clusterapi-cluster-autoscaler"}),
	}
}

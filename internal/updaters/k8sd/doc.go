// Package k8sd is an updater for Canonical Kubernetes: it asks k8sd, the daemon on each node, to refresh the node's snap, and follows the change.
//
// What it has asked for stands on the Machine, in v1alpha1.RefreshAnnotation, from before the request. So a crash at any point is made up for by
// looking, and nothing is refreshed twice blindly.
package k8sd

// Package v1alpha1 holds the kinds of the lab's infrastructure provider, by Cluster API's contract v1beta2. Its machines are
// hosts of this machine.
//
// +kubebuilder:object:generate=true
// +groupName=infrastructure.cluster.x-k8s.io
package v1alpha1

//go:generate go tool -modfile=../../../../tools/go.mod controller-gen object crd paths=. output:crd:dir=../../crds

// Package v1alpha1 holds the API types of the group windlass.dev. It depends on apimachinery only, so that other
// programs can use the types without the rest of Windlass.
//
// +kubebuilder:object:generate=true
// +groupName=windlass.dev
package v1alpha1

//go:generate go tool -modfile=../../tools/go.mod controller-gen object crd paths=. output:crd:dir=../../config/crd/bases
//go:generate go run ../../config/crd/bound ../../config/crd/bases

// Package kubeadmpatches compares internal/kubeadmpatch with kubeadm's own code, which applies patches
// to manifests: no patch that Check accepts changes another field than a safe one, in whatever manifest,
// and CheckEffect notices every patch that does.
//
// kubeadm v1.34, v1.35 and v1.36 have the same code for that. Their versions of json-patch differ in
// the texts of errors, and in a panic on a null in v1.34, which Check refuses.
//
// It is a module of its own, so that the product does not depend on kubeadm.
package kubeadmpatches

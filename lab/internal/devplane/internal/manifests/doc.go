// Package manifests turns the manifests in Cluster API's modules, which kustomize would finish for a real cluster, into what a
// development plane applies. It is pure: bytes in, bytes out.
package manifests

// Package neighbours pins programs that users run beside Windlass, at the versions that its tests run:
// cert-manager, by a command of its own, the Cluster API Operator and Flux's kustomize-controller, as
// tools.
package neighbours

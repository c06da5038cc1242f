// Package settings decides which settings of Kubernetes' components a version lacks: command-line
// flags, feature gates and fields of the kubelet's configuration. A component does not start with a
// flag or gate that it does not know, nor with a gate that is locked to another value.
//
// The catalog in catalog.txt holds the settings of each minor. A program of the lab reads them from
// the components themselves.
//
// Everything here is pure: no client, no clock, and inputs are never changed. All functions are safe
// for concurrent use. No finding has the value of a flag, because some are secret.
package settings

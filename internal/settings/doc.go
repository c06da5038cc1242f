// Package settings decides which settings of Kubernetes' components a version lacks: command-line
// flags, feature gates, fields of the kubelet's configuration, and APIs of configuration files. A
// component does not start with a flag, gate or API that it does not know, nor with a gate that is
// locked to another value.
//
// The catalog in catalog.txt holds the settings of each minor. A program of the lab reads them from
// the components themselves. The APIs of files are in apis.go, and values that some version rejects in
// values.go.
//
// Everything here is pure: no client, no clock, and inputs are never changed. All functions are safe
// for concurrent use. No finding has the value of a flag, because some are secret.
package settings

// Package simulated is an updater for development: it sets the kubelet version that simulated nodes report, takes its time,
// and misbehaves on request.
package simulated

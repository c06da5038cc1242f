// Package preflight decides what in a workload cluster would stop or harm an upgrade, from what was
// read of it. `windlass preflight` reports the findings. Package clustercheck decides whether the
// cluster works; its checks of the API server, Nodes and certificates are part of a preflight.
// Package probe reads.
//
// Everything here is pure: no client, no clock, and inputs are never changed. All functions are safe
// for concurrent use. Findings are sorted by subject.
package preflight

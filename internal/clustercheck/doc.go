// Package clustercheck decides whether a workload cluster works, from what was read of it and tried in it: `windlass check
// cluster` asks that after an upgrade, and a pipeline asks it before it approves the next step. Package probe reads and tries.
//
// Everything here is pure: no client, no clock, and inputs are never changed. All functions are safe for concurrent use.
package clustercheck

// Package status reports how the upgrade of a cluster and the in-place updates of its machines stand: from what Cluster API and
// Windlass have recorded on the objects, without asking anybody.
//
// Everything here is pure: no client, no clock, and inputs are never changed. All functions are safe for concurrent use.
package status

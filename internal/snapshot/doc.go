// Package snapshot reads Cluster API objects into the values that plans are made from. It is the only place where that
// translation is written: for manifests, for a live management cluster, for the extension and for the engine.
//
// Everything here is pure: no client, no clock, and inputs are never changed. All functions are safe for concurrent use.
package snapshot

// Package doctor examines whether the machines of a cluster can be updated in place on stock Cluster API, and says what would
// be replaced, why, and what to change.
//
// Everything here is pure: no client, no clock, and inputs are never changed. All functions are safe for concurrent use.
package doctor

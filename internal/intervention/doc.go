// Package intervention decides what a person who steps in changes: windlass retry, abandon, pause
// and resume. It decides on the objects of one Cluster, and returns what to write to which of them,
// or why nothing is to be written.
//
// Everything here is pure: no client, no clock, and inputs are never changed. All functions are
// safe for concurrent use.
package intervention

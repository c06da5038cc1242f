// Package journal is what a client of a cluster knows: each write that the API acknowledged, and
// each attempt that failed. It measures how long the API was unavailable, and compares the writes
// with what a member of etcd has.
//
// It reads no clock and calls nobody. Package recorder is the client.
package journal

// Package demo upgrades a simulated cluster on a plane of stock Cluster API and compares what was planned with what
// happened: a Scenario says which cluster and where it goes, Run carries it out, an Observation is what the API server's
// objects say at one moment, and a Recorder turns a series of them into operations.
package demo

// Package probe makes the checks of package clustercheck: it reads a workload cluster, and tries what users do in a namespace
// of its own there, which it deletes.
package probe

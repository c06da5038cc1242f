// Package metrics serves the states of upgrades, gates and updates in place of many Clusters to
// Prometheus. The page docs/reference/metrics.md lists its families.
//
// Labels name Clusters and MachineDeployments, never Machines. Each family has a bounded number of
// label sets; the label sets that exceed it are counted.
package metrics

// Package metrics serves what upgrades, gates and updates in place of many Clusters come to, for
// Prometheus. The page docs/reference/metrics.md lists its families.
//
// Labels name Clusters, never Machines. Each family has a bounded number of label sets; what
// exceeds it is counted.
package metrics

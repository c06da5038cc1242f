// Package upgradegraph translates UpgradeGraph objects: into values for the planner, into the choice of the graph that
// serves a cluster, and into the graph's own status. All of it is pure and safe for concurrent use.
package upgradegraph

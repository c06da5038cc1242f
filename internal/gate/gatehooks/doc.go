// Package gatehooks answers Cluster API's lifecycle hooks from UpgradeGates: it finds the gates at a
// step, reads the facts that package gate needs, and records which Clusters wait.
package gatehooks

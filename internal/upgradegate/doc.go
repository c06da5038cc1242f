// Package upgradegate translates UpgradeGates: which of them are at a step of a Cluster's upgrade, and what their status says and
// should say. It reads and writes nothing itself.
package upgradegate

// Package controllers keeps the status of Windlass' objects and starts work that no hook starts.
//
// Each controller has a file: UpdatePolicies and the scope of the guard (updatepolicy), Updaters
// (updater), UpgradeGraphs (upgradegraph), UpgradeGates (upgradegate), conflicts between ExtensionConfigs (extensionconfig),
// annotations that request in-place upgrades (annotations), and the marks of groups and Machines whose
// update ended without a hook call (blocked). The controller of Clusters is in package topology.
package controllers

// Package updatercmd is windlass updater: it verifies updaters, upgrades one Linux host, and writes manifests
// of digests.
package updatercmd

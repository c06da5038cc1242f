// Package preflightcmd is windlass preflight: it reads a workload cluster before an upgrade.
package preflightcmd

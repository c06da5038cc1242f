// Package logscmd is windlass logs: it prints what the steps of updates have printed on hosts.
package logscmd

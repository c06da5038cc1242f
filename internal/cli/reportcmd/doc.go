// Package reportcmd is windlass report: it puts plan and reality of an upgrade side by side.
package reportcmd

// Package approvecmd is windlass approve: it lets an upgrade continue at gates that need approval.
package approvecmd

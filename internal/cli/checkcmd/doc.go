// Package checkcmd is windlass check and windlass check cluster.
package checkcmd

// Package servertest starts updaters' servers for tests.
package servertest

// Package servertest starts updaters' servers for tests, and checks that an implementation of
// port.Updater keeps its contract.
package servertest

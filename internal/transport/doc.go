// Package transport contains what the transports of scripts share: how bash is started as root on a
// host, how it gets a script that no process list shows, and how its output proves that it became root,
// that the script ended, and how. A transport is not trusted to know this: the exit status that an API
// server reports is 0 when a connection ended early.
package transport

// Package wire is the HTTPS client that talks to remote updaters: one POST of JSON, bounded in time and size, verified, never
// redirected, with errors that say what went wrong and what would mend it.
package wire

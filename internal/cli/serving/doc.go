// Package serving contains the flags of commands that serve hooks for a management cluster, and checks their
// certificates before anything is started.
package serving

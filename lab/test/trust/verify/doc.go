// Package verify holds tests of `windlass updater verify` as people run it: a process that asks another process over TLS.
package verify

// Package request decides about in-place upgrades that an annotation requests, of one machine and of the
// machines of a group: when an upgrade is admitted, what is recorded of it, and when it is given up.
// Package inplace decides and carries out what then happens to the machine (drain, updater, verification,
// soak, attempts).
package request

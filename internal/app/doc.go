// Package app sets up what the commands extension and manager consist of.
//
// The extension serves the hooks for upgrade plans, gates and in-place updates, the guard, and the
// controllers that keep the status of Windlass' own objects. The manager runs what Cluster API's core
// manager runs, from its own packages, with Windlass' pieces in the place of some of them: the same
// objects, flags, lease, webhooks and certificates, so that either may follow the other at any moment.
// manager_pieces.go lists the pieces.
package app

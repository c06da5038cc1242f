// Package linuxhost upgrades Kubernetes on one Linux host: it decides which steps the upgrade takes,
// which of them are done and what comes next, and carries them out through port.Host.
//
// It keeps no state: every call reads from the host how far the upgrade has come, so any process can
// continue an upgrade that another one began.
package linuxhost

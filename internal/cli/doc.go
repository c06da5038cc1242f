// Package cli contains what the commands of windlass and windlass-lab share: how a program ends, its
// exit codes, and the flags of its log.
package cli

// Package wire is what the parts of a test host say to each other: the test, the machine (the process that holds the
// host's disk) and PID 1 inside the host. Everything is JSON, one value after another.
package wire

import "time"

// Paths inside the host.
const (
	// Socket is where PID 1 listens.
	Socket = "/run/init.sock"
	// Binary is the multi-call binary; systemctl and the others are links to it.
	Binary = "/usr/lib/windlass-hosts/init"
	// Journal holds one file for each unit's output. It is not on the host's disk: a full disk does not stop it, and it
	// outlives power cuts.
	Journal = "/var/log/journal"
)

// Mode is what a copy of the multi-call binary is told to be by the environment variable ModeVariable.
const (
	ModeVariable = "WINDLASS_HOSTS_MODE"
	ModeMachine  = "machine"
	ModePID1     = "pid1"
)

// Setup is the first thing a machine reads: the disk to make.
type Setup struct {
	// State is the folder, shared by all tests of this machine, that holds the locks.
	State string
	// Size of the disk in bytes.
	Size int64
	// Empty are folders in which nothing of the machine's shows.
	Empty []string
}

// Ready answers Setup.
type Ready struct {
	Error string `json:",omitempty"`
	// Disk is the host's root, Journal what units write; both as the machine's process sees them.
	Disk, Journal string
	// Link is the name of the machine's end of the cable.
	Link string
	// Host and Gateway are the addresses of both ends.
	Host, Gateway string
}

// Action is what a machine does.
type Action string

// The actions.
const (
	Boot Action = "boot"
	Cut  Action = "cut"
	Fill Action = "fill" // nothing more fits on the disk
	Free Action = "free" // the disk has its size again
)

// Command is what a machine does next.
type Command struct {
	Action  Action
	Options BootOptions
}

// BootOptions go with Boot.
type BootOptions struct {
	Hostname string
	// GatewayPID is a process whose network namespace gets the other end of the cable; 0 is the machine's own.
	GatewayPID int
	// Routed is [hosts.Options.Routed].
	Routed bool
	// ReadOnly are folders that cannot be written to.
	ReadOnly []string
	// SyncDelay is how much longer each fsync takes.
	SyncDelay time.Duration
}

// Done answers a Command.
type Done struct {
	Error string `json:",omitempty"`
	// PID of the host's PID 1, as the machine numbers it; after Boot.
	PID int
}

// PID1 is what the machine tells PID 1 before it boots.
type PID1 struct {
	Root, Journal, Hostname, Address, Gateway string
	ReadOnly                                  []string
	SyncDelay                                 time.Duration
}

// Request is one request to PID 1. Args is the command line of a client (systemctl, systemd-run, journalctl), Script a bash
// script to run as root, ReadOnly and Writable folders to mount so. Shutdown ends all processes but PID 1.
// SyncDelay is BootOptions.SyncDelay.
type Request struct {
	SyncDelay          *time.Duration `json:",omitempty"`
	Shutdown           bool           `json:",omitempty"`
	Args               []string       `json:",omitempty"`
	Script             string         `json:",omitempty"`
	ReadOnly, Writable string         `json:",omitempty"`
}

// Response is what the client prints, and its exit status.
type Response struct {
	Stdout, Stderr []byte `json:",omitempty"`
	Code           int
}

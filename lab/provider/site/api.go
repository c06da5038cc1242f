package site

import "time"

// Host is what a host is made from. It cannot be changed afterwards.
type Host struct {
	// Name is the host name.
	Name string
	// Version of Kubernetes whose programs the host has.
	Version string
	// DiskSize in bytes. 0 is the version's default.
	DiskSize int64
	// Files to write before the first boot: path -> content.
	Files map[string][]byte
	// Unit is started once after each boot. Its end is a change of the host.
	Unit string
}

// Condition is what a host suffers. The zero value is a host that works.
type Condition struct {
	// PowerOff is a power cut: everything in the host dies at once, and the disk stays.
	PowerOff bool
	// Disconnected takes the network away.
	Disconnected bool
	// DiskFull leaves no room on the disk.
	DiskFull bool
	// SyncDelay is how much longer each synchronous write to the disk takes.
	SyncDelay time.Duration
}

// HostStatus is a host as it is.
type HostStatus struct {
	ID, Name, Version string
	// Address is the IPv4 address, the same after every boot.
	Address   string
	Condition Condition
	// UnitEnded reports that the host's unit has ended since the last boot.
	UnitEnded bool
}

// Login is what connections to a host's sshd need, as root.
type Login struct {
	// Identity is the private key, the same for all hosts of a site. KnownHosts is the host's key in the form of
	// known_hosts.
	Identity, KnownHosts []byte
}

// Script is a script that has run in a host.
type Script struct {
	Output string
	Code   int
}

// BalancerStatus is a load balancer as it is.
type BalancerStatus struct {
	// Address is its IPv4 address. It listens on BalancerPort.
	Address string
	// Ready are the backends that are ready, HOST:PORT, sorted.
	Ready []string
}

// BalancerPort is the port on which load balancers listen.
const BalancerPort = 6443

package engine

import (
	"time"

	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/shares"
)

// How many reconciles and calls are served at once, in all and of one namespace. Each may wait for
// servers and hosts of its tenant until its budget ends, so no tenant gets all of them. Cluster API's
// controller of Machines has ten workers, and waits in them for the answers to its calls. So the bound of
// a namespace holds also while no other one calls: those workers are what runs out, and nobody knows
// beforehand which call will wait.
const (
	// MachineWorkers and GroupWorkers are how many workers the controllers of annotated objects need.
	MachineWorkers, machinesOfTenant = 20, 8
	GroupWorkers, groupsOfTenant     = 8, 3

	maxCalls, callsOfTenant = 24, 6
	maxSwept, sweptOfTenant = 24, 6
)

// turnedAwayFor is when an object is tried again whose tenant has no share left, or about which
// another call runs.
const turnedAwayFor = time.Second

// tenants hold the shares of namespaces.
type tenants struct{ machines, groups, calls *shares.Shares }

func newTenants() tenants {
	return tenants{
		machines: shares.New(MachineWorkers, machinesOfTenant), groups: shares.New(GroupWorkers, groupsOfTenant),
		calls: shares.New(maxCalls, callsOfTenant),
	}
}

// turnedAway is the reply to a call for which its namespace has no share left. Nothing was read for it
// but the objects that it names, and nothing is recorded, so the time of an attempt runs on.
func turnedAway() inplace.Reply {
	return inplace.Reply{
		RetryAfter: turnedAwayFor,
		Message:    "other machines of the namespace are being served; this one is asked about again in a moment",
	}
}

// busy is the reply to a call while another one about the same Machine runs. Nothing is recorded.
func busy() inplace.Reply {
	return inplace.Reply{RetryAfter: turnedAwayFor, Message: "another call about the machine is being served"}
}

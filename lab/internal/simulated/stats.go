package simulated

import "maps"

// Stats count what an updater did.
type Stats struct {
	// Decisions counts the requests of CanUpdateMachine and CanUpdateMachineSet since the process started.
	Decisions int `json:"decisions"`
	// Started and Completed count operations, over restarts if there is a state file.
	Started   int `json:"started"`
	Completed int `json:"completed"`
	// Machines are the machines that were asked about, by namespace/name.
	Machines map[string]MachineStats `json:"machines"`
}

// MachineStats count what was done to one machine.
type MachineStats struct {
	// Started and Completed count operations: those that began, and those whose work was really done.
	Started   int `json:"started"`
	Completed int `json:"completed"`
	// Operations are the operations, by operation id.
	Operations map[string]OperationStats `json:"operations"`
}

// OperationStats count what was done for one operation id.
type OperationStats struct {
	// Asked counts the requests since the process started.
	Asked int `json:"asked"`
	// Started and Completed are 0 or 1.
	Started   int    `json:"started"`
	Completed int    `json:"completed"`
	Failed    string `json:"failed,omitempty"`
	Lied      bool   `json:"lied,omitempty"`
}

// Stats returns the counts so far.
func (u *Updater) Stats() Stats {
	u.mu.Lock()
	machines := maps.Clone(u.machines)
	stats := Stats{Decisions: u.decisions, Machines: map[string]MachineStats{}}
	u.mu.Unlock()
	for name, machine := range machines {
		counted := machine.stats()
		stats.Started += counted.Started
		stats.Completed += counted.Completed
		stats.Machines[name] = counted
	}
	return stats
}

func (m *machineState) stats() MachineStats {
	m.mu.Lock()
	defer m.mu.Unlock()
	stats := MachineStats{Operations: map[string]OperationStats{}}
	for id, asked := range m.asked {
		stats.Operations[id] = OperationStats{Asked: asked}
	}
	for id, o := range m.operations {
		counted := OperationStats{Asked: m.asked[id], Failed: o.Failed, Lied: o.Lied}
		if !o.Started.IsZero() {
			counted.Started = 1
		}
		if o.Completed {
			counted.Completed = 1
		}
		stats.Started += counted.Started
		stats.Completed += counted.Completed
		stats.Operations[id] = counted
	}
	return stats
}

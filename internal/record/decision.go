package record

import "time"

// Part is one of the three objects that make a machine.
type Part string

// The parts, in the order in which they are reported.
const (
	PartMachine        Part = "Machine"
	PartInfrastructure Part = "InfrastructureMachine"
	PartBootstrap      Part = "BootstrapConfig"
)

// Pointer names a field: a JSON pointer from the root of the object, such as /spec/template/spec/version of a MachineSet.
type Pointer struct {
	Part Part   `json:"object" record:"key"`
	Path string `json:"path" record:"key"`
}

// Change is a field that an update changes, with a digest of its desired value. Path is as for Machine scope, so that a
// Change of a template can be looked up in a Machine's own objects.
type Change struct {
	Part   Part   `json:"object" record:"key"`
	Path   string `json:"path" record:"key"`
	Digest string `json:"digest"`
}

// Decision is the recorded answer to the question whether a machine, or the machines of a MachineSet, can be updated in
// place: yes, by these steps.
type Decision struct {
	// ID identifies the decision: it is a digest of everything below but Decided.
	ID string `json:"id" record:"key"`
	// Target is the name of the MachineSet that machines move to; empty for a control plane Machine's own.
	Target string `json:"target,omitempty"`
	Steps  []Step `json:"steps"`
	// CurrentDigest and DesiredDigest are of the specs that were compared.
	CurrentDigest string `json:"currentDigest"`
	DesiredDigest string `json:"desiredDigest"`
	// Fingerprint is that of a control plane Machine's desired objects; see cover.Fingerprint. The live objects of a Machine are compared with the template
	// of its MachineSet instead, so it is empty for MachineSets.
	Fingerprint string `json:"fingerprint,omitempty"`
	// Changes are the fields that the update changes.
	Changes []Change `json:"changes,omitempty"`
	// Dirty are the fields that differ and are not applied.
	Dirty   []Pointer `json:"dirty,omitempty"`
	Decided time.Time `json:"decided"`
}

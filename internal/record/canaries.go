package record

import (
	"errors"
	"slices"

	"github.com/windlass-dev/windlass/api/v1alpha1"
)

// FailedCanaries is the record of canaries that failed and were remediated.
type FailedCanaries struct {
	// MachineSet is the name of the MachineSet to whose template they were being updated.
	MachineSet string `json:"machineSet" record:"key"`
	// Machines are their names, the latest last.
	Machines []string `json:"machines"`
	// Retried says that a person has asked for another try since the last of them failed.
	Retried bool `json:"retried,omitempty"`
}

// FailedCanariesOf returns the record on a MachineDeployment; nil if there is none. It returns an
// error if the record cannot be read: nobody knows then whether the rollout may continue.
func FailedCanariesOf(annotations map[string]string) (*FailedCanaries, error) {
	c, err := Read[FailedCanaries](annotations, v1alpha1.FailedCanariesAnnotation)
	if err == nil && c != nil && (c.MachineSet == "" || len(c.Machines) == 0) {
		return nil, errors.New("it names no MachineSet or no Machines")
	}
	return c, err
}

// With returns the record with further Machines, whose updates to the template of a MachineSet have
// failed; nil if it has them already. c may be nil, or the record for another MachineSet.
func (c *FailedCanaries) With(set string, names []string) *FailedCanaries {
	next := &FailedCanaries{MachineSet: set}
	if c != nil && c.MachineSet == set {
		next.Machines = slices.Clone(c.Machines)
	}
	before := len(next.Machines)
	for _, name := range names {
		if !slices.Contains(next.Machines, name) {
			next.Machines = append(next.Machines, name)
		}
	}
	if len(next.Machines) == before {
		return nil
	}
	return next
}

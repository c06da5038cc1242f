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
	// Others is how many further Machines there were, whose names the record does not keep.
	Others int `json:"others,omitempty"`
	// Retried says that a person has asked for another try since the last of them failed.
	Retried bool `json:"retried,omitempty"`
}

// maxCanaries is how many names a record keeps: the longest ones take fewer bytes than its limit.
const maxCanaries = 200

// FailedCanariesOf returns the record on a MachineDeployment; nil if there is none. It returns an
// error if the record cannot be read: nobody knows then whether the rollout may continue.
func FailedCanariesOf(annotations map[string]string) (*FailedCanaries, error) {
	c, err := Read[FailedCanaries](annotations, v1alpha1.FailedCanariesAnnotation)
	if err == nil && c != nil && (c.MachineSet == "" || len(c.Machines) == 0 || c.Others < 0) {
		return nil, errors.New("it names no MachineSet or no Machines, or counts fewer than none")
	}
	return c, err
}

// With returns the record with further Machines, whose updates to the template of a MachineSet have
// failed; nil if it has them already. c may be nil, or the record for another MachineSet. It forgets
// the oldest names that are not among the given ones, and has maxCanaries at most, except in a record
// of an earlier release. Others may count a Machine twice.
func (c *FailedCanaries) With(set string, names []string) *FailedCanaries {
	next := &FailedCanaries{MachineSet: set}
	if c != nil && c.MachineSet == set {
		next.Machines, next.Others = slices.Clone(c.Machines), c.Others
	}
	var added []string
	for _, name := range names {
		if !slices.Contains(next.Machines, name) && !slices.Contains(added, name) {
			added = append(added, name)
		}
	}
	excess := max(0, len(next.Machines)+len(added)-maxCanaries)
	forgotten := 0
	kept := slices.DeleteFunc(slices.Clone(next.Machines), func(name string) bool {
		forget := forgotten < excess && !slices.Contains(names, name)
		if forget {
			forgotten++
		}
		return forget
	})
	unnamed := min(excess-forgotten, len(added))
	// The unnamed may be counted already: they are given again as long as they exist.
	others := max(next.Others, unnamed)
	if forgotten > 0 {
		others = next.Others + unnamed + forgotten
	}
	if len(added) == unnamed && others == next.Others {
		return nil
	}
	next.Machines, next.Others = slices.Concat(kept, added[:len(added)-unnamed]), others
	return next
}

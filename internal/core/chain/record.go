package chain

import (
	"slices"

	"github.com/windlass-dev/windlass/pkg/version"
)

// Recorded is what a Cluster has recorded about its chain, and what a Record changes.
type Recorded struct {
	// Pending is sorted and holds each hook once.
	Pending     Pending
	Intent      *Intent
	ChainTarget version.Version
	OKToDelete  bool
	// UpgradeStep is the version of the control plane's step that is under way, zero when no upgrade is. Other controllers of
	// Cluster API read it: they create machines of that version though it is not the target.
	UpgradeStep version.Version
}

// Apply returns what is recorded when r has been written. controlPlane is the version that the control plane has then.
func (r Record) Apply(to Recorded, controlPlane version.Version) Recorded {
	pending := slices.DeleteFunc(slices.Clone(to.Pending), func(h Hook) bool { return slices.Contains(r.Remove, h) })
	pending = append(pending, r.Add...)
	slices.Sort(pending)
	to.Pending = slices.Compact(pending)
	switch {
	case r.Intent != nil:
		to.Intent = r.Intent
	case r.ClearIntent:
		to.Intent = nil
	}
	switch {
	case !r.ChainTarget.IsZero():
		to.ChainTarget = r.ChainTarget
	case r.ClearChainTarget:
		to.ChainTarget = version.Version{}
	}
	to.OKToDelete = to.OKToDelete || r.OKToDelete
	to.UpgradeStep = version.Version{}
	if to.Pending.Has(AfterClusterUpgrade) {
		to.UpgradeStep = controlPlane
	}
	return to
}

// Equal reports whether r and o say the same.
func (r Recorded) Equal(o Recorded) bool {
	sameIntent := r.Intent == nil && o.Intent == nil || r.Intent != nil && o.Intent != nil && *r.Intent == *o.Intent
	return slices.Equal(r.Pending, o.Pending) && sameIntent && r.ChainTarget == o.ChainTarget && r.OKToDelete == o.OKToDelete && r.UpgradeStep == o.UpgradeStep
}

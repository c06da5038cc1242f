package inventory

import (
	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/snapshot"
)

// updatesOnDelete reports whether windlass manager updates a group with the strategy OnDelete in
// place, because its UpdatePolicy asks for that.
func updatesOnDelete(c Cluster, g snapshot.UpdateGroup) bool {
	if c.Engine != v1alpha1.EngineManager || !g.IsOnDelete() {
		return false
	}
	selected, err := c.compiled.Select(g.Group)
	return err == nil && selected.UpdateOnDelete
}

// keptOnDelete returns the policy of such a group: its machines are kept, whatever the fallback is.
// A policy whose fallback replaces is a policy of its own then. No name of an object contains a
// slash.
func keptOnDelete(selected policy.Policy) policy.Policy {
	if selected.Guarded {
		return selected
	}
	selected.Guarded, selected.FallbackReplace = true, false
	selected.Name += "/on-delete"
	return selected
}

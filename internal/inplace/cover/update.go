package cover

import (
	"github.com/windlass-dev/windlass/internal/pool"
	"github.com/windlass-dev/windlass/internal/text"
)

// Outcome is what will happen to the machines of a group. The values are part of the stable interface
// of `windlass plan`.
type Outcome string

// The outcomes.
const (
	// InPlace: they are updated in place.
	InPlace Outcome = "InPlace"
	// Replace: they are replaced.
	Replace Outcome = "Replace"
	// Blocked: nothing happens to them, because the policy forbids to replace them.
	Blocked Outcome = "Blocked"
	// Unknown: it cannot be told from here.
	Unknown Outcome = "Unknown"
)

// Update is how the machines of a group will be updated. It is part of the stable interface of
// `windlass plan`.
type Update struct {
	Outcome Outcome `json:"outcome"`
	// Policy is the name of the UpdatePolicy that counts; empty where there is none.
	Policy string `json:"policy"`
	// Updaters are those that do the work, in order.
	Updaters text.List[string] `json:"updaters"`
	// Uncovered are the fields that no updater covers, in the first step in which there are any.
	Uncovered text.List[Pointer] `json:"uncovered"`
	// Limits are those of a rollout that windlass manager applies; nil if it does not drive the Cluster, if
	// no policy counts, and for control planes.
	Limits *pool.LimitFields `json:"limits,omitempty"`
	// Message says all of it in words.
	Message string `json:"message"`
}

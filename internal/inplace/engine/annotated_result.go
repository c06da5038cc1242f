package engine

import (
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// upgradeFieldOwner owns the conditions of upgrades that annotations request.
const upgradeFieldOwner = client.FieldOwner("windlass-in-place-upgrade")

// nextStep is when a machine is looked at again where nothing has to be waited for.
const nextStep = time.Second

// Result says when an object must be looked at again though nothing changes.
type Result struct {
	// After is when; 0 means never, unless Now.
	After time.Duration
	// Now says that it must be at once.
	Now bool
}

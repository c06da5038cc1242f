package annotations

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/internal/inplace/engine"
)

// FieldOwner owns the conditions that the engine applies.
const FieldOwner = client.FieldOwner("windlass-in-place-upgrade")

const (
	// budget is how long one reconcile may take.
	budget = 25 * time.Second
	// pageSize bounds what a list holds in memory at once.
	pageSize = 250
	// nextStep is when a machine is looked at again where nothing has to be waited for.
	nextStep = time.Second
)

// Engine upgrades machines and groups. It is safe for concurrent use about different objects.
type Engine struct {
	// Engine carries out the upgrades that are admitted. It serves Cluster API's hooks with the same code.
	*engine.Engine
	keys    Keys
	locks   engine.Locks
	shown   *shownSet
	members *members
	fence   engine.Fence
}

// New returns an Engine that has another one carry upgrades out.
func New(hooks *engine.Engine) *Engine {
	return &Engine{
		Engine: hooks, keys: NewKeys(hooks.Prefix), shown: newShownSet(), members: newMembers(),
		locks: engine.NewLocks(hooks.Client, hooks.Live), fence: engine.Fence{Client: hooks.Client, Live: hooks.Live},
	}
}

// Result says when an object must be looked at again though nothing changes.
type Result struct {
	// After is when; 0 means never, unless Now.
	After time.Duration
	// Now says that it must be at once.
	Now bool
}

func logFor(ctx context.Context) logr.Logger { return ctrl.LoggerFrom(ctx) }

// now is the time as it is recorded.
func (e *Engine) now() time.Time { return e.Now().UTC().Truncate(time.Second) }

// Package annotated carries out the upgrades in place that annotations ask for: of one machine, and of the machines of a group. It reads the facts, has
// package inplace/annotated of the core decide, records what was decided, and acts through the ports.
//
// All that a restart must know stands on the objects. What is recorded is written under the resource version that was decided on, so two processes that
// look at one object do not both change it.
package annotated

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/engine/cplock"
	"github.com/windlass-dev/windlass/internal/engine/fence"
	"github.com/windlass-dev/windlass/internal/engine/settle"
	"github.com/windlass-dev/windlass/internal/port"
)

// FieldOwner owns the conditions that the engine applies.
const FieldOwner = client.FieldOwner("windlass-in-place-upgrade")

const (
	// budget is how long one reconcile may take, and callBudget a request to an updater in it: its answer must still be recorded.
	budget     = 25 * time.Second
	callBudget = 20 * time.Second
	// maxActions bounds the actions of one reconcile. More than a handful in a row is a fault.
	maxActions = 16
	// pageSize bounds what a list holds in memory at once.
	pageSize = 250
	// nextStep is when a machine is looked at again where nothing has to be waited for.
	nextStep = time.Second
)

// Options are what an Engine works with. All are needed.
type Options struct {
	// Client reads Updaters, UpdatePolicies, Namespaces and the metadata of Machines, their groups and Clusters from a cache, and writes.
	Client client.Client
	// Live reads from the API server: what was just written must be seen.
	Live client.Reader
	// Mapper finds the versions of kinds that objects refer to without one.
	Mapper meta.RESTMapper
	// Nodes reaches the nodes of workload clusters.
	Nodes port.Nodes
	// Open returns the updater that is registered under an object. It is called for every request; implementations cache.
	Open func(ctx context.Context, updater *v1alpha1.Updater) (port.Updater, error)
	// Now is the clock, and NewID makes ids that are unique in space and time, of at most 40 characters of [a-z0-9-].
	Now   func() time.Time
	NewID func() string
	// Events take what people should see.
	Events events.EventRecorder
	// Prefix begins the keys of the annotations; see v1alpha1.DefaultInPlaceUpgradePrefix.
	Prefix string
}

// Engine upgrades machines and groups. It is safe for concurrent use about different objects.
type Engine struct {
	Options
	keys     Keys
	locks    cplock.Locks
	draining *settle.Messages
	shown    *shownSet
	fence    fence.Fence
}

// New returns an Engine.
func New(o Options) *Engine {
	return &Engine{
		Options: o, keys: NewKeys(o.Prefix), locks: cplock.New(o.Client, o.Live), draining: settle.New(), shown: newShownSet(),
		fence: fence.Fence{Client: o.Client, Live: o.Live},
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

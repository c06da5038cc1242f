package engine

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/contract"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/keyed"
	"github.com/windlass-dev/windlass/internal/metrics"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/policystore"
	"github.com/windlass-dev/windlass/internal/port"
	"github.com/windlass-dev/windlass/internal/record"
)

// FieldOwner owns the conditions that the engine applies.
const FieldOwner = client.FieldOwner("windlass-update")

// Options are what an Engine works with. All but Compiled and Metrics are needed.
type Options struct {
	// Client reads Updaters, UpdatePolicies, Namespaces, Machines of groups that annotations upgrade, and the metadata of Machines, their groups and
	// Clusters from a cache, which has InFlightIndex, and writes.
	Client client.Client
	// Live reads from the API server: what was just written must be seen.
	Live client.Reader
	// Nodes reaches the nodes of workload clusters.
	Nodes port.Nodes
	// Open returns the updater that is registered under an object. It is called for every request; implementations cache.
	Open func(ctx context.Context, updater *v1alpha1.Updater) (port.Updater, error)
	// Now is the clock, and NewID makes ids that are unique in space and time, of at most 40 characters of [a-z0-9-].
	Now   func() time.Time
	NewID func() string
	// Events take what people should see.
	Events events.EventRecorder
	// Prefix begins the keys of annotations that ask for upgrades in place; empty means the default.
	Prefix string
	// Compiled keeps the UpdatePolicies of the process, parsed; nil keeps nothing.
	Compiled *policy.Store
	// Metrics counts results; nil counts nothing.
	Metrics *metrics.Updates
	// WatchFilter is the value of the label clusterv1.WatchLabel of objects that the Engine looks for by itself; empty
	// means all. It serves hooks about all objects.
	WatchFilter string
}

// Engine serves Cluster API's hooks, and upgrades the machines and groups that annotations name. It is
// safe for concurrent use.
type Engine struct {
	Options
	slots    *inplace.InFlight[types.UID]
	policies policystore.Policies
	// reported are the Updaters whose status was just written.
	reported keyed.Memory[string, struct{}]
	// said is what was said last about an object, so that it is logged and written once per change.
	said *keyed.Once[saidOf]
	// unasked is what desired objects have that no live object asks for.
	unasked *keyed.Once[types.UID]
	blocked *blockedSet
	// unreadable has the resourceVersions of Machines with records that cannot be read.
	unreadable           keyed.Memory[types.UID, string]
	sweeping, unblocking *sweeper
	prefetching          *prefetching
	// machines keeps calls about one Machine apart: Cluster API gives a call up after its timeout, and makes another.
	machines keyed.Locks[types.NamespacedName]
	// draining are the messages of drains that are shown. A drain's message changes with every pod, and
	// each change costs writes of several objects.
	draining keyed.Memory[types.UID, string]
	locks    controlPlaneLocks
	fence    fence
	// keys are those of the annotations that request upgrades.
	keys    Keys
	shown   shownSet
	members *members
	tenants tenants
	// setGroups are the groups of MachineSets, for their Machines without a label.
	setGroups keyed.Memory[setKey, contract.Group]
	// clock reads the times that others have recorded.
	clock *record.Clock
}

// New returns an Engine.
func New(o Options) *Engine {
	o.Prefix = cmp.Or(o.Prefix, v1alpha1.DefaultInPlaceUpgradePrefix)
	return &Engine{
		Options: o, slots: inplace.NewInFlight[types.UID](), policies: policystore.New(o.Client, o.Compiled), blocked: newBlockedSet(),
		said: keyed.NewOnce[saidOf](sayAgainAfter, 0), unasked: keyed.NewOnce[types.UID](sayAgainAfter, 0),
		locks: newControlPlaneLocks(o.Client, o.Live), fence: fence{Client: o.Client, Live: o.Live},
		keys: NewKeys(o.Prefix), members: newMembers(o.Now), tenants: newTenants(),
		clock: record.NewClock(), sweeping: newSweeper("Sweeping Machines", o.Now),
		unblocking:  newSweeper("Looking at blocked groups of machines", o.Now),
		prefetching: newPrefetching(o.Now),
		setGroups:   keyed.Memory[setKey, contract.Group]{Most: mostGroups},
		unreadable:  keyed.Memory[types.UID, string]{Most: mostUnreadable},
	}
}

// RefusedError says that a hook must answer Failure: Cluster API then does nothing and asks again.
type RefusedError struct {
	// Reason is one of the reasons of the UpdateBlocked condition.
	Reason  string
	Message string
	// NotCovered says that it wraps a cover.NotCoveredError.
	NotCovered bool
}

// Error returns the message.
func (e *RefusedError) Error() string { return e.Message }

// Unwrap returns a cover.NotCoveredError with the message if it wraps one.
func (e *RefusedError) Unwrap() error {
	if !e.NotCovered {
		return nil
	}
	return &cover.NotCoveredError{Message: e.Message}
}

// budget is how long one call may take: Cluster API waits for 30 s, and what happened must still be recorded and reported.
const budget = 25 * time.Second

func withBudget(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, budget)
}

// blockedReason maps why an update is refused to the reason of the condition.
func blockedReason(r inplace.Reason) string {
	switch r {
	case inplace.ReasonFailed:
		return v1alpha1.UpdateFailedReason
	case inplace.ReasonNoDecision:
		return v1alpha1.NoDecisionReason
	case inplace.ReasonDesiredChanged:
		return v1alpha1.DesiredChangedReason
	case inplace.ReasonTransition:
		return v1alpha1.NotCoveredReason
	case inplace.ReasonUnknownPhase:
		return v1alpha1.UnknownRecordReason
	case inplace.ReasonQueued, inplace.ReasonDraining, inplace.ReasonUpdating, inplace.ReasonUpdaterUnknown, inplace.ReasonBackingOff,
		inplace.ReasonVerifying, inplace.ReasonSoaking, inplace.ReasonNodeUnknown, inplace.ReasonPaused:
	}
	return v1alpha1.UpdaterErrorReason
}

func refused(reason, format string, args ...any) *RefusedError {
	return &RefusedError{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

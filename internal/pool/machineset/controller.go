package machineset

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/sets"
	events "k8s.io/client-go/tools/record"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/util"
	capicontroller "sigs.k8s.io/cluster-api/util/controller"
	"sigs.k8s.io/cluster-api/util/predicates"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/windlass-dev/windlass/internal/eventlimit"
	"github.com/windlass-dev/windlass/internal/keyed"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/pool/objects"
	"github.com/windlass-dev/windlass/internal/record"
	"github.com/windlass-dev/windlass/internal/refusal"
)

// Names by which Cluster API's controller is known: in logs and metrics, as the source of Events,
// and as the owner of fields. Both controllers must have the same, because one may take over from
// the other.
const (
	controllerName  = "machineset"
	recorderName    = "machineset-controller"
	manager         = "capi-machineset"
	metadataManager = "capi-machineset-metadata"
)

// Managers are the field managers of the controller. It reads from the cache what they own.
var Managers = []string{manager, metadataManager}

// Options is what the controller works with. Client, APIReader, ClusterCache and Now are required.
type Options struct {
	// Client reads from a cache that keeps the managed fields of Managers, unstructured objects too.
	// It keeps the entries of other managers, with or without their fields.
	Client client.Client
	// APIReader reads from the API server.
	APIReader client.Reader
	// ClusterCache has the Nodes of workload clusters.
	ClusterCache clustercache.ClusterCache
	// PreflightChecks are those that a MachineSet must pass before it creates a Machine.
	PreflightChecks sets.Set[clusterv1.MachineSetPreflightCheck]
	// Now is the clock.
	Now func() time.Time
	// Policies returns the UpdatePolicy of a MachineDeployment, which changes rules for its MachineSets;
	// nil means that there are none. An error ends the reconcile before anything is done to
	// Machines.
	Policies Policies
	// PoliciesExist reports whether UpdatePolicies are installed. Policies requires it. Once it says
	// yes, they are watched.
	PoliciesExist func() (bool, error)
	// StatusInterval is the least time between two writes of a status of which the second may wait,
	// see [pool.SetStatusMayWait]; 0 means that none waits.
	StatusInterval time.Duration
	// WatchFilter is the value of Cluster API's watch label; empty means all.
	WatchFilter string
}

// Policies looks for the UpdatePolicy of a MachineDeployment.
type Policies func(
	context.Context, *clusterv1.Cluster, *clusterv1.MachineDeployment,
) (policy.Policy, error)

// Reconciler reconciles MachineSets.
type Reconciler struct {
	Options
	applier    *objects.Applier
	synced     keyed.Memory[types.UID, synced]
	looked     keyed.Memory[types.UID, look]
	pace       *objects.Pace
	clock      *record.Clock
	controller capicontroller.Controller
	recorder   events.EventRecorder
	// deleter deletes Machines and returns them as they are then.
	deleter      capicontroller.ClientWithDeleteResponse
	deleteUnused func(context.Context, *Run) error
	// random returns so many random characters for the name of a Machine.
	random func(int) string
}

// Parts are what a Reconciler gets from a manager. Tests replace them.
type Parts struct {
	Controller capicontroller.Controller
	Recorder   events.EventRecorder
	Deleter    capicontroller.ClientWithDeleteResponse
	// DeleteUnused takes the place of [Run.DeleteUnused]; nil means that nothing does.
	DeleteUnused func(context.Context, *Run) error
}

// New returns a Reconciler that is not part of a manager.
func New(o Options, parts Parts) *Reconciler {
	if parts.DeleteUnused == nil {
		parts.DeleteUnused = func(ctx context.Context, r *Run) error { return r.DeleteUnused(ctx) }
	}
	return &Reconciler{
		Options: o, applier: objects.NewApplier(o.Client, o.Now), random: rand.String,
		pace:       &objects.Pace{Least: time.Second, Interval: o.StatusInterval},
		clock:      record.NewClock(),
		controller: parts.Controller, recorder: parts.Recorder, deleter: parts.Deleter,
		deleteUnused: parts.DeleteUnused,
	}
}

// SetUp adds the controller to a manager.
func SetUp(ctx context.Context, mgr ctrl.Manager, o Options, options controller.Options) error {
	switch {
	case o.Client == nil || o.APIReader == nil || o.ClusterCache == nil || o.Now == nil:
		return errors.New("machineset: client, API reader, cluster cache and clock are required")
	case o.Policies != nil && o.PoliciesExist == nil:
		return errors.New("machineset: Policies requires PoliciesExist")
	}
	machines := schema.GroupResource{Group: clusterv1.GroupVersion.Group, Resource: "machines"}
	deleter, err := capicontroller.NewClientWithDeleteResponse(
		&clusterv1.Machine{}, machines, mgr.GetScheme(), mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("making the client that deletes Machines: %w", err)
	}
	// Events of the old API, as Cluster API's controller records them.
	recorder := eventlimit.CoreFor(mgr, recorderName)
	r := New(o, Parts{Recorder: recorder, Deleter: deleter})
	r.controller, err = r.watch(ctx, mgr, options)
	return err
}

// watch builds the controller. A change that no step of a reconcile reads does not enqueue, see
// facts.go.
func (r *Reconciler) watch(
	ctx context.Context, mgr ctrl.Manager, options controller.Options,
) (capicontroller.Controller, error) {
	log, scheme := ctrl.LoggerFrom(ctx).WithValues("controller", controllerName), mgr.GetScheme()
	ofCluster, err := util.ClusterToTypedObjectsMapper(
		mgr.GetClient(), &clusterv1.MachineSetList{}, scheme)
	if err != nil {
		return nil, fmt.Errorf("mapping Clusters to MachineSets: %w", err)
	}
	ofDeployment, err := util.MachineDeploymentToObjectsMapper(
		mgr.GetClient(), &clusterv1.MachineSetList{}, scheme)
	if err != nil {
		return nil, fmt.Errorf("mapping MachineDeployments to MachineSets: %w", err)
	}
	b := capicontroller.NewControllerManagedBy(mgr, log).
		For(&clusterv1.MachineSet{}, builder.WithPredicates(objects.Changes(setFacts))).
		Owns(&clusterv1.Machine{}, objects.Changes(machineFacts)).
		Watches(&clusterv1.Machine{}, handler.EnqueueRequestsFromMapFunc(r.SetsOfOrphan),
			objects.Changes(machineFacts)).
		Watches(&clusterv1.MachineDeployment{}, handler.EnqueueRequestsFromMapFunc(ofDeployment),
			objects.Changes(deploymentFacts)).
		WithOptions(options).
		WithEventFilter(predicates.ResourceHasFilterLabel(scheme, log, r.WatchFilter)).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(ofCluster),
			objects.ClusterEvents(scheme, log, r.Policies != nil),
			predicates.ResourceHasFilterLabel(scheme, log, r.WatchFilter)).
		WatchesRawSource(r.ClusterCache.GetClusterSource(controllerName, ofCluster))
	if r.Policies != nil {
		policies := objects.PolicyWatch{
			Reader: r.Client, Exist: r.PoliciesExist, Filter: r.WatchFilter,
			NewList: func() client.ObjectList { return &clusterv1.MachineSetList{} },
		}
		b.WatchesRawSource(policies.Source(mgr.GetCache()))
	}
	c, err := b.Build(ctx, refusal.BackOff(controllerName, r))
	if err != nil {
		return nil, fmt.Errorf("adding the controller %s: %w", controllerName, err)
	}
	return c, nil
}

// SetsOfOrphan returns the MachineSets that may adopt a Machine: those whose selector matches it,
// if it has no controller.
func (r *Reconciler) SetsOfOrphan(ctx context.Context, object client.Object) []ctrl.Request {
	if metav1.GetControllerOf(object) != nil {
		return []ctrl.Request{}
	}
	var all clusterv1.MachineSetList
	if err := r.Client.List(ctx, &all, client.InNamespace(object.GetNamespace())); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing MachineSets that may adopt a Machine",
			"Machine", client.ObjectKeyFromObject(object))
		return nil
	}
	var requests []ctrl.Request
	for i := range all.Items {
		if set := &all.Items[i]; objects.Selects(set, object.GetLabels()) {
			requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(set)})
		}
	}
	return requests
}

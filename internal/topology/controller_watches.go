package topology

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/external"
	"sigs.k8s.io/cluster-api/feature"
	"sigs.k8s.io/cluster-api/util/conditions"
	capicontroller "sigs.k8s.io/cluster-api/util/controller"
	"sigs.k8s.io/cluster-api/util/index"
	"sigs.k8s.io/cluster-api/util/predicates"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/pool/objects"
	"github.com/windlass-dev/windlass/internal/refusal"
)

// controllerName is also that of Cluster API's controller: its metrics and logs are found under the same name.
const controllerName = "topology/cluster"

// watch adds the controller. Statuses change all the time; a Cluster is looked at only when something changes that a decision or a
// desired object depends on.
func (r *Reconciler) watch(ctx context.Context, mgr ctrl.Manager, options controller.Options) error {
	log := ctrl.LoggerFrom(ctx).WithValues("controller", controllerName)
	scheme := mgr.GetScheme()
	owned := predicates.ResourceIsTopologyOwned(scheme, log)
	b := capicontroller.NewControllerManagedBy(mgr, log).Named(controllerName).
		For(&clusterv1.Cluster{}, builder.WithPredicates(predicates.ClusterHasTopology(scheme, log), objects.Changes(clusterFacts))).
		Watches(&clusterv1.ClusterClass{}, handler.EnqueueRequestsFromMapFunc(r.clustersOfClass), objects.Changes(classFacts)).
		Watches(&clusterv1.MachineDeployment{}, handler.EnqueueRequestsFromMapFunc(clusterOf), owned, objects.Changes(objectFacts)).
		Watches(&clusterv1.MachineHealthCheck{}, handler.EnqueueRequestsFromMapFunc(clusterOf), owned, objects.Changes(objectFacts)).
		Watches(&clusterv1.Machine{}, handler.EnqueueRequestsFromMapFunc(clusterOf), owned, objects.Changes(machineFacts)).
		WithOptions(options).WithEventFilter(predicates.ResourceHasFilterLabel(scheme, log, r.WatchFilter))
	if feature.Gates.Enabled(feature.MachinePool) {
		b = b.Watches(&clusterv1.MachinePool{}, handler.EnqueueRequestsFromMapFunc(clusterOf), owned, objects.Changes(poolFacts))
	}
	if r.Gates {
		b = b.Watches(&v1alpha1.UpgradeGate{}, handler.EnqueueRequestsFromMapFunc(r.clustersAtGate), objects.Changes(gateFacts))
	}
	c, err := b.Build(ctx, refusal.BackOff(controllerName, r))
	if err != nil {
		return fmt.Errorf("adding the controller %s: %w", controllerName, err)
	}
	r.controller = c
	r.tracker = external.ObjectTracker{Controller: c, Cache: mgr.GetCache(), Scheme: scheme, PredicateLogger: &log}
	return nil
}

// watchReferenced watches the kinds that this Cluster refers to, of which nothing is known before.
func (r *run) watchReferenced(ctx context.Context) error {
	for _, object := range []*unstructured.Unstructured{r.current.InfrastructureCluster, r.current.ControlPlane.Object} {
		if object == nil {
			continue
		}
		enqueue := handler.EnqueueRequestForOwner(r.Client.Scheme(), r.Client.RESTMapper(), &clusterv1.Cluster{})
		err := r.tracker.Watch(ctrl.LoggerFrom(ctx), object, enqueue,
			predicates.ResourceIsChanged(r.Client.Scheme(), *r.tracker.PredicateLogger), predicates.ResourceIsTopologyOwned(r.Client.Scheme(), *r.tracker.PredicateLogger), objects.Changes(referencedFacts))
		if err != nil {
			return fmt.Errorf("watching %s: %w", object.GetKind(), err)
		}
	}
	return nil
}

type metadataFacts struct {
	Generation  int64
	Labels      map[string]string
	Annotations map[string]string
	Owners      []metav1.OwnerReference
	Deleting    bool
}

func readMetadata(o metav1.Object) metadataFacts {
	return metadataFacts{
		Generation: o.GetGeneration(), Labels: o.GetLabels(), Annotations: o.GetAnnotations(), Owners: o.GetOwnerReferences(),
		Deleting: o.GetDeletionTimestamp() != nil,
	}
}

func objectFacts(o client.Object) any { return readMetadata(o) }

func clusterFacts(o client.Object) any {
	cluster, ok := o.(*clusterv1.Cluster)
	return []any{objectFacts(o), ok && conditions.IsTrue(cluster, clusterv1.ClusterControlPlaneInitializedCondition)}
}

func classFacts(o client.Object) any {
	class, ok := o.(*clusterv1.ClusterClass)
	if !ok {
		return objectFacts(o)
	}
	return []any{objectFacts(o), class.Status.ObservedGeneration, conditions.IsTrue(class, clusterv1.ClusterClassVariablesReadyCondition)}
}

// machineFacts are what tells that a group has arrived.
func machineFacts(o client.Object) any {
	machine, ok := o.(*clusterv1.Machine)
	if !ok {
		return objectFacts(o)
	}
	return []any{machine.Spec.Version, capi.Kubelet(machine), machine.Status.NodeRef.IsDefined(), machine.Labels, !machine.DeletionTimestamp.IsZero()}
}

func poolFacts(o client.Object) any {
	mp, ok := o.(*clusterv1.MachinePool)
	if !ok {
		return objectFacts(o)
	}
	return []any{objectFacts(o), mp.Status.Versions, mp.Status.ObservedGeneration, len(mp.Status.NodeRefs)}
}

// referencedFacts are those of the infrastructure cluster and of the control plane, whose status says how far an upgrade is.
func referencedFacts(o client.Object) any {
	object, ok := o.(*unstructured.Unstructured)
	if !ok {
		return objectFacts(o)
	}
	status, _, _ := unstructured.NestedFieldNoCopy(object.Object, "status", "version")
	versions, _, _ := unstructured.NestedFieldNoCopy(object.Object, "status", "versions")
	return []any{objectFacts(o), status, versions}
}

func clusterOf(_ context.Context, o client.Object) []ctrl.Request {
	name := o.GetLabels()[clusterv1.ClusterNameLabel]
	if name == "" {
		return nil
	}
	return []ctrl.Request{{NamespacedName: client.ObjectKey{Namespace: o.GetNamespace(), Name: name}}}
}

func (r *Reconciler) clustersOfClass(ctx context.Context, o client.Object) []ctrl.Request {
	class, ok := o.(*clusterv1.ClusterClass)
	if !ok {
		return nil
	}
	var clusters clusterv1.ClusterList
	if err := r.Client.List(ctx, &clusters, client.MatchingFields{index.ClusterClassRefPath: index.ClusterClassRef(class)}); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "the Clusters of a ClusterClass could not be listed; they follow its change at the next resync", "ClusterClass", client.ObjectKeyFromObject(o))
		return nil
	}
	requests := make([]ctrl.Request, len(clusters.Items))
	for i := range clusters.Items {
		requests[i].NamespacedName = client.ObjectKeyFromObject(&clusters.Items[i])
	}
	return requests
}

// gateFacts are what a gate's answers depend on: its spec, and what people have approved.
func gateFacts(o client.Object) any {
	gate, ok := o.(*v1alpha1.UpgradeGate)
	if !ok {
		return objectFacts(o)
	}
	return []any{gate.Generation, gate.Status.Approvals, !gate.DeletionTimestamp.IsZero()}
}

// clustersAtGate has the hook of each Cluster that waits at a gate asked again: a person has just approved
// a step, or has changed or removed the gate. Otherwise it would be asked after a minute.
func (r *Reconciler) clustersAtGate(_ context.Context, o client.Object) []ctrl.Request {
	gate, ok := o.(*v1alpha1.UpgradeGate)
	if !ok {
		return nil
	}
	requests := make([]ctrl.Request, 0, len(gate.Status.Waiting))
	for _, w := range gate.Status.Waiting {
		key := client.ObjectKey{Namespace: gate.Namespace, Name: w.Cluster}
		r.answers.Hasten(key, r.Now())
		requests = append(requests, ctrl.Request{NamespacedName: key})
	}
	return requests
}

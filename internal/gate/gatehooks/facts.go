package gatehooks

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/gate"
	"github.com/windlass-dev/windlass/internal/snapshot"
	"github.com/windlass-dev/windlass/internal/text"
)

// maxReasonBytes bounds what is said of something that is not known, or of etcd.
const maxReasonBytes = 400

// readFacts finds out what checks look at, all at once.
func (e *Engine) readFacts(ctx context.Context, cluster *clusterv1.Cluster, needed []gate.Check) gate.Facts {
	ctx, cancel := context.WithTimeout(ctx, factsTimeout)
	defer cancel()
	facts := gate.Facts{Unknown: make(map[gate.Check]string, len(needed))}
	var mu sync.Mutex
	var group sync.WaitGroup
	for _, check := range needed {
		group.Go(func() {
			learn, err := e.read(ctx, cluster, check)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				facts.Unknown[check] = text.Bound(err.Error(), maxReasonBytes)
				return
			}
			learn(&facts)
		})
	}
	group.Wait()
	return facts
}

// read finds out what one check looks at, and returns what writes it down.
func (e *Engine) read(ctx context.Context, cluster *clusterv1.Cluster, check gate.Check) (func(*gate.Facts), error) {
	release, err := e.looking.Acquire(ctx, cluster.Namespace)
	if err != nil {
		return nil, errors.New("too many clusters are looked at just now")
	}
	defer release()
	key := client.ObjectKeyFromObject(cluster)
	switch check {
	case gate.NodesReady:
		nodes, err := e.Workload.Nodes(ctx, key)
		return func(f *gate.Facts) { f.Nodes = nodes }, err
	case gate.EtcdHealthy:
		problem, err := e.readEtcd(ctx, cluster)
		return func(f *gate.Facts) { f.EtcdProblem = problem }, err
	case gate.NoDeprecatedAPIs:
		apis, err := e.Workload.DeprecatedAPIs(ctx, key)
		return func(f *gate.Facts) { f.DeprecatedAPIs = apis }, err
	case gate.BudgetsCanBeSatisfied:
		budgets, err := e.Workload.Budgets(ctx, key)
		return func(f *gate.Facts) { f.Budgets = budgets }, err
	default:
		// Decide knows that there is no such check.
		return func(*gate.Facts) {}, nil
	}
}

// readCluster reads the Cluster that a request names. A request does not tell whether the name or the UID is wrong.
func (e *Engine) readCluster(ctx context.Context, request *clusterv1.Cluster, step gate.Step) (*clusterv1.Cluster, error) {
	cluster := &clusterv1.Cluster{}
	err := e.Live.Get(ctx, client.ObjectKeyFromObject(request), cluster)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading Cluster %s: %w", client.ObjectKeyFromObject(request), err)
	}
	if err != nil || request.UID == "" || cluster.UID != request.UID {
		return nil, &gate.NotDueError{Step: step, Why: "no Cluster has this name and UID"}
	}
	return cluster, nil
}

// readUpgrade reads what the Cluster and its control plane object show of an upgrade.
func (e *Engine) readUpgrade(ctx context.Context, cluster *clusterv1.Cluster) (gate.Upgrade, error) {
	controlPlane, err := e.readControlPlane(ctx, cluster)
	if err != nil {
		return gate.Upgrade{}, err
	}
	state, _, err := snapshot.Chain(snapshot.Objects{Cluster: cluster, ControlPlane: controlPlane})
	if err != nil {
		return gate.Upgrade{}, fmt.Errorf("reading how far the upgrade is: %w", err)
	}
	pending := make([]gate.Hook, 0, len(state.Pending))
	for _, hook := range state.Pending {
		pending = append(pending, gate.Hook(hook))
	}
	return gate.Upgrade{
		Target: state.Target, Begun: state.ChainTarget, Pending: pending,
		ControlPlane: state.ControlPlane.Version, Upgrading: state.ControlPlane.Upgrading,
	}, nil
}

// readControlPlane reads the control plane object of a Cluster.
func (e *Engine) readControlPlane(ctx context.Context, cluster *clusterv1.Cluster) (*unstructured.Unstructured, error) {
	ref := cluster.Spec.ControlPlaneRef
	name := ref.Kind + " " + ref.Name
	mapping, err := e.Mapper.RESTMapping(schema.GroupKind{Group: ref.APIGroup, Kind: ref.Kind})
	if err != nil {
		return nil, fmt.Errorf("finding the API version of %s: %w", name, err)
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(mapping.GroupVersionKind)
	if err := e.Live.Get(ctx, types.NamespacedName{Namespace: cluster.Namespace, Name: ref.Name}, object); err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	return object, nil
}

// readEtcd returns what the control plane object says is wrong with etcd.
func (e *Engine) readEtcd(ctx context.Context, cluster *clusterv1.Cluster) (problem string, err error) {
	object, err := e.readControlPlane(ctx, cluster)
	if err != nil {
		return "", err
	}
	problem, err = capi.EtcdProblem(object)
	return text.Bound(problem, maxReasonBytes), err
}

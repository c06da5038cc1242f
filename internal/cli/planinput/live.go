package planinput

import (
	"context"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/cli/management"
	"github.com/windlass-dev/windlass/internal/doctor"
	"github.com/windlass-dev/windlass/internal/snapshot"
	"github.com/windlass-dev/windlass/pkg/plan"
)

// ResolveCluster makes a request from a Cluster.
func ResolveCluster(ctx context.Context, m management.Cluster, key types.NamespacedName, in Input) (Request, error) {
	objects, err := m.Objects(ctx, key, in.From.IsZero())
	if err != nil {
		return Request{}, err
	}
	hasTopology := objects.Cluster.Spec.Topology.IsDefined()
	if !hasTopology {
		objects.MachinePools, err = management.List[*clusterv1.MachinePool, clusterv1.MachinePoolList](
			ctx, m, "MachinePools", management.InCluster(key))
		if management.IgnoreMissing(err) != nil {
			return Request{}, err
		}
	}
	engineNote := ""
	if hasTopology && in.FindEngine {
		in.Policy.Workers, engineNote = findWorkers(ctx, m, objects.Cluster)
	}
	r, _, err := resolveState(objects, in, Origins{})
	if err != nil {
		return Request{}, err
	}
	if len(objects.Machines) == 0 {
		// Best effort: a machine that is not known may have any risk.
		objects.Machines, _ = m.Machines(ctx, key)
	}
	// Best effort: windlass doctor says what could not be read.
	around, _ := m.Around(ctx, objects)
	if engineNote != "" {
		r.Notes = append(r.Notes, engineNote)
	}
	r.Notes = append(r.Notes, r.holdNotes(objects, around, time.Now())...)
	if !hasTopology {
		r.Updates = liveUpdates(ctx, m, objects, nil)
		r.Notes = append(r.Notes, r.Updates.surgelessNote()...)
		r.Facts = snapshot.RiskFacts(r.Updates.Facts.Objects)
		return r.withSource(in, objects.Cluster, nil, nil, Origins{})
	}
	class, graphs, err := m.Source(ctx, objects.Cluster)
	// With versions from flags the class is not needed for the plan. Without it less is known about
	// updates.
	if err != nil && in.Versions == nil {
		return Request{}, err
	}
	r.Updates = liveUpdates(ctx, m, objects, class)
	r.Notes = append(r.Notes, r.Updates.surgelessNote()...)
	r.Facts = snapshot.RiskFacts(r.Updates.Facts.Objects)
	return r.withSource(in, objects.Cluster, class, graphs, Origins{})
}

// findWorkers returns how the engine that drives a Cluster has workers stop, and what people should know
// of that.
func findWorkers(
	ctx context.Context, m management.Cluster, cluster *clusterv1.Cluster,
) (workers plan.Workers, note string) {
	engine, known, err := m.FindEngine(ctx, cluster)
	switch {
	case engine == v1alpha1.EngineManager:
		return plan.WorkersPerGroup, "windlass manager drives the Cluster, so each group has stops of its own"
	case err != nil || !known:
		return plan.WorkersShared, "which engine drives the Cluster cannot be seen here; stock Cluster API is " +
			"assumed, with one list of stops for all groups. Fix: with windlass manager add --engine windlass"
	}
	return plan.WorkersShared, ""
}

// liveUpdates prepares the question for a Cluster of the management cluster. That something cannot be read keeps no plan from
// being made: it is said.
func liveUpdates(ctx context.Context, m management.Cluster, objects snapshot.Objects, class *clusterv1.ClusterClass) *Updates {
	facts := doctor.Facts{Live: true, Now: time.Now(), Objects: objects, Class: class}
	var err error
	if facts.Policies, err = m.UpdatePolicies(ctx, objects.Cluster.Namespace); err == nil && len(facts.Policies) > 0 {
		facts.Updaters, err = m.Updaters(ctx)
	}
	if err == nil && len(facts.Policies) > 0 {
		// Best effort: an engine that is not known counts as stock Cluster API.
		facts.Engine, _ = m.Engine(ctx, objects.Cluster)
	}
	labelsKnown := false
	if err == nil && len(facts.Policies) > 0 {
		var unread error
		facts.NamespaceLabels, unread = m.NamespaceLabels(ctx, objects.Cluster.Namespace)
		labelsKnown = unread == nil
	}
	// Best effort: windlass preflight says which objects could not be read.
	read := m.Settings(ctx, objects, class)
	facts.Settings, facts.Objects.Unverified = read.Uses, read.Unverified
	facts.AutoscalersOff = len(facts.Scaled()) > 0 && doctor.AutoscalersOff(m.Autoscalers(ctx))
	u := newUpdates(facts)
	u.ask.NamespaceLabelsKnown = labelsKnown
	u.ask.Fetch = func(ctx context.Context, ref clusterv1.ContractVersionedObjectReference) (map[string]any, error) {
		object, err := m.Referenced(ctx, objects.Cluster.Namespace, ref)
		if err != nil {
			return nil, err
		}
		return object.Object, nil
	}
	if err == nil && len(facts.Policies) > 0 {
		u.controlPlaneMachine, err = firstControlPlaneMachine(ctx, m, client.ObjectKeyFromObject(objects.Cluster))
	}
	if err != nil {
		u.Problem = err.Error()
	}
	return u
}

func firstControlPlaneMachine(ctx context.Context, m management.Cluster, key types.NamespacedName) (*clusterv1.Machine, error) {
	in := management.InCluster(key)
	in.Options = append(in.Options, client.HasLabels{clusterv1.MachineControlPlaneLabel})
	machines, err := management.List[*clusterv1.Machine, clusterv1.MachineList](ctx, m, "control plane Machines", in)
	if err != nil || len(machines) == 0 {
		return nil, err
	}
	return slices.MinFunc(machines, func(a, b *clusterv1.Machine) int { return strings.Compare(a.Name, b.Name) }), nil
}

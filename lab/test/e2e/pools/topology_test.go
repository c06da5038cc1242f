package pools_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/internal/setup"
	"github.com/windlass-dev/windlass/lab/test/e2e/internal/rig"
)

// managed is a Cluster with a topology whose only pool is updated in place.
type managed struct {
	*plane
	key     types.NamespacedName
	updater *rig.Updater
}

const (
	// managedReplicas is the size of the pool of a managed Cluster.
	managedReplicas = 6
	// firstMoves is how many of its machines move in the first rollout.
	firstMoves = 3
)

// testTopology sets variables of a topology and sets them back in the middle of the rollout: when some
// machines have moved, and when all have.
func (p *plane) testTopology(ctx context.Context, t *testing.T) {
	t.Helper()
	m := p.createManaged(ctx, t)
	var first map[types.UID]string
	m.await(ctx, t, "all machines", func() string {
		first = m.sets(ctx, t)
		return m.notAtRest(ctx, t, first, managedReplicas)
	})
	machines := m.census()
	m.turnAround(ctx, t, first, firstMoves)
	m.Change(ctx, t, m.key, func(c *clusterv1.Cluster) { setMaxUnavailable(c, managedReplicas) })
	m.await(ctx, t, "the new maxUnavailable", func() string {
		md := m.group(ctx, t)
		if n := md.Spec.Rollout.Strategy.RollingUpdate.MaxUnavailable.IntVal; n != managedReplicas {
			return fmt.Sprintf("it is %d", n)
		}
		return ""
	})
	m.turnAround(ctx, t, first, managedReplicas)
	rig.CheckCensus(t, machines, m.census())
}

// turnAround sets two variables, and sets them back when one machine is being updated and the others
// that have moved wait for their turn. The variables are in both templates. The machines that wait go
// back at once, without a call of the updater, and the one that has begun is updated twice. The
// MachineSets stay the same.
func (m *managed) turnAround(
	ctx context.Context, t *testing.T, first map[types.UID]string, moved int,
) {
	t.Helper()
	before := m.updater.Stats(ctx, t)
	begun := func() int { return m.updater.Stats(ctx, t).Started - before.Started }
	m.updater.Behave(ctx, t, stalling)
	m.set(ctx, t, "debug", "2s")
	m.await(ctx, t, "Machines that have moved", func() string {
		if n := m.pending(ctx, t); n != moved || begun() != 1 {
			return fmt.Sprintf("%d have the pending hook, and %d updates have begun", n, begun())
		}
		return ""
	})
	sets := m.sets(ctx, t)
	m.set(ctx, t, "info", "1s")
	m.await(ctx, t, "Machines that have returned", func() string {
		if n := m.pending(ctx, t); n != 1 {
			return fmt.Sprintf("%d have the pending hook", n)
		}
		return m.notAtRest(ctx, t, first, managedReplicas-1)
	})
	if n := begun(); n != 1 {
		t.Errorf("%d updates have begun before the revert's end, want 1", n)
	}
	if diff := cmp.Diff(sets, m.sets(ctx, t)); diff != "" {
		t.Errorf("the revert has changed the MachineSets (-before +after):\n%s", diff)
	}
	m.updater.Behave(ctx, t, working)
	m.await(ctx, t, "the end of the revert", func() string {
		if diff := cmp.Diff(first, m.sets(ctx, t)); diff != "" {
			return "the MachineSets are not those from before:\n" + diff
		}
		return m.notAtRest(ctx, t, first, managedReplicas)
	})
	if n := begun(); n != 2 {
		t.Errorf("%d updates have begun, want 2 of the same machine", n)
	}
}

// createManaged creates the Cluster in a namespace of its own.
func (p *plane) createManaged(ctx context.Context, t *testing.T) *managed {
	t.Helper()
	m := &managed{plane: p, key: types.NamespacedName{Namespace: "managed", Name: "managed"}}
	p.Namespace(ctx, t, m.key.Namespace, nil)
	m.updater = p.NewUpdater(ctx, t, setup.SimulatedUpdater{
		Name: "managed", Selector: rig.Labelled(clusterv1.ClusterNameLabel, m.key.Name),
		Claims: []string{"bootstrap:/spec/files", "infrastructure:/spec/backend"},
	})
	class, err := os.ReadFile("../../../../config/samples/dev/class.yaml")
	if err != nil {
		t.Fatal(err)
	}
	p.Apply(ctx, t, m.key.Namespace, string(class), func(o *unstructured.Unstructured) {
		if o.GetKind() == "KubeadmControlPlaneTemplate" {
			// One control plane machine cannot be replaced without a surge.
			unstructured.RemoveNestedField(o.Object, "spec", "template", "spec", "rollout")
		}
	})
	p.CreatePolicy(ctx, t, m.key.Namespace, m.key.Name, v1alpha1.UpdatePolicySpec{
		Strategy: v1alpha1.ExternalUpdate, Fallback: v1alpha1.FallbackNone,
		MaxInFlight: 1, SoakSeconds: 1,
		RolloutLimits: v1alpha1.RolloutLimits{Canary: new(intstr.FromInt32(0))},
		Targets: []v1alpha1.UpdateTarget{{
			ClusterName: m.key.Name, MachineDeployments: []v1alpha1.MachineDeploymentName{"general"},
		}},
	})
	cluster := rig.NewCluster(m.key, rig.FirstVersion, 1,
		rig.Group{Name: "general", Replicas: managedReplicas})
	cluster.Spec.Topology.ClassRef.Name = "in-memory"
	cluster.Spec.Topology.Variables = variables(t, "info", "1s")
	group := &cluster.Spec.Topology.Workers.MachineDeployments[0]
	group.Rollout.Strategy.Type = clusterv1.RollingUpdateMachineDeploymentStrategyType
	group.Rollout.Strategy.RollingUpdate.MaxSurge = new(intstr.FromInt32(0))
	setMaxUnavailable(cluster, firstMoves)
	if err := p.Client.Create(ctx, cluster); err != nil {
		t.Fatal(err)
	}
	return m
}

func setMaxUnavailable(c *clusterv1.Cluster, n int32) {
	group := &c.Spec.Topology.Workers.MachineDeployments[0]
	group.Rollout.Strategy.RollingUpdate.MaxUnavailable = new(intstr.FromInt32(n))
}

// group reads the MachineDeployment.
func (m *managed) group(ctx context.Context, t *testing.T) *clusterv1.MachineDeployment {
	t.Helper()
	list := &clusterv1.MachineDeploymentList{}
	if err := m.History.List(ctx, list, client.InNamespace(m.key.Namespace)); err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 1 {
		t.Fatalf("there are %d MachineDeployments, want 1", len(list.Items))
	}
	return &list.Items[0]
}

func variables(t *testing.T, logLevel, startup string) []clusterv1.ClusterVariable {
	t.Helper()
	value := func(name, value string) clusterv1.ClusterVariable {
		raw, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		return clusterv1.ClusterVariable{Name: name, Value: apiextensionsv1.JSON{Raw: raw}}
	}
	return []clusterv1.ClusterVariable{value("logLevel", logLevel), value("startup", startup)}
}

// set sets the variables.
func (m *managed) set(ctx context.Context, t *testing.T, logLevel, startup string) {
	t.Helper()
	m.Change(ctx, t, m.key, func(c *clusterv1.Cluster) {
		c.Spec.Topology.Variables = variables(t, logLevel, startup)
	})
}

func (m *managed) await(ctx context.Context, t *testing.T, what string, missing func() string) {
	t.Helper()
	m.History.Await(ctx, t, "waiting for "+what, missing)
}

// sets are the names of the MachineSets, by UID.
func (m *managed) sets(ctx context.Context, t *testing.T) map[types.UID]string {
	t.Helper()
	list := &clusterv1.MachineSetList{}
	if err := m.History.List(ctx, list, client.InNamespace(m.key.Namespace)); err != nil {
		t.Fatal(err)
	}
	sets := map[types.UID]string{}
	for i := range list.Items {
		sets[list.Items[i].UID] = list.Items[i].Name
	}
	return sets
}

// workers are the Machines of the pool.
func (m *managed) workers(ctx context.Context, t *testing.T) []clusterv1.Machine {
	t.Helper()
	list := &clusterv1.MachineList{}
	err := m.History.List(ctx, list, client.InNamespace(m.key.Namespace),
		client.HasLabels{clusterv1.MachineDeploymentNameLabel})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// census is which Machines of the pool there ever were. Stock Cluster API replaces that of the
// control plane, which has the variables, too.
func (m *managed) census() rig.Census {
	return m.Census(m.key.Namespace, func(machine *clusterv1.Machine) bool {
		return machine.Labels[clusterv1.MachineDeploymentNameLabel] != ""
	})
}

// pending counts the Machines of the pool that are being updated or wait for their turn.
func (m *managed) pending(ctx context.Context, t *testing.T) int {
	t.Helper()
	return len(slices.DeleteFunc(m.workers(ctx, t), func(machine clusterv1.Machine) bool {
		return machine.Annotations[runtimev1.PendingHooksAnnotation] == ""
	}))
}

// notAtRest says why not exactly n Machines of the pool are ready, without marks, in the only one
// of the MachineSets.
func (m *managed) notAtRest(
	ctx context.Context, t *testing.T, sets map[types.UID]string, n int,
) string {
	t.Helper()
	if len(sets) != 1 {
		return fmt.Sprintf("the MachineSets are %v", sets)
	}
	resting, missing := 0, ""
	for _, machine := range m.workers(ctx, t) {
		owner := metav1.GetControllerOf(&machine)
		why := rig.NotAt(&machine, rig.FirstVersion)
		switch {
		case owner == nil || sets[owner.UID] == "":
			missing = fmt.Sprintf("Machine %s has the owner %v", machine.Name, owner)
		case why != "":
			missing = why
		default:
			resting++
		}
	}
	if resting == n {
		return ""
	}
	return fmt.Sprintf("%d are at rest: %s", resting, missing)
}

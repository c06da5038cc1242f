package inplace

import (
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/test/clusterctl"
	"github.com/windlass-dev/windlass/lab/test/wire"
)

// blockMove is the annotation that keeps clusterctl waiting.
const blockMove = "clusterctl.cluster.x-k8s.io/block-move"

// TestMoveWaits moves a Cluster with clusterctl while an updater changes a machine. clusterctl
// pauses the Cluster, so nobody calls the hook any longer, and waits. The extension follows the
// updater to its end, and the Cluster moves. On the other plane the update is completed from its
// record, and the updater is asked nothing more.
func TestMoveWaits(t *testing.T) {
	source, target := wire.Start(t), wire.StartSecond(t)
	pool := source.NewPool(t, "a")
	adopt(t, source, pool)
	updater := newUpdater(t, source, pool, "u")
	var release atomic.Bool
	var ended atomic.Int32
	paused := make(chan struct{})
	updater.Update = func(request *runtimehooksv1.UpdateMachineRequest) wire.Answer {
		if !release.Load() {
			return working(request)
		}
		if ended.Add(1) == 1 {
			close(paused)
		}
		return finishes(pool)(request)
	}
	extension := source.Run(t)
	decide(t, extension, pool)
	pool.Move(t, "a")
	if answer := extension.Call(t, wire.UpdateMachine, pool.Update(t, "a")); answer.RetryAfterSeconds == 0 {
		t.Fatalf("the update does not run: %+v", answer)
	}
	if _, blocked := pool.Machine(t, "a").Annotations[blockMove]; !blocked {
		t.Fatalf("the Machine can be moved while its updater is at work: %v", pool.Machine(t, "a").Annotations)
	}
	// A process that is killed leaves the annotation with the record, and the next one continues with
	// both.
	extension.Kill(t)
	source.Run(t)

	moved := make(chan error, 1)
	go func() { moved <- clusterctl.Move(t, source, target, pool.Namespace) }()
	awaitPaused(t, source, pool)
	select {
	case err := <-moved:
		t.Fatalf("the Cluster was moved while its updater was at work: %v", err)
	default:
	}
	release.Store(true)
	<-paused
	if err := <-moved; err != nil {
		t.Fatal(err)
	}
	there := pool.On(target)
	machine := there.Machine(t, "a")
	if _, blocked := machine.Annotations[blockMove]; blocked {
		t.Errorf("the Machine cannot be moved again: %v", machine.Annotations)
	}
	asked := len(updater.Requests(wire.UpdateMachine.Hook))
	machine.Status.NodeRef = clusterv1.MachineNodeReference{Name: "a"} // A move takes no status along.
	if err := target.Client.Status().Update(t.Context(), machine); err != nil {
		t.Fatal(err)
	}
	update(t, target.Run(t), there, "a")
	if got := len(updater.Requests(wire.UpdateMachine.Hook)); got != asked {
		t.Errorf("the updater was asked %d times more after the move", got-asked)
	}
	if there.Machine(t, "a").Annotations[v1alpha1.LastUpdateAnnotation] == "" {
		t.Error("the end of the update is not recorded")
	}
}

// awaitPaused waits until clusterctl has paused the Cluster.
func awaitPaused(t *testing.T, plane *wire.Plane, pool *wire.Pool) {
	t.Helper()
	err := wire.Await(t.Context(), plane.Client, &clusterv1.ClusterList{}, func(c *clusterv1.Cluster) bool {
		return c.Spec.Paused != nil && *c.Spec.Paused
	}, client.InNamespace(pool.Namespace))
	if err != nil {
		t.Fatal(err)
	}
}

// adopt gives the objects of a pool the owners that Cluster API's controllers give them, and the
// Cluster the status that clusterctl requires: it moves what belongs to a Cluster.
func adopt(t *testing.T, plane *wire.Plane, pool *wire.Pool) {
	t.Helper()
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: pool.Namespace, Name: wire.ClusterName}}
	plane.Get(t, cluster)
	cluster.Status.Initialization.InfrastructureProvisioned = new(true)
	cluster.Status.Conditions = []metav1.Condition{{
		Type: clusterv1.ClusterControlPlaneInitializedCondition, Status: metav1.ConditionTrue, Reason: "Initialized", LastTransitionTime: metav1.Now(),
	}}
	if err := plane.Client.Status().Update(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	owner := *metav1.NewControllerRef(cluster, clusterv1.GroupVersion.WithKind("Cluster"))
	owner.Controller = nil
	for kind, names := range map[schema.GroupVersionKind][]string{
		clusterv1.GroupVersion.WithKind("MachineDeployment"):       {wire.PoolName},
		wire.InfrastructureVersion.WithKind("DevMachineTemplate"):  {"old", "new"},
		bootstrapv1.GroupVersion.WithKind("KubeadmConfigTemplate"): {"old", "new"},
	} {
		for _, name := range names {
			own(t, plane, kind, pool.Namespace, name, owner)
		}
	}
	machine := *metav1.NewControllerRef(pool.Machine(t, "a"), clusterv1.GroupVersion.WithKind("Machine"))
	own(t, plane, wire.InfrastructureVersion.WithKind("DevMachine"), pool.Namespace, "a", machine)
	own(t, plane, bootstrapv1.GroupVersion.WithKind("KubeadmConfig"), pool.Namespace, "a", machine)
}

// own gives an object an owner.
func own(t *testing.T, plane *wire.Plane, kind schema.GroupVersionKind, namespace, name string, owner metav1.OwnerReference) {
	t.Helper()
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	object.SetNamespace(namespace)
	object.SetName(name)
	plane.Get(t, object)
	object.SetOwnerReferences(append(object.GetOwnerReferences(), owner))
	if err := plane.Client.Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}

package chain_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/test/clusterctl"
	"github.com/windlass-dev/windlass/lab/test/wire"
)

// third is where the chain of TestMove ends.
const third = "v1.33.0"

// TestMove moves a Cluster to another management cluster with clusterctl in the middle of a chain:
// AfterControlPlaneUpgrade of the first minor holds it. The manager there continues with the hook
// that blocks. It repeats no step, and our objects have moved too.
func TestMove(t *testing.T) {
	source, target := wire.Start(t), wire.StartSecond(t)
	c := &cluster{Plane: source, namespace: source.Namespace(t)}
	var at atomic.Pointer[wire.Plane]
	at.Store(source)
	c.extension = newExtension(t, source, c.namespace, func() string {
		return (&cluster{Plane: at.Load(), namespace: c.namespace}).controlPlane(t).Spec.Version
	})
	c.createClass(t, strings.Replace(class, "[v1.31.0, v1.32.0]", "[v1.31.0, v1.32.0, v1.33.0]", 1))
	c.create(t, "c", first, 0)
	await(t, c, &controlplanev1.KubeadmControlPlaneList{}, "the control plane exists", func(*controlplanev1.KubeadmControlPlane) bool { return true })
	ours := c.createOurs(t)
	c.provision(t, first)
	c.awaitTold(t, "ReconcileSucceeded")
	c.extension.block(wire.AfterControlPlaneUpgrade, true)
	c.setTarget(t, third)
	c.awaitVersion(t, second)
	c.arrive(t, second)
	c.extension.await(t, wire.AfterControlPlaneUpgrade)
	c.awaitTold(t, "hook AfterControlPlaneUpgrade for "+second+" is blocking")
	before := c.read(t)

	// The manager there runs already, as it does where `clusterctl init` has prepared the management
	// cluster.
	moved := &cluster{Plane: target, namespace: c.namespace, extension: c.extension}
	c.extension.register(t, target, c.namespace)
	moved.start(t)
	if err := clusterctl.Move(t, source, target, c.namespace); err != nil {
		t.Fatal(err)
	}
	c.stop(t)
	at.Store(target)
	c.extension.note("the Cluster is moved")
	checkMoved(t, source, target, ours)
	after := moved.read(t)
	if before.UID == after.UID {
		t.Error("the Cluster has not moved")
	}
	progress := v1alpha1.ChainProgressAnnotation
	if after.Annotations[progress] == "" || after.Annotations[progress] != before.Annotations[progress] {
		t.Errorf("the progress of the chain was %q, and is %q", before.Annotations[progress], after.Annotations[progress])
	}

	// A move takes no status along: providers write it again.
	moved.provision(t, second)
	c.extension.await(t, wire.AfterControlPlaneUpgrade)
	c.extension.block(wire.AfterControlPlaneUpgrade, false)
	moved.awaitVersion(t, third)
	moved.arrive(t, third)
	moved.awaitTold(t, "ReconcileSucceeded")
	c.extension.want(t,
		"BeforeClusterUpgrade v1.33.0 while the control plane is at v1.31.0",
		"BeforeControlPlaneUpgrade v1.32.0 while the control plane is at v1.31.0",
		"AfterControlPlaneUpgrade v1.32.0 while the control plane is at v1.32.0",
		"the Cluster is moved",
		"AfterControlPlaneUpgrade v1.32.0 while the control plane is at v1.32.0",
		"BeforeControlPlaneUpgrade v1.33.0 while the control plane is at v1.32.0",
		"AfterControlPlaneUpgrade v1.33.0 while the control plane is at v1.33.0",
		"BeforeWorkersUpgrade v1.33.0 while the control plane is at v1.33.0",
		"AfterWorkersUpgrade v1.33.0 while the control plane is at v1.33.0",
		"AfterClusterUpgrade v1.33.0 while the control plane is at v1.33.0",
	)
}

// read reads the Cluster.
func (c *cluster) read(t *testing.T) *clusterv1.Cluster {
	t.Helper()
	object := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "c"}}
	c.Get(t, object)
	return object
}

// provision does what the providers of infrastructure and of the control plane do to a Cluster that
// exists, and waits until the Cluster shows it: clusterctl moves nothing before.
func (c *cluster) provision(t *testing.T, version string) {
	t.Helper()
	ref := c.read(t).Spec.InfrastructureRef
	infrastructure := &unstructured.Unstructured{}
	infrastructure.SetGroupVersionKind(wire.InfrastructureVersion.WithKind(ref.Kind))
	infrastructure.SetNamespace(c.namespace)
	infrastructure.SetName(ref.Name)
	patch := []byte(`{"status": {"initialization": {"provisioned": true}}}`)
	if err := c.Client.Status().Patch(t.Context(), infrastructure, client.RawPatch(types.MergePatchType, patch)); err != nil {
		t.Fatal(err)
	}
	c.arrive(t, version)
	await(t, c, &clusterv1.ClusterList{}, "the Cluster is provisioned", func(o *clusterv1.Cluster) bool {
		provisioned, initialized := o.Status.Initialization.InfrastructureProvisioned, o.Status.Initialization.ControlPlaneInitialized
		return provisioned != nil && *provisioned && initialized != nil && *initialized
	})
}

// createOurs creates an object of each of our kinds.
func (c *cluster) createOurs(t *testing.T) []client.Object {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: c.namespace, Name: "ours"}
	updater := wire.NewUpdater(t).Object(c.namespace)
	objects := []client.Object{
		&v1alpha1.UpgradeGate{ObjectMeta: meta, Spec: v1alpha1.UpgradeGateSpec{
			ClusterName: "c", Steps: []v1alpha1.GateStep{{At: "BeforeWorkersUpgrade"}},
			Requires: v1alpha1.GateRequirements{Checks: []v1alpha1.GateCheck{"NodesReady"}},
		}},
		&v1alpha1.UpdatePolicy{ObjectMeta: meta, Spec: v1alpha1.UpdatePolicySpec{
			Targets: []v1alpha1.UpdateTarget{{ClusterName: "c"}}, Strategy: v1alpha1.RollingUpdate,
		}},
		updater,
		&v1alpha1.UpgradeGraph{ObjectMeta: metav1.ObjectMeta{Name: c.namespace}, Spec: v1alpha1.UpgradeGraphSpec{Versions: []v1alpha1.Version{first}}},
	}
	c.Create(t, objects...)
	return objects
}

// checkMoved checks that our objects are on the target, and that those of the Cluster's namespace
// have left the source.
func checkMoved(t *testing.T, source, target *wire.Plane, ours []client.Object) {
	t.Helper()
	for _, object := range ours {
		name := fmt.Sprintf("%T %s", object, client.ObjectKeyFromObject(object))
		key := client.ObjectKeyFromObject(object)
		if err := target.Client.Get(t.Context(), key, object); err != nil {
			t.Errorf("%s has not moved: %v", name, err)
		}
		err := source.Client.Get(t.Context(), key, object)
		if stays := object.GetNamespace() == ""; stays != (err == nil) {
			t.Errorf("%s at the source: %v; one that is cluster-scoped must stay, another one must not", name, err)
		}
	}
}

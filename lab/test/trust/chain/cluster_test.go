package chain_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/windlass-dev/windlass/lab/test/wire"
)

// The versions that Clusters go through.
const (
	first  = "v1.31.0"
	second = "v1.32.0"
)

// patience is how long one step of a test may take; far beyond what a busy machine needs.
const patience = 2 * time.Minute

const class = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: ClusterClass
metadata: {name: small}
spec:
  kubernetesVersions: [v1.31.0, v1.32.0]
  controlPlane:
    templateRef: {apiVersion: controlplane.cluster.x-k8s.io/v1beta2, kind: KubeadmControlPlaneTemplate, name: small}
    machineInfrastructure:
      templateRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: DevMachineTemplate, name: small}
  infrastructure:
    templateRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: DevClusterTemplate, name: small}
  workers:
    machineDeployments:
    - class: worker
      # No webhook fills in defaults here.
      rollout: {strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}}
      bootstrap:
        templateRef: {apiVersion: bootstrap.cluster.x-k8s.io/v1beta2, kind: KubeadmConfigTemplate, name: small}
      infrastructure:
        templateRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: DevMachineTemplate, name: small}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: DevClusterTemplate
metadata: {name: small}
spec: {template: {spec: {backend: {inMemory: {}}}}}
---
apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: KubeadmControlPlaneTemplate
metadata: {name: small}
spec: {template: {spec: {kubeadmConfigSpec: {initConfiguration: {nodeRegistration: {criSocket: "unix:///run/containerd.sock"}}}}}}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: DevMachineTemplate
metadata: {name: small}
spec: {template: {spec: {backend: {inMemory: {}}}}}
---
apiVersion: bootstrap.cluster.x-k8s.io/v1beta2
kind: KubeadmConfigTemplate
metadata: {name: small}
spec: {template: {spec: {joinConfiguration: {nodeRegistration: {criSocket: "unix:///run/containerd.sock"}}}}}
`

// cluster is a Cluster with a control plane and one MachineDeployment, "a". The test plays the providers: nothing else writes the
// status of the control plane or gives Machines Nodes.
type cluster struct {
	*wire.Plane
	namespace string
	extension *extension
	manager   *wire.Process
}

// newCluster makes a Cluster at the first version, with a manager beside it.
func newCluster(t *testing.T, workers int32) *cluster {
	t.Helper()
	plane := wire.Start(t)
	c := &cluster{Plane: plane, namespace: plane.Namespace(t)}
	c.extension = newExtension(t, plane, c.namespace, func() string { return c.controlPlane(t).Spec.Version })
	c.createClass(t, class)
	c.create(t, "c", first, workers)
	await(t, c, &controlplanev1.KubeadmControlPlaneList{}, "the control plane exists", func(*controlplanev1.KubeadmControlPlane) bool { return true })
	return c
}

// createClass creates a class and its templates, starts the manager, and waits until the class is ready.
func (c *cluster) createClass(t *testing.T, documents string) {
	t.Helper()
	for document := range strings.SplitSeq(documents, "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			t.Fatal(err)
		}
		object.SetNamespace(c.namespace)
		c.Create(t, object)
	}
	c.start(t)
	await(t, c, &clusterv1.ClusterClassList{}, "the class is ready", func(class *clusterv1.ClusterClass) bool {
		return meta.IsStatusConditionTrue(class.Status.Conditions, clusterv1.ClusterClassVariablesReadyCondition)
	})
}

// create creates a Cluster of the class.
func (c *cluster) create(t *testing.T, name, version string, workers int32) {
	t.Helper()
	c.Create(t, &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: name}, Spec: clusterv1.ClusterSpec{Topology: clusterv1.Topology{
		ClassRef: clusterv1.ClusterClassRef{Name: "small"}, Version: version, ControlPlane: clusterv1.ControlPlaneTopology{Replicas: new(int32(1))},
		Workers: clusterv1.WorkersTopology{MachineDeployments: []clusterv1.MachineDeploymentTopology{{Class: "worker", Name: "a", Replicas: &workers}}},
	}}})
}

// start starts the manager.
func (c *cluster) start(t *testing.T) {
	t.Helper()
	c.manager = c.RunManager(t, "--feature-gates=ClusterTopology=true,RuntimeSDK=true", "--v=4")
}

// stop kills the manager.
func (c *cluster) stop(t *testing.T) {
	t.Helper()
	c.manager.Kill(t)
}

func deadline(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// await waits until an object in the Cluster's namespace is accepted.
func await[T client.Object](t *testing.T, c *cluster, list client.ObjectList, what string, accept func(T) bool) {
	t.Helper()
	if err := wire.Await(deadline(t), c.Client, list, accept, client.InNamespace(c.namespace)); err != nil {
		t.Fatalf("waiting until %s: %v; the hooks: %q; the Cluster: %s", what, err, c.extension.entries(), c.condition(t))
	}
}

// condition is what the Cluster tells of its upgrade.
func (c *cluster) condition(t *testing.T) string {
	t.Helper()
	object := &clusterv1.Cluster{}
	if err := c.Client.Get(t.Context(), c.key(), object); err != nil {
		return err.Error()
	}
	return told(object)
}

func told(object *clusterv1.Cluster) string {
	condition := meta.FindStatusCondition(object.Status.Conditions, clusterv1.ClusterTopologyReconciledCondition)
	if condition == nil {
		return "nothing"
	}
	return fmt.Sprintf("%s %s", condition.Reason, condition.Message)
}

func (c *cluster) key() types.NamespacedName {
	return types.NamespacedName{Namespace: c.namespace, Name: "c"}
}

// awaitTold waits until the Cluster tells something of its upgrade.
func (c *cluster) awaitTold(t *testing.T, what string) {
	t.Helper()
	await(t, c, &clusterv1.ClusterList{}, "the Cluster tells of "+what, func(object *clusterv1.Cluster) bool { return strings.Contains(told(object), what) })
}

// controlPlane reads the control plane.
func (c *cluster) controlPlane(t *testing.T) *controlplanev1.KubeadmControlPlane {
	t.Helper()
	list := &controlplanev1.KubeadmControlPlaneList{}
	if err := c.Client.List(t.Context(), list, client.InNamespace(c.namespace)); err != nil || len(list.Items) != 1 {
		t.Errorf("%d control planes, %v", len(list.Items), err)
		return &controlplanev1.KubeadmControlPlane{}
	}
	return &list.Items[0]
}

// arrive has the control plane report a version.
func (c *cluster) arrive(t *testing.T, version string) {
	t.Helper()
	patch := fmt.Sprintf(`{"status": {"version": %q, "initialization": {"controlPlaneInitialized": true}}}`, version)
	if err := c.Client.Status().Patch(t.Context(), c.controlPlane(t), client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		t.Fatal(err)
	}
}

// awaitVersion waits until the control plane is set to a version.
func (c *cluster) awaitVersion(t *testing.T, version string) {
	t.Helper()
	await(t, c, &controlplanev1.KubeadmControlPlaneList{}, "the control plane goes to "+version, func(cp *controlplanev1.KubeadmControlPlane) bool {
		return cp.Spec.Version == version
	})
}

// patch changes the Cluster.
func (c *cluster) patch(t *testing.T, patch string) {
	t.Helper()
	object := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "c"}}
	if err := c.Client.Patch(t.Context(), object, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		t.Fatal(err)
	}
}

// setTarget sets the version that the Cluster is to go to.
func (c *cluster) setTarget(t *testing.T, version string) {
	t.Helper()
	c.patch(t, fmt.Sprintf(`{"spec": {"topology": {"version": %q}}}`, version))
}

// leaveAsStock leaves on the Cluster what Cluster API's own engine leaves when AfterClusterUpgrade blocks at the end of an upgrade.
func (c *cluster) leaveAsStock(t *testing.T) {
	t.Helper()
	c.patch(t, fmt.Sprintf(`{"metadata": {"annotations": {%q: "AfterClusterUpgrade", %q: %q, %q: null, %q: null}}}`,
		runtimev1.PendingHooksAnnotation, clusterv1.ClusterTopologyUpgradeStepAnnotation, first, "windlass.dev/chain-progress", "windlass.dev/chain-intent"))
	patch := `{"metadata": {"annotations": {"windlass.dev/chain-step": null}}}`
	if err := c.Client.Patch(t.Context(), c.controlPlane(t), client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		t.Fatal(err)
	}
}

//go:build linux

package real_test

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"
	"text/template"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/kubeconfig"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/lab/internal/programs"
	"github.com/windlass-dev/windlass/lab/internal/setup"
	"github.com/windlass-dev/windlass/lab/kube"
	"github.com/windlass-dev/windlass/pkg/version"
)

// TestClusters has stock Cluster API create real clusters on hosts, and Windlass upgrade them: one in
// place, and one by its engine in the place of the stock core manager.
func TestClusters(t *testing.T) {
	u := startUpgrade(t)
	t.Run("clusters", func(t *testing.T) {
		t.Run("single", func(t *testing.T) {
			t.Parallel()
			u.testSingle(t)
		})
		t.Run("several", func(t *testing.T) {
			t.Parallel()
			u.testSeveral(t)
		})
	})
}

// upgrade is a plane for upgrades from one release to another. The extension runs on it.
type upgrade struct {
	*plane
	ctx      context.Context // it ends with the test's time
	from, to kube.Release
}

// startUpgrade starts a plane for upgrades to the next minor, with the updater of kind Kubeadm.
func startUpgrade(t *testing.T) *upgrade {
	t.Helper()
	host := prepare(t, "v1.35.4", "v1.36.3")
	u := &upgrade{from: host.Releases[0], to: host.Releases[1]}
	u.startPlane(t, host)
	if err := setup.AddHostUpdater(u.ctx, u.Plane, host.Mirror); err != nil {
		t.Fatal(err)
	}
	return u
}

// startPlane starts the plane, and the extension on it.
func (u *upgrade) startPlane(t *testing.T, host setup.HostPrograms) {
	t.Helper()
	u.ctx, u.plane = start(t, nil, host.Arguments()...)
	if err := setup.Register(u.ctx, u.Plane, u.Windlass); err != nil {
		t.Fatal(err)
	}
}

// prepare builds versions of Kubernetes, and lays out what hosts run.
func prepare(t *testing.T, versions ...string) setup.HostPrograms {
	t.Helper()
	if os.Getenv("WINDLASS_E2E") != "1" {
		t.Skip("set WINDLASS_E2E=1 to run tests on a development plane")
	}
	runtime, err := programs.BuildRuntime()
	if err != nil {
		t.Fatal(err)
	}
	// Hosts have a /tmp of their own.
	dir, err := os.MkdirTemp("/var/tmp", "windlass-real-") //nolint:usetesting // for the reason above
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	var parsed []version.Version
	for _, v := range versions {
		parsed = append(parsed, version.MustParse(v))
	}
	host, err := setup.BuildHostPrograms(
		t.Context(), repository, dir, runtime, parsed, func(version.Version) {})
	if err != nil {
		t.Fatal(err)
	}
	return host
}

var (
	//go:embed testdata/cluster.yaml
	clusterManifest string
	//go:embed testdata/class.yaml
	classManifest string
)

// shape is what a Cluster is made from.
type shape struct {
	Name, Version                string
	ControlPlanes, Workers, Pool int
	// Kept is the size of another MachineDeployment, whose machines are for updates in place.
	Kept int
	// NoSurge has KubeadmControlPlane add no machine to those that there are.
	NoSurge bool
	// PlanExtension is the hook that makes upgrade plans for the ClusterClass; empty if it has none.
	PlanExtension string
}

// workers is the number of machines beside the control plane's.
func (s shape) workers() int { return s.Workers + s.Kept + s.Pool }

// realCluster is a Cluster in the namespace of its name.
type realCluster struct {
	*plane
	shape
	// outdated reports that the spec of the control plane asks for an older version than its
	// machines have. Cluster API then calls none of them up to date.
	outdated bool
}

func (p *plane) createReal(ctx context.Context, t *testing.T, manifest string, s shape) *realCluster {
	t.Helper()
	if err := setup.ApplyAll(ctx, p.client, s.Name, decode(t, manifest, s)); err != nil {
		t.Fatal(err)
	}
	return &realCluster{plane: p, shape: s}
}

// decode returns the objects of a manifest, which is a template for data.
func decode(t *testing.T, manifest string, data any) []*unstructured.Unstructured {
	t.Helper()
	var text bytes.Buffer
	if err := template.Must(template.New("").Parse(manifest)).Execute(&text, data); err != nil {
		t.Fatal(err)
	}
	var objects []*unstructured.Unstructured
	for decoder := yaml.NewYAMLOrJSONDecoder(&text, 4096); ; {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatal(err)
		}
		objects = append(objects, object)
	}
}

// await waits until Cluster API calls everything available, and all Machines are at the Cluster's
// version.
func (c *realCluster) await(ctx context.Context, t *testing.T) {
	t.Helper()
	began := time.Now()
	defer func() {
		t.Logf("%d control plane machines, %d workers and a pool of %d are at %s after %s",
			c.ControlPlanes, c.Workers+c.Kept, c.Pool, c.Version, time.Since(began).Round(time.Second))
	}()
	c.awaitMachines(ctx, t)
	await(ctx, t, c.plane, &controlplanev1.KubeadmControlPlaneList{}, c.Name, c.Name, func(cp *controlplanev1.KubeadmControlPlane) string {
		for _, condition := range []string{
			controlplanev1.KubeadmControlPlaneAvailableCondition, controlplanev1.KubeadmControlPlaneEtcdClusterHealthyCondition,
			controlplanev1.KubeadmControlPlaneControlPlaneComponentsHealthyCondition,
		} {
			if missing := setup.NotTrue(cp.Status.Conditions, condition); missing != "" {
				return missing
			}
		}
		upToDate := c.ControlPlanes
		if c.outdated {
			upToDate = 0
		}
		for name, n := range map[string]struct {
			is   *int32
			want int
		}{
			"existing":   {cp.Status.Replicas, c.ControlPlanes},
			"up-to-date": {cp.Status.UpToDateReplicas, upToDate},
			"available":  {cp.Status.AvailableReplicas, c.ControlPlanes},
		} {
			if n.is == nil || int(*n.is) != n.want {
				return fmt.Sprintf("not %d replicas are %s", n.want, name)
			}
		}
		return ""
	})
	if c.Pool > 0 {
		await(ctx, t, c.plane, &clusterv1.MachinePoolList{}, c.Name, c.Name+"-pool", func(pool *clusterv1.MachinePool) string {
			if provisioned := pool.Status.Initialization.InfrastructureProvisioned; provisioned == nil || !*provisioned {
				return "its infrastructure is not provisioned"
			}
			if n := len(pool.Status.NodeRefs); n != c.Pool {
				return fmt.Sprintf("it has %d Nodes", n)
			}
			return ""
		})
	}
	c.awaitCluster(ctx, t, c.Name, func(cluster *clusterv1.Cluster) string {
		if missing := setup.NotTrue(cluster.Status.Conditions, clusterv1.ClusterAvailableCondition); missing != "" {
			return missing
		}
		if cluster.Spec.Topology.IsDefined() {
			missing := setup.NotTrue(
				cluster.Status.Conditions, clusterv1.ClusterTopologyReconciledCondition)
			if missing != "" {
				return missing
			}
		}
		want := c.workers()
		if want == 0 {
			return ""
		}
		if w := cluster.Status.Workers; w == nil || w.AvailableReplicas == nil || int(*w.AvailableReplicas) != want {
			return fmt.Sprintf("its workers are %+v, want %d", cluster.Status.Workers, want)
		}
		return ""
	})
}

// awaitMachines waits until the Cluster has the right number of Machines, each with a Node at its
// version.
func (c *realCluster) awaitMachines(ctx context.Context, t *testing.T) {
	t.Helper()
	w, err := c.client.Watch(ctx, &clusterv1.MachineList{}, client.InNamespace(c.Name))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	for {
		missing := c.missing(c.machines(ctx, t))
		if missing == "" {
			return
		}
		if _, ok := <-w.ResultChan(); !ok {
			t.Fatalf("waiting for the Machines of %s: %s: %v", c.Name, missing, context.Cause(ctx))
		}
	}
}

func (c *realCluster) missing(machines []clusterv1.Machine) string {
	if want := c.ControlPlanes + c.workers(); len(machines) != want {
		return fmt.Sprintf("there are %d, want %d", len(machines), want)
	}
	for _, m := range machines {
		if info := m.Status.NodeInfo; info == nil || info.KubeletVersion != c.Version {
			return fmt.Sprintf("%s is not at %s: %+v", m.Name, c.Version, info)
		}
	}
	return ""
}

// config returns what leads to the Cluster, through its load balancer.
func (c *realCluster) config(ctx context.Context, t *testing.T) *rest.Config {
	t.Helper()
	data, err := kubeconfig.FromSecret(ctx, c.client, c.key())
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(data)
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// connect returns a client of the Cluster.
func (c *realCluster) connect(ctx context.Context, t *testing.T) client.WithWatch {
	t.Helper()
	workload, err := client.NewWithWatch(
		c.config(ctx, t), client.Options{Scheme: c.client.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	return workload
}

// checkNodes compares the Nodes with the Machines.
func (c *realCluster) checkNodes(ctx context.Context, t *testing.T) {
	t.Helper()
	nodes, machines := &corev1.NodeList{}, &clusterv1.MachineList{}
	if err := errors.Join(c.connect(ctx, t).List(ctx, nodes), c.client.List(ctx, machines, client.InNamespace(c.Name))); err != nil {
		t.Fatal(err)
	}
	if want := c.ControlPlanes + c.workers(); len(nodes.Items) != want || len(machines.Items) != want {
		t.Errorf("%d Nodes and %d Machines, want %d", len(nodes.Items), len(machines.Items), want)
	}
	ids := map[string]string{}
	for _, machine := range machines.Items {
		ids[machine.Spec.ProviderID] = machine.Name
	}
	for _, node := range nodes.Items {
		if node.Status.NodeInfo.KubeletVersion != c.Version || ids[node.Spec.ProviderID] == "" {
			t.Errorf("Node %s: kubelet %s, provider ID %s", node.Name, node.Status.NodeInfo.KubeletVersion, node.Spec.ProviderID)
		}
	}
}

// scale sets the number of control plane machines in the Cluster's topology.
func (c *realCluster) scale(ctx context.Context, t *testing.T, replicas int) {
	t.Helper()
	c.ControlPlanes = replicas
	c.patch(ctx, t, c.cluster(), `{"spec":{"topology":{"controlPlane":{"replicas":%d}}}}`, replicas)
}

func (c *realCluster) cluster() *clusterv1.Cluster {
	return &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: c.Name, Name: c.Name}}
}

func (c *realCluster) key() client.ObjectKey {
	return client.ObjectKey{Namespace: c.Name, Name: c.Name}
}

// delete deletes the Cluster, and waits until it is gone with its hosts.
func (c *realCluster) delete(ctx context.Context, t *testing.T) {
	t.Helper()
	cluster := c.cluster()
	if err := c.client.Delete(ctx, cluster); err != nil {
		t.Fatal(err)
	}
	c.awaitGone(ctx, t, &clusterv1.ClusterList{}, cluster)
}

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
	"path/filepath"
	"testing"
	"text/template"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
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

// TestClusters has stock Cluster API create real clusters on hosts.
func TestClusters(t *testing.T) {
	release := build(t, version.Minor{Major: 1, Minor: 36})
	ctx, p := start(t, nil, prepare(t, release)...)
	t.Run("clusters", func(t *testing.T) {
		t.Run("single", func(t *testing.T) {
			t.Parallel()
			p.testSingle(ctx, t, release)
		})
		t.Run("several", func(t *testing.T) {
			t.Parallel()
			p.testSeveral(ctx, t, release)
		})
	})
}

func (p *plane) testSingle(ctx context.Context, t *testing.T, release kube.Release) {
	t.Helper()
	c := p.createReal(ctx, t, clusterManifest, shape{Name: "single", Version: release.Version.String(), ControlPlanes: 1})
	c.await(ctx, t)
	c.checkNodes(ctx, t)
	c.delete(ctx, t)
}

// testSeveral creates 3 control plane machines, a worker and a MachinePool, and scales them.
func (p *plane) testSeveral(ctx context.Context, t *testing.T, release kube.Release) {
	t.Helper()
	c := p.createReal(ctx, t, clusterManifest, shape{Name: "several", Version: release.Version.String(), ControlPlanes: 3, Workers: 1, Pool: 2})
	c.await(ctx, t)
	c.checkNodes(ctx, t)
	for _, replicas := range []int{1, 3} {
		c.scale(ctx, t, replicas)
		c.await(ctx, t)
		c.checkNodes(ctx, t)
	}
	c.delete(ctx, t)
}

func build(t *testing.T, minor version.Minor) kube.Release {
	t.Helper()
	if os.Getenv("WINDLASS_E2E") != "1" {
		t.Skip("set WINDLASS_E2E=1 to run tests on a development plane")
	}
	release, err := kube.BuildRelease(t.Context(), repository, minor)
	if err != nil {
		t.Fatal(err)
	}
	return release
}

// prepare lays out what hosts run, and returns the arguments with which the site finds it.
func prepare(t *testing.T, releases ...kube.Release) []string {
	t.Helper()
	// Hosts have a /tmp of their own.
	dir, err := os.MkdirTemp("/var/tmp", "windlass-real-") //nolint:usetesting // for the reason above
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	store, err := kube.NewStore(dir, releases...)
	if err != nil {
		t.Fatal(err)
	}
	runtime := filepath.Join(dir, "windlass-cri")
	if err := programs.Compile(t.Context(), "../../..", runtime, "./cmd/windlass-cri"); err != nil {
		t.Fatal(err)
	}
	return []string{"--store", store.Dir, "--runtime", runtime}
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
}

// realCluster is a Cluster in the namespace of its name.
type realCluster struct {
	*plane
	shape
}

func (p *plane) createReal(ctx context.Context, t *testing.T, manifest string, s shape) *realCluster {
	t.Helper()
	var text bytes.Buffer
	if err := template.Must(template.New("cluster").Parse(manifest)).Execute(&text, s); err != nil {
		t.Fatal(err)
	}
	var objects []*unstructured.Unstructured
	for decoder := yaml.NewYAMLOrJSONDecoder(&text, 4096); ; {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		objects = append(objects, object)
	}
	if err := setup.ApplyAll(ctx, p.client, s.Name, objects); err != nil {
		t.Fatal(err)
	}
	return &realCluster{plane: p, shape: s}
}

// await waits until Cluster API calls everything available.
func (c *realCluster) await(ctx context.Context, t *testing.T) {
	t.Helper()
	await(ctx, t, c.plane, &controlplanev1.KubeadmControlPlaneList{}, c.Name, c.Name, func(cp *controlplanev1.KubeadmControlPlane) string {
		for _, condition := range []string{
			controlplanev1.KubeadmControlPlaneAvailableCondition, controlplanev1.KubeadmControlPlaneEtcdClusterHealthyCondition,
			controlplanev1.KubeadmControlPlaneControlPlaneComponentsHealthyCondition,
		} {
			if missing := setup.NotTrue(cp.Status.Conditions, condition); missing != "" {
				return missing
			}
		}
		for name, n := range map[string]*int32{
			"existing": cp.Status.Replicas, "up-to-date": cp.Status.UpToDateReplicas, "available": cp.Status.AvailableReplicas,
		} {
			if n == nil || int(*n) != c.ControlPlanes {
				return fmt.Sprintf("not %d replicas are %s", c.ControlPlanes, name)
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
		want := c.Workers + c.Pool
		if want == 0 {
			return ""
		}
		if w := cluster.Status.Workers; w == nil || w.AvailableReplicas == nil || int(*w.AvailableReplicas) != want {
			return fmt.Sprintf("its workers are %+v, want %d", cluster.Status.Workers, want)
		}
		return ""
	})
}

// connect returns a client of the Cluster, through its load balancer.
func (c *realCluster) connect(ctx context.Context, t *testing.T) client.WithWatch {
	t.Helper()
	data, err := kubeconfig.FromSecret(ctx, c.client, client.ObjectKey{Namespace: c.Name, Name: c.Name})
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(data)
	if err != nil {
		t.Fatal(err)
	}
	workload, err := client.NewWithWatch(config, client.Options{Scheme: c.client.Scheme()})
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
	if want := c.ControlPlanes + c.Workers + c.Pool; len(nodes.Items) != want || len(machines.Items) != want {
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

// scale sets the number of control plane machines.
func (c *realCluster) scale(ctx context.Context, t *testing.T, replicas int) {
	t.Helper()
	c.ControlPlanes = replicas
	cp := &controlplanev1.KubeadmControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: c.Name, Name: c.Name}}
	c.patch(ctx, t, cp, `{"spec":{"replicas":%d}}`, replicas)
}

// delete deletes the Cluster, and waits until it is gone with its hosts.
func (c *realCluster) delete(ctx context.Context, t *testing.T) {
	t.Helper()
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: c.Name, Name: c.Name}}
	if err := c.client.Delete(ctx, cluster); err != nil {
		t.Fatal(err)
	}
	c.awaitGone(ctx, t, &clusterv1.ClusterList{}, cluster)
}

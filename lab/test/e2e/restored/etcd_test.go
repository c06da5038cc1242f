package restored_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/lab/internal/devplane"
	"github.com/windlass-dev/windlass/lab/internal/setup"
	"github.com/windlass-dev/windlass/lab/test/e2e/internal/rig"
)

// whileDown kills the API server with its etcd, calls do with etcd's folder, and starts both again.
func (p *plane) whileDown(ctx context.Context, t *testing.T, do func(etcd string)) {
	t.Helper()
	if _, err := p.KillChild(ctx, devplane.APIServer); err != nil {
		t.Fatal(err)
	}
	do(filepath.Join(p.StateDir, "apiserver", "etcd"))
	if _, err := p.StartChild(ctx, devplane.APIServer); err != nil {
		t.Fatal(err)
	}
}

func copyFolder(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

// revision is that of etcd.
func (p *plane) revision(ctx context.Context, t *testing.T) int64 {
	t.Helper()
	list := &clusterv1.ClusterList{}
	if err := p.Client.List(ctx, list, client.Limit(1)); err != nil {
		t.Fatal(err)
	}
	revision, err := strconv.ParseInt(list.ResourceVersion, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return revision
}

// starts is how often each of Windlass' processes was started.
func (p *plane) starts(ctx context.Context, t *testing.T) map[string]int {
	t.Helper()
	status, err := p.Status(ctx)
	if err != nil {
		t.Fatal(err)
	}
	starts := map[string]int{}
	for _, c := range status.Children {
		if c.Name == setup.ManagerName || c.Name == setup.ExtensionName {
			starts[c.Name] = c.Starts
		}
	}
	return starts
}

// awaitNextProcesses waits until each of Windlass' processes has ended by itself and the next one is
// ready. Only the extension is started again by the plane.
func (p *plane) awaitNextProcesses(ctx context.Context, t *testing.T, starts map[string]int) {
	t.Helper()
	for after := int64(-1); ; {
		status, err := p.Watch(ctx, after)
		if err != nil {
			t.Fatal(err)
		}
		after = status.Revision
		ready := 0
		for _, c := range status.Children {
			switch before, is := starts[c.Name]; {
			case is && c.State == devplane.ChildExited:
				if _, err := p.StartChild(ctx, c.Name); err != nil {
					t.Fatal(err)
				}
			case is && c.Starts > before && c.State == devplane.ChildReady:
				ready++
			}
		}
		if ready == len(starts) {
			break
		}
	}
	for name := range starts {
		log, err := os.ReadFile(filepath.Join(p.StateDir, "logs", name+".log"))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(log), "as after a restore of its etcd") {
			t.Errorf("the log of %s does not say why it ended", name)
		}
	}
}

// reviveProviders gives Cluster API's own providers the restored state. Those of kubeadm are started
// again, as every controller must be after such a restore. The in-memory provider has the machines in
// its memory, so it must live: etcd reaches the revision that its watches wait for, and then each object
// is written once.
func (p *plane) reviveProviders(ctx context.Context, t *testing.T, lost int64) {
	t.Helper()
	for _, name := range []string{devplane.KubeadmBootstrapManager, devplane.KubeadmControlPlaneManager} {
		if _, err := p.KillChild(ctx, name); err != nil {
			t.Fatal(err)
		}
		if _, err := p.StartChild(ctx, name); err != nil {
			t.Fatal(err)
		}
	}
	counter := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: chain.Namespace, Name: "counter"}}
	if err := p.Client.Create(ctx, counter); err != nil {
		t.Fatal(err)
	}
	for i := p.revision(ctx, t); i <= lost; i++ {
		counter.Data = map[string]string{"i": fmt.Sprint(i)}
		if err := p.Client.Update(ctx, counter); err != nil {
			t.Fatal(err)
		}
	}
	infrastructure := schema.GroupVersion{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta2"}
	for _, kind := range []schema.GroupVersionKind{
		clusterv1.GroupVersion.WithKind("Cluster"), clusterv1.GroupVersion.WithKind("Machine"),
		infrastructure.WithKind("DevCluster"), infrastructure.WithKind("DevMachine"),
	} {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if err := p.Client.List(ctx, list); err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			list.Items[i].SetGroupVersionKind(kind)
			rig.AnnotateObject(ctx, t, p.Client, &list.Items[i], map[string]any{"example.com/restored": ""})
		}
	}
}

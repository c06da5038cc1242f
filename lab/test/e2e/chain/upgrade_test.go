package chain

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/lab/internal/devplane"
	"github.com/windlass-dev/windlass/lab/internal/programs"
	"github.com/windlass-dev/windlass/lab/internal/setup"
	"github.com/windlass-dev/windlass/lab/test/e2e/internal/agree"
	"github.com/windlass-dev/windlass/lab/test/e2e/internal/judge"
	"github.com/windlass-dev/windlass/lab/test/e2e/internal/rig"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// start is where Clusters are when their upgrade begins.
const start = "v1.29.14"

// upgraded is a Cluster that "windlass-lab rehearse" has upgraded, on the plane that it has left.
type upgraded struct {
	windlass string
	plane    *devplane.Plane
	client   client.WithWatch
	// output is what the demo said.
	output   string
	before   agree.Recorded
	happened agree.Upgrade
}

// upgrade has "windlass-lab rehearse" upgrade a Cluster.
func upgrade(ctx context.Context, t *testing.T, key types.NamespacedName, args ...string) upgraded {
	t.Helper()
	paths, err := programs.Build()
	if err != nil {
		t.Fatal(err)
	}
	u := upgraded{windlass: paths.Windlass}
	state := filepath.Join(t.TempDir(), "state")
	t.Cleanup(func() {
		// The test's own context has ended by now.
		if output, err := exec.CommandContext(context.WithoutCancel(ctx), paths.Lab, "down", "--source", repository, "--state-dir", state).CombinedOutput(); err != nil {
			t.Errorf("windlass-lab down: %v\n%s", err, output)
		}
	})
	running := startDemo(ctx, t, paths, "rehearse", append([]string{"--source", repository, "--state-dir", state, "--keep", "--to", target}, args...)...)
	running.await(ctx, t, fmt.Sprintf("Upgrading Cluster %s to %s", key.Name, target))
	if u.plane, err = devplane.Connect(ctx, state); err != nil {
		t.Fatal(err)
	}
	if u.client, err = setup.Connect(u.plane); err != nil {
		t.Fatal(err)
	}
	u.follow(ctx, t, key)
	u.output = running.end(ctx, t)
	return u
}

// follow sees the upgrade begin, writes down what the Cluster is like, and sees how it goes.
func (u *upgraded) follow(ctx context.Context, t *testing.T, key types.NamespacedName) {
	t.Helper()
	history := rig.Follow(ctx, t, u.plane.RESTConfig(), u.client.Scheme())
	command := judge.Command{Windlass: u.windlass, Kubeconfig: u.plane.KubeconfigPath()}
	judge.Watch(ctx, t, history.History, command, key)
	history.Await(ctx, t, "waiting for the target to be set", func() string {
		if at := history.Now(key).Cluster.Version; at != target {
			return "it is " + at
		}
		return ""
	})
	began := time.Now()
	u.before = agree.Cluster{NamespacedName: key, Windlass: u.windlass, Kubeconfig: u.plane.KubeconfigPath()}.Record(ctx, t, start, target)
	history.AwaitArrived(ctx, t, key, target)
	u.happened = agree.Happened(history.Changes(key), began)
}

// TestCluster upgrades the demo's own Cluster, 3 control plane machines and three pools, with the project's engine, and compares that with its simulation.
func TestCluster(t *testing.T) {
	if os.Getenv("WINDLASS_E2E") != "1" || os.Getenv("WINDLASS_LONG") != "1" {
		t.Skip("set WINDLASS_E2E=1 and WINDLASS_LONG=1 to upgrade the demo's whole Cluster; it takes ten minutes")
	}
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	manifests := filepath.Join(repository, "lab", "internal", "demo", "manifests")
	var args []string
	for _, name := range []string{"cluster.yaml", "clusterclass.yaml", "upgradegraph.yaml"} {
		args = append(args, "-f", filepath.Join(manifests, name))
	}
	u := upgrade(ctx, t, types.NamespacedName{Namespace: metav1.NamespaceDefault, Name: "demo"}, append(args, "--engine", "windlass")...)
	u.before.Check(ctx, t, u.happened)
}

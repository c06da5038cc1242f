// Package chain upgrades a small cluster by four minors on stock Cluster API, as a user does: with the windlass binary and
// manifests.
package chain

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/lab/internal/setup"
)

const (
	repository = "../../../.."
	target     = "v1.33.6"
	// timeout is far beyond what a busy machine needs.
	timeout = 20 * time.Minute
)

var cluster = types.NamespacedName{Namespace: "classes", Name: "small"}

func TestChain(t *testing.T) {
	if os.Getenv("WINDLASS_E2E") != "1" {
		t.Skip("set WINDLASS_E2E=1 to run tests on a development plane")
	}
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	u := upgrade(ctx, t, cluster, "-f", "testdata")
	for _, want := range []string{
		"CP upgrade v1.31.14 -> v1.32.3",
		"blue goes from v1.29.14 to v1.32.3",
		"blue goes from v1.32.3 to v1.33.6",
		"The observed operations are the planned ones.",
		"replaced 8 machines: 4 of the control plane, 4 workers",
		"would have replaced 8 workers: the chain saved 4",
	} {
		if !strings.Contains(strings.Join(strings.Fields(u.output), " "), want) {
			t.Errorf("the demo does not say %q:\n%s", want, u.output)
		}
	}

	machines := &clusterv1.MachineList{}
	if err := u.client.List(ctx, machines, client.InNamespace(cluster.Namespace)); err != nil {
		t.Fatal(err)
	}
	for _, m := range machines.Items {
		if m.Spec.Version != target || m.Status.NodeInfo == nil || m.Status.NodeInfo.KubeletVersion != target {
			t.Errorf("Machine %s is at %s with node %+v", m.Name, m.Spec.Version, m.Status.NodeInfo)
		}
	}
	t.Run("simulation", func(t *testing.T) { u.before.Check(ctx, t, u.happened) })
	t.Run("plan of the live cluster", func(t *testing.T) { planLive(ctx, t, u) })
	t.Run("a version that the graph does not offer", func(t *testing.T) { refuse(ctx, t, u.client) })
}

// planLive checks that the plan of a cluster that has arrived is empty.
func planLive(ctx context.Context, t *testing.T, u upgraded) {
	t.Helper()
	output := run(ctx, t, u.windlass, "plan", cluster.Name, "-n", cluster.Namespace, "--to", target, "--kubeconfig", u.plane.KubeconfigPath(), "-o", "json")
	var planned struct {
		Operations []any `json:"operations"`
	}
	if err := json.Unmarshal([]byte(output), &planned); err != nil || planned.Operations == nil || len(planned.Operations) > 0 {
		t.Errorf("planning to where the cluster is gives %v:\n%s", err, output)
	}
}

// refuse checks that an explanation of the extension reaches the Cluster's condition.
func refuse(ctx context.Context, t *testing.T, c client.WithWatch) {
	t.Helper()
	// A patch without a resourceVersion: the controllers write the Cluster at the same time, and an update would conflict.
	object := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Name: cluster.Name}}
	change := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"topology":{"version":"v1.34.2"}}}`))
	if err := c.Patch(ctx, object, change); err != nil {
		t.Fatal(err)
	}
	_, err := setup.Await(ctx, c, &clusterv1.ClusterList{}, func(seen *clusterv1.Cluster) string {
		condition := meta.FindStatusCondition(seen.Status.Conditions, clusterv1.ClusterTopologyReconciledCondition)
		if condition == nil || !strings.Contains(condition.Message, "add v1.34.2 to the upgrade graph") {
			return fmt.Sprintf("the condition is %+v", condition)
		}
		return ""
	}, client.InNamespace(cluster.Namespace))
	if err != nil {
		t.Errorf("the Cluster's condition does not show what the extension says: %v", err)
	}
}

// run runs a command, fails the test if it fails, and returns what it writes to standard output.
func run(ctx context.Context, t *testing.T, name string, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %s: %v\n%s\n%s", name, strings.Join(args, " "), err, stdout.String(), stderr.String())
	}
	return stdout.String()
}

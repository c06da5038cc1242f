package seeds_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/internal/history"
	"github.com/windlass-dev/windlass/lab/internal/programs"
	"github.com/windlass-dev/windlass/lab/internal/setup"
	"github.com/windlass-dev/windlass/lab/internal/simulated"
	"github.com/windlass-dev/windlass/lab/test/e2e/internal/rig"
)

// updaterScenarios show updaters that nobody wrote for these tests.
func (p *plane) updaterScenarios(upstream string) []poolScenario {
	const seconds = 30
	return []poolScenario{
		{
			rig.Pool{Name: "upstream", Replicas: 1, MaxUnavailable: 1, Policy: v1alpha1.UpdatePolicySpec{MaxAttempts: 1, AttemptTimeoutSeconds: seconds}},
			func(ctx context.Context, t *testing.T, pool string) {
				t.Helper()
				p.testUpstream(ctx, t, pool, upstream)
			},
		},
		// Without a canary the updater chooses the first machine, too.
		{rig.Pool{
			Name: "handed-over", Replicas: 2, MaxUnavailable: 2,
			Policy: v1alpha1.UpdatePolicySpec{
				RolloutLimits: v1alpha1.RolloutLimits{Canary: new(intstr.FromInt32(0))},
			},
		}, p.testHandOver},
		{rig.Pool{
			Name: "group", Replicas: 3, MaxUnavailable: 1,
			Policy: v1alpha1.UpdatePolicySpec{
				HandOver:      v1alpha1.HandOverGroup,
				RolloutLimits: v1alpha1.RolloutLimits{Partition: new(intstr.FromInt32(1))},
			},
		}, p.testHandOverGroup},
		{rig.Pool{
			Name: "group-declined", Replicas: 1, MaxUnavailable: 1,
			Policy: v1alpha1.UpdatePolicySpec{HandOver: v1alpha1.HandOverGroup},
		}, p.testHandOverGroupDeclined},
	}
}

// testUpstream has Cluster API's own test extension update a machine. It reports success after 15 to 20 seconds, and has
// changed nothing.
func (p *plane) testUpstream(ctx context.Context, t *testing.T, pool, extension string) {
	t.Helper()
	_, err := setup.RegisterUpdater(ctx, p.Plane.Plane, p.Programs.Lab, setup.SimulatedUpdater{
		Name: pool, Selector: rig.Labelled("pool", pool), Command: append([]string{extension}, upstreamFlags()...),
	})
	if err != nil {
		t.Fatal(err)
	}
	before := p.OnlyMachine(ctx, t, pool)
	workload := p.Workload(ctx, t, rig.PoolsCluster)
	nodeUID := func() types.UID {
		t.Helper()
		node := &corev1.Node{}
		if err := workload.Get(ctx, client.ObjectKey{Name: before.Status.NodeRef.Name}, node); err != nil {
			t.Fatal(err)
		}
		return node.UID
	}
	node := nodeUID()
	p.Send(ctx, t, pool, nextVersion)
	m := p.AwaitFailed(ctx, t, pool, 1)
	c := rig.Blocked(m.Status.Conditions)
	for _, want := range []string{`updater "upstream"`, "kubelet", rig.FirstVersion, v1alpha1.UpdateRetryAnnotation} {
		if !strings.Contains(c.Message, want) {
			t.Errorf("the Machine does not name %s: %s", want, c.Message)
		}
	}
	if m.UID != before.UID || nodeUID() != node {
		t.Error("the Machine or its Node was replaced")
	}
}

// testHandOver hands two machines over to the example, as a process of its own, whose inventory has the second machine first.
func (p *plane) testHandOver(ctx context.Context, t *testing.T, pool string) {
	t.Helper()
	want := p.startExample(ctx, t, pool)
	before := p.uids(ctx, t, pool)
	p.Send(ctx, t, pool, nextVersion)
	p.AwaitPool(ctx, t, pool, nextVersion, len(want))
	if got := p.order(pool); !slices.Equal(got, want) {
		t.Errorf("the machines were updated in the order %v, want that of the inventory, %v", got, want)
	}
	if uids := p.uids(ctx, t, pool); !slices.Equal(uids, before) {
		t.Errorf("the Machines are %v, want %v", uids, before)
	}
}

// startExample registers the example as the updater of a pool. It returns the names of the Machines in the
// order of its inventory, which is not that of the names.
func (p *plane) startExample(ctx context.Context, t *testing.T, pool string, flags ...string) (order []string) {
	t.Helper()
	dir := t.TempDir()
	machines := p.MachinesOf(ctx, t, rig.PoolsCluster, pool)
	slices.Reverse(machines)
	var inventory []map[string]string
	for _, m := range machines {
		order = append(order, m.Name)
		inventory = append(inventory, map[string]string{"machine": client.ObjectKeyFromObject(&m).String(), "host": m.Status.NodeRef.Name})
	}
	data, err := json.Marshal(inventory)
	if err != nil {
		t.Fatal(err)
	}
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for file, content := range map[string]string{
		"inventory.json": string(data), "update.sh": fmt.Sprintf("#!/bin/sh\n%s=yes exec %q \"$@\"\n", kubeletVariable, own),
	} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	program := filepath.Join(dir, "handover")
	if err := programs.Compile(ctx, ".", program, "github.com/windlass-dev/windlass/examples/handover"); err != nil {
		t.Fatal(err)
	}
	_, err = setup.RegisterUpdater(ctx, p.Plane.Plane, p.Programs.Lab, setup.SimulatedUpdater{
		Name: pool, Selector: rig.Labelled("pool", pool), Protocol: v1alpha1.HandOverProtocol,
		Command: append([]string{
			program, "--port", "$(PORT_hooks)", "--cert-dir", "$(CERT_DIR)", "--kubeconfig", "$(KUBECONFIG)",
			"--inventory", filepath.Join(dir, "inventory.json"), "--state-dir", filepath.Join(dir, "state"),
			"--command", filepath.Join(dir, "update.sh"), "--hold-file", filepath.Join(dir, "hold"),
		}, flags...),
	})
	if err != nil {
		t.Fatal(err)
	}
	return order
}

// order returns in which order the updates of a pool's Machines have begun.
func (p *plane) order(pool string) []string {
	var names []string
	for _, f := range p.History.Facts(func(f history.Fact) bool { return rig.MachineOf(f) != nil && f.Group == pool }) {
		if rig.ProgressOf(f.Object) != nil && !slices.Contains(names, f.Name) {
			names = append(names, f.Name)
		}
	}
	return names
}

// kubeletVariable is set where this test's binary runs as the command of the example: its arguments are a node and a version.
const kubeletVariable = "WINDLASS_TEST_KUBELET"

// setKubelet makes the node of a pool report another kubelet, which is what updating it does here.
func setKubelet(ctx context.Context, node, version string) error {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	management, err := client.New(config, client.Options{})
	if err != nil {
		return fmt.Errorf("connecting to the plane: %w", err)
	}
	cluster := types.NamespacedName{Namespace: rig.PoolsCluster, Name: rig.PoolsCluster}
	return simulated.NewInMemory(management).SetKubelet(ctx, cluster, node, version)
}

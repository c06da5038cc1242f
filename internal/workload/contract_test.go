package workload_test

import (
	"context"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/port"
	"github.com/windlass-dev/windlass/internal/port/porttest"
)

// nodesWorld is what testNodes needs of an implementation of port.Nodes: clusters, and functions
// that change them.
type nodesWorld struct {
	Nodes port.Nodes
	// Cluster can be reached and has no nodes; Machine is one of its Machines.
	Cluster, Machine types.NamespacedName
	// Unreachable is a cluster that cannot be reached.
	Unreachable types.NamespacedName
	// PutNode makes a node with these facts in Cluster.
	PutNode func(name string, facts inplace.Node)
	// PutPod puts a pod on a node; it leaves at once when it is evicted.
	PutPod func(node string)
	// PutBlockedPod puts a pod on a node that a PodDisruptionBudget of this name keeps there; allow makes the budget
	// permit its eviction.
	PutBlockedPod func(node, budget string) (allow func())
}

func TestContract(t *testing.T) {
	testNodes(t, func(t *testing.T) nodesWorld {
		t.Helper()
		w := newWorld(t)
		gone := newAPIServer(t)
		w.putSecret(t, away, gone.kubeconfig(nil))
		gone.Close()
		return nodesWorld{
			Nodes: w.nodes, Cluster: cluster, Machine: machine, Unreachable: away,
			PutNode: w.putNode,
			PutPod:  func(node string) { w.server.putPod("web", node, nil) },
			PutBlockedPod: func(node, budget string) func() {
				w.server.putPod("web", node, nil)
				w.server.refuseEviction("web", budgetRefuses(budget, 10))
				return func() { w.server.refuseEviction("web", nil) }
			},
		}
	})
}

func TestContractOfNodesInMemory(t *testing.T) {
	testNodes(t, func(*testing.T) nodesWorld {
		nodes := porttest.NewNodes()
		nodes.SetUnreachable(away, "no route to host")
		return nodesWorld{
			Nodes: nodes, Cluster: cluster, Machine: machine, Unreachable: away,
			PutNode: func(name string, facts inplace.Node) { nodes.Set(cluster, name, facts) },
			PutPod:  func(node string) { nodes.SetDrain(cluster, node, 1) },
			PutBlockedPod: func(node, budget string) func() {
				nodes.Block(cluster, node, budget)
				return func() { nodes.Block(cluster, node, "") }
			},
		}
	})
}

// maxDrainCalls is how often a drain of one pod that nothing blocks may have to be called.
const maxDrainCalls = 3

// testNodes checks that an implementation keeps the contract of port.Nodes. Each test has its own
// world.
func testNodes(t *testing.T, newWorld func(t *testing.T) nodesWorld) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, nodesWorld){
		"facts of a node":                 testNodeFacts,
		"a node that does not exist":      testNodeMissing,
		"a cluster that is not reached":   testNodeUnreachable,
		"drain without pods":              testDrainEmpty,
		"drain of a pod":                  testDrainPod,
		"drain that a budget blocks":      testDrainBlocked,
		"uncordon":                        testUncordon,
		"scale-down":                      testScaleDown,
		"get shows what node says":        testGet,
		"drain and uncordon are repeated": testRepeats,
	} {
		t.Run(name, func(t *testing.T) { test(t, newWorld(t)) })
	}
}

// looksLike compares facts; times by the instant, since a time zone is lost on the wire.
func looksLike(t *testing.T, got, want inplace.Node) {
	t.Helper()
	if !got.ReadySince.Equal(want.ReadySince) {
		t.Errorf("ready since %s, want %s", got.ReadySince, want.ReadySince)
	}
	got.ReadySince = want.ReadySince
	if got != want {
		t.Errorf("facts are\n%+v, want\n%+v", got, want)
	}
}

func testNodeFacts(t *testing.T, w nodesWorld) {
	t.Helper()
	ready := porttest.ReadyNode("v1.33.4", start)
	w.PutNode("ready", ready)
	looksLike(t, w.Nodes.Node(t.Context(), w.Cluster, "ready"), ready)

	w.PutNode("down", inplace.Node{Exists: true, NotReady: "KubeletNotReady: container runtime is down", Kubelet: ready.Kubelet, Unschedulable: true})
	down := w.Nodes.Node(t.Context(), w.Cluster, "down")
	if down.Ready || !strings.Contains(down.NotReady, "container runtime is down") || !down.Unschedulable || !down.Exists || down.Unknown != "" {
		t.Errorf("facts of a cordoned node that is not ready: %+v", down)
	}
}

func testNodeMissing(t *testing.T, w nodesWorld) {
	t.Helper()
	looksLike(t, w.Nodes.Node(t.Context(), w.Cluster, "none"), inplace.Node{})
	if _, err := w.Nodes.Get(t.Context(), w.Cluster, "none"); !apierrors.IsNotFound(err) {
		t.Errorf("Get of a node that does not exist: %v, want a not-found error", err)
	}
	if err := w.Nodes.Uncordon(t.Context(), w.Cluster, "none"); err != nil {
		t.Errorf("Uncordon of a node that does not exist: %v", err)
	}
	status, err := w.Nodes.Drain(t.Context(), w.Cluster, w.Machine, "none")
	if err != nil || !status.Done {
		t.Errorf("Drain of a node that does not exist: %+v, %v; there is nothing to drain", status, err)
	}
}

func testNodeUnreachable(t *testing.T, w nodesWorld) {
	t.Helper()
	if node := w.Nodes.Node(t.Context(), w.Unreachable, "any"); node.Unknown == "" || node.Exists || node.Ready {
		t.Errorf("Node of a cluster that is not reached: %+v, want only Unknown", node)
	}
	if status, err := w.Nodes.Drain(t.Context(), w.Unreachable, w.Machine, "any"); err == nil || status.Done {
		t.Errorf("Drain in a cluster that is not reached: %+v, %v", status, err)
	}
	if err := w.Nodes.Uncordon(t.Context(), w.Unreachable, "any"); err == nil {
		t.Error("Uncordon in a cluster that is not reached succeeded")
	}
	if _, err := w.Nodes.Get(t.Context(), w.Unreachable, "any"); err == nil || apierrors.IsNotFound(err) {
		t.Errorf("Get in a cluster that is not reached: %v", err)
	}
}

func testDrainEmpty(t *testing.T, w nodesWorld) {
	t.Helper()
	w.PutNode("a", porttest.ReadyNode("v1.33.4", start))
	status, err := w.Nodes.Drain(t.Context(), w.Cluster, w.Machine, "a")
	if err != nil || !status.Done || status.Message != "" {
		t.Fatalf("Drain: %+v, %v, want done", status, err)
	}
	if !w.Nodes.Node(t.Context(), w.Cluster, "a").Unschedulable {
		t.Error("Drain did not cordon the node")
	}
}

func testDrainPod(t *testing.T, w nodesWorld) {
	t.Helper()
	w.PutNode("a", porttest.ReadyNode("v1.33.4", start))
	w.PutPod("a")
	status, err := w.Nodes.Drain(t.Context(), w.Cluster, w.Machine, "a")
	if err != nil || status.Done || status.Message == "" {
		t.Fatalf("the first Drain: %+v, %v, want a message that says what it waits for", status, err)
	}
	drainToEnd(t, w, "a")
}

func drainToEnd(t *testing.T, w nodesWorld, node string) {
	t.Helper()
	for range maxDrainCalls {
		status, err := w.Nodes.Drain(t.Context(), w.Cluster, w.Machine, node)
		if err != nil {
			t.Fatalf("Drain: %v", err)
		}
		if status.Done {
			return
		}
	}
	t.Fatalf("Drain is not done after %d more calls", maxDrainCalls)
}

func testDrainBlocked(t *testing.T, w nodesWorld) {
	t.Helper()
	w.PutNode("a", porttest.ReadyNode("v1.33.4", start))
	allow := w.PutBlockedPod("a", "keep-two")
	var before string
	for i := range 4 {
		status, err := w.Nodes.Drain(t.Context(), w.Cluster, w.Machine, "a")
		if err != nil || status.Done || !strings.Contains(status.Message, "keep-two") {
			t.Fatalf("Drain: %+v, %v, want the name of the PodDisruptionBudget that blocks", status, err)
		}
		// The message ends up in a condition, which must not be written again and again.
		if i > 0 && status.Message != before {
			t.Errorf("the message changed though nothing did: %q, then %q", before, status.Message)
		}
		before = status.Message
	}
	allow()
	drainToEnd(t, w, "a")
}

func testUncordon(t *testing.T, w nodesWorld) {
	t.Helper()
	facts := porttest.ReadyNode("v1.33.4", start)
	facts.Unschedulable = true
	w.PutNode("a", facts)
	if err := w.Nodes.Uncordon(t.Context(), w.Cluster, "a"); err != nil {
		t.Fatalf("Uncordon: %v", err)
	}
	facts.Unschedulable = false
	looksLike(t, w.Nodes.Node(t.Context(), w.Cluster, "a"), facts)
}

func testScaleDown(t *testing.T, w nodesWorld) {
	t.Helper()
	for _, change := range []func(context.Context, types.NamespacedName, string) error{
		w.Nodes.DisableScaleDown, w.Nodes.EnableScaleDown,
	} {
		if err := change(t.Context(), w.Cluster, "none"); err != nil {
			t.Errorf("a node that does not exist: %v", err)
		}
		if err := change(t.Context(), w.Unreachable, "any"); err == nil {
			t.Error("a change in a cluster that is not reached succeeded")
		}
	}
	for before, disabled := range map[inplace.ScaleDown]inplace.ScaleDown{
		inplace.ScaleDownAllowed:  inplace.ScaleDownByUs,
		inplace.ScaleDownByUs:     inplace.ScaleDownByUs,
		inplace.ScaleDownByOthers: inplace.ScaleDownByOthers,
	} {
		facts := porttest.ReadyNode("v1.33.4", start)
		facts.ScaleDown = before
		w.PutNode("a", facts)
		facts.ScaleDown = disabled
		for range 2 {
			if err := w.Nodes.DisableScaleDown(t.Context(), w.Cluster, "a"); err != nil {
				t.Fatalf("DisableScaleDown: %v", err)
			}
			looksLike(t, w.Nodes.Node(t.Context(), w.Cluster, "a"), facts)
		}
		if disabled == inplace.ScaleDownByUs {
			facts.ScaleDown = inplace.ScaleDownAllowed
		}
		for range 2 {
			if err := w.Nodes.EnableScaleDown(t.Context(), w.Cluster, "a"); err != nil {
				t.Fatalf("EnableScaleDown: %v", err)
			}
			looksLike(t, w.Nodes.Node(t.Context(), w.Cluster, "a"), facts)
		}
	}
}

func testGet(t *testing.T, w nodesWorld) {
	t.Helper()
	w.PutNode("a", porttest.ReadyNode("v1.33.4", start))
	node, err := w.Nodes.Get(t.Context(), w.Cluster, "a")
	if err != nil || node.Name != "a" || node.Status.NodeInfo.KubeletVersion != "v1.33.4" || node.Spec.Unschedulable {
		t.Errorf("Get: %+v, %v", node, err)
	}
}

func testRepeats(t *testing.T, w nodesWorld) {
	t.Helper()
	w.PutNode("a", porttest.ReadyNode("v1.33.4", start))
	for range 2 {
		drainToEnd(t, w, "a")
		for range 2 {
			if err := w.Nodes.Uncordon(t.Context(), w.Cluster, "a"); err != nil {
				t.Fatalf("Uncordon: %v", err)
			}
		}
		looksLike(t, w.Nodes.Node(t.Context(), w.Cluster, "a"), porttest.ReadyNode("v1.33.4", start))
	}
}

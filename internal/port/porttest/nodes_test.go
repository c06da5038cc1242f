package porttest_test

import (
	"context"
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/port/porttest"
)

func TestNodesInMemory(t *testing.T) {
	porttest.RunNodesSuite(t, func(*testing.T) porttest.NodesWorld {
		cluster := types.NamespacedName{Namespace: "default", Name: "here"}
		away := types.NamespacedName{Namespace: "default", Name: "away"}
		nodes := porttest.NewNodes()
		nodes.SetUnreachable(away, "no route to host")
		return porttest.NodesWorld{
			Nodes: nodes, Cluster: cluster, Machine: types.NamespacedName{Namespace: "default", Name: "machine"}, Unreachable: away,
			PutNode: func(name string, facts inplace.Node, simulated bool) {
				nodes.Set(cluster, name, facts)
				if !simulated {
					nodes.SetReal(cluster, name)
				}
			},
			PutPod: func(node string) { nodes.SetDrain(cluster, node, 1) },
			PutBlockedPod: func(node, budget string) func() {
				nodes.Block(cluster, node, budget)
				return func() { nodes.Block(cluster, node, "") }
			},
		}
	})
}

func TestNodesCountsAndFails(t *testing.T) {
	cluster := types.NamespacedName{Name: "c"}
	nodes := porttest.NewNodes()
	nodes.Set(cluster, "a", inplace.Node{})
	nodes.Fail(porttest.UncordonMethod, context.DeadlineExceeded)
	if err := nodes.Uncordon(t.Context(), cluster, "a"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Uncordon: %v, want the planned error", err)
	}
	if err := nodes.Uncordon(t.Context(), cluster, "a"); err != nil {
		t.Errorf("Uncordon after the planned error: %v", err)
	}
	calls := nodes.Calls()
	if calls[porttest.UncordonMethod] != 2 || len(calls) != 1 {
		t.Errorf("calls are %v, want two of Uncordon", calls)
	}
}

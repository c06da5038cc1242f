package porttest_test

import (
	"context"
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/port/porttest"
)

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

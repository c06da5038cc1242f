package rig

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/windlass-dev/windlass/lab/test/e2e/internal/judge"
)

// Judge compares what `windlass status` shows of Clusters with what happens to them, until the test
// ends.
func (p *Plane) Judge(ctx context.Context, t *testing.T, clusters ...types.NamespacedName) {
	t.Helper()
	command := judge.Command{Windlass: p.Programs.Windlass, Kubeconfig: p.KubeconfigPath()}
	judge.Watch(ctx, t, p.History.History, command, clusters...)
}

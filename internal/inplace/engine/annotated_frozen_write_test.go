package engine

import (
	"context"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/inplace/request"
)

// TestFrozenInAWrite freezes a process between the API server's commit of a record and the answer. Its
// successor ends the upgrade meanwhile; the process must then touch neither the node nor the updater.
func TestFrozenInAWrite(t *testing.T) {
	t.Parallel()
	for _, phase := range []inplace.Phase{inplace.Draining, inplace.Updating} {
		t.Run(string(phase), func(t *testing.T) {
			t.Parallel()
			w, kubelet := newAskedWorld(t, 0)
			frozen, calls := false, 0
			nodes := &frozenNodes{}
			for range 40 {
				if frozen {
					break
				}
				o := w.engine.Options
				nodes.Nodes = o.Nodes
				nodes.effects = 0
				inner := w.api
				o.Client = interceptor.NewClient(inner, interceptor.Funcs{
					Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, p client.Patch, opts ...client.PatchOption) error {
						err := c.Patch(ctx, obj, p, opts...)
						u, _ := readRecord[request.Upgrade](w.machine("cp-0").Annotations) //nolint:contextcheck // It reads what the test sees.
						if err == nil && !frozen && phaseOf(u) == string(phase) {
							frozen = true
							nodes.effects = 0
							w.now = w.now.Add(20 * time.Second)
							w.untilDone("cp-0", toVersion) //nolint:contextcheck // The successor is another process.
							calls = len(kubelet.requests)
						}
						return err
					},
				})
				o.Nodes = nodes
				_, _ = New(o).UpgradeMachine(w.quiet(), keyNamed("cp-0")) // What the frozen process says does not matter.
				w.now = w.now.Add(time.Minute)
			}
			if !frozen {
				t.Fatal("not frozen")
			}
			if nodes.effects > 0 || len(kubelet.requests) != calls {
				t.Errorf("%d effects, %d more calls", nodes.effects, len(kubelet.requests)-calls)
			}
		})
	}
}

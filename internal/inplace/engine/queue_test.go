package engine

import (
	"context"
	"errors"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/port"
)

// countedNodes counts the nodes that are read.
type countedNodes struct {
	port.Nodes
	reads int
}

func (n *countedNodes) Node(ctx context.Context, cluster client.ObjectKey, name string) inplace.Node {
	n.reads++
	return n.Nodes.Node(ctx, cluster, name)
}

// TestForgedCallsDoNotMoveTheQueue holds that calls about a Machine that waits for a slot are refused where
// they differ from the live objects, and that no number of calls has anybody wait longer.
func TestForgedCallsDoNotMoveTheQueue(t *testing.T) {
	t.Parallel()
	w, s := moving(t, external(nil))
	s.answer = func(string) inplace.Answer { return inplace.Answer{Outcome: inplace.InProgress} }
	for _, name := range []string{"a", "b"} {
		if _, err := w.update(name); err != nil {
			t.Fatal(err)
		}
	}
	forged := w.request("b")
	forged.Desired.Machine.Spec.Version = "v1.31.99"
	for range 100 {
		reply, err := w.engine.UpdateMachine(t.Context(), forged)
		if u, ok := errors.AsType[*UnaskedError](err); !ok || u.Reason != RequestDiffers || reply != (inplace.Reply{}) {
			t.Fatalf("reply %+v, error %v", reply, err)
		}
		if reply, err = w.update("b"); err != nil || reply.RetryAfter > inplace.PollQueue {
			t.Fatalf("the genuine call: %+v, %v", reply, err)
		}
	}
}

// TestQueueIsCheap holds that a machine that finds no slot reads no node, that its node is kept from the cluster
// autoscaler once, that it makes no request when it asks again, and that it begins as soon as it asks when a slot is
// free.
func TestQueueIsCheap(t *testing.T) {
	t.Parallel()
	w, s := moving(t, external(nil))
	nodes, reads := &countedNodes{Nodes: w.nodes}, 0
	w.engine.Nodes = nodes
	w.engine.Live = interceptor.NewClient(w.client, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			reads++
			return c.Get(ctx, key, o, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			reads++
			return c.List(ctx, list, opts...)
		},
	})
	s.answer = func(string) inplace.Answer { return inplace.Answer{Outcome: inplace.InProgress} }
	if _, err := w.update("a"); err != nil {
		t.Fatal(err)
	}
	for i, most := range []int{100, 0, 0} {
		wantWrites := int64(0)
		if i == 0 {
			wantWrites = 1
		}
		nodes.reads, reads = 0, 0
		w.writes.Store(0)
		reply, err := w.update("b")
		if err != nil || !strings.Contains(reply.Message, "maxInFlight") || reply.RetryAfter < inplace.PollQueue {
			t.Fatalf("call %d: reply %+v, error %v", i, reply, err)
		}
		if nodes.reads > 0 || reads > most || w.writes.Load() != wantWrites {
			t.Errorf("call %d: %d reads of nodes, %d other reads, %d writes, want 0, at most %d, and %d",
				i, nodes.reads, reads, w.writes.Load(), most, wantWrites)
		}
	}
	w.annotate("a", v1alpha1.UpdateProgressAnnotation, nil)
	if reply, err := w.update("b"); err != nil || !strings.Contains(reply.Message, "attempt 1") {
		t.Errorf("a slot is free: reply %+v, error %v", reply, err)
	}
}

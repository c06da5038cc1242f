//go:build linux

package real_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// nodeWatch records what happens to the Nodes of a Cluster, as a watch shows it.
type nodeWatch struct {
	mu      sync.Mutex
	version string
	// nodes has the names of all Nodes; changes tells what must not happen to them.
	nodes   map[string]bool
	changes []string
	// stop ends the watch.
	stop func()
}

// watchNodes records which Nodes are cordoned, leave the Cluster's version or are deleted, from now
// until the test ends, or until checkUntouched is called.
func (c *realCluster) watchNodes(ctx context.Context, t *testing.T) *nodeWatch {
	t.Helper()
	clients, err := kubernetes.NewForConfig(c.config(ctx, t))
	if err != nil {
		t.Fatal(err)
	}
	w := &nodeWatch{version: c.Version, nodes: map[string]bool{}}
	factory := informers.NewSharedInformerFactory(clients, 0)
	if _, err := factory.Core().V1().Nodes().Informer().AddEventHandler(sees(w.see)); err != nil {
		t.Fatal(err)
	}
	watching, cancel := context.WithCancel(ctx)
	w.stop = func() {
		cancel()
		factory.Shutdown()
	}
	t.Cleanup(func() { w.stop() })
	factory.Start(watching.Done())
	for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			t.Fatalf("watching %s: %v", kind, context.Cause(ctx))
		}
	}
	return w
}

func (w *nodeWatch) see(object any, gone bool) {
	node, ok := object.(*corev1.Node)
	if !ok {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nodes[node.Name] = true
	kubelet := node.Status.NodeInfo.KubeletVersion
	if !gone && !node.Spec.Unschedulable && kubelet == w.version {
		return
	}
	change := fmt.Sprintf("Node %s: deleted: %t, unschedulable: %t, kubelet %s",
		node.Name, gone, node.Spec.Unschedulable, kubelet)
	if !slices.Contains(w.changes, change) {
		w.changes = append(w.changes, change)
	}
}

// checkUntouched ends the watch, and sees that it has seen all Nodes, and that nothing was done to
// any of them at any time.
func (w *nodeWatch) checkUntouched(t *testing.T, nodes int) {
	t.Helper()
	w.stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.nodes) != nodes {
		t.Errorf("the watch has seen %d Nodes, want %d", len(w.nodes), nodes)
	}
	for _, change := range w.changes {
		t.Error(change)
	}
}

// TestNodeWatch: a Node that is cordoned for a moment counts.
func TestNodeWatch(t *testing.T) {
	t.Parallel()
	w := &nodeWatch{version: "v1.35.4", nodes: map[string]bool{}, stop: func() {}}
	node := func(name, kubelet string, cordoned bool) *corev1.Node {
		n := &corev1.Node{}
		n.Name, n.Spec.Unschedulable, n.Status.NodeInfo.KubeletVersion = name, cordoned, kubelet
		return n
	}
	calm := node("a", "v1.35.4", false)
	events := sees(w.see)
	events.OnAdd(calm, true)
	events.OnUpdate(calm, node("b", "v1.35.4", false))
	w.checkUntouched(t, 2)
	events.OnUpdate(calm, node("a", "v1.35.4", true))
	events.OnUpdate(calm, node("a", "v1.35.4", true))
	events.OnUpdate(calm, calm)
	events.OnUpdate(calm, node("b", "v1.36.3", false))
	events.OnDelete(cache.DeletedFinalStateUnknown{Key: "b", Obj: node("b", "v1.35.4", false)})
	want := []string{
		"Node a: deleted: false, unschedulable: true, kubelet v1.35.4",
		"Node b: deleted: false, unschedulable: false, kubelet v1.36.3",
		"Node b: deleted: true, unschedulable: false, kubelet v1.35.4",
	}
	if !slices.Equal(w.changes, want) {
		t.Errorf("it has seen %q", w.changes)
	}
}

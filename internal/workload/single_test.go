package workload_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/port"
	"github.com/windlass-dev/windlass/internal/workload"
	"github.com/windlass-dev/windlass/pkg/version"
)

// newSingle is the world's workload cluster as somebody knows it who has nothing but its kubeconfig.
func newSingle(t *testing.T, w *world) *workload.Single {
	t.Helper()
	config, err := clientcmd.RESTConfigFromKubeConfig(w.server.kubeconfig(nil))
	if err != nil {
		t.Fatal(err)
	}
	single, err := workload.NewSingle(config)
	if err != nil {
		t.Fatal(err)
	}
	return single
}

func TestSingleDrainsAndUncordons(t *testing.T) {
	w := newWorld(t)
	w.putNode("n", inplace.Node{Ready: true, Kubelet: version.MustParse("v1.35.4")})
	w.server.putPod("web", "n", nil)
	w.server.refuseEviction("web", budgetRefuses("web-budget", 10))
	node := newSingle(t, w).Node("n")

	status, err := node.Drain(t.Context())
	if err != nil || status.Done || !strings.Contains(status.Message, "web-budget") {
		t.Fatalf("with a budget that refuses: %+v, %v", status, err)
	}
	if !node.Look(t.Context()).Unschedulable {
		t.Error("a node that is drained is not cordoned")
	}
	w.server.refuseEviction("web", nil)
	if status, err = node.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	for !status.Done {
		if status, err = node.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := node.Uncordon(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := node.Look(t.Context())
	if want := (inplace.Node{Exists: true, Ready: true, Kubelet: version.MustParse("v1.35.4")}); !cmp.Equal(want, got, cmp.Comparer(func(a, b version.Version) bool { return a == b })) {
		t.Errorf("at the end: %+v, not %+v", got, want)
	}
}

func TestSingleWithoutTheNode(t *testing.T) {
	w := newWorld(t)
	node := newSingle(t, w).Node("gone")
	if got := node.Look(t.Context()); got.Exists || got.Unknown != "" {
		t.Errorf("looking: %+v", got)
	}
	if status, err := node.Drain(t.Context()); err != nil || status != (port.DrainStatus{Done: true}) {
		t.Errorf("draining: %+v, %v", status, err)
	}
	if err := node.Uncordon(t.Context()); err != nil {
		t.Errorf("uncordoning: %v", err)
	}
}

func TestSingleThatDoesNotAnswer(t *testing.T) {
	w := newWorld(t)
	single := newSingle(t, w)
	w.server.Close()
	node := single.Node("n")
	if got := node.Look(t.Context()); !strings.Contains(got.Unknown, "reading Node n: connecting to 127.0.0.1") {
		t.Errorf("looking: %+v", got)
	}
	if _, err := node.Drain(t.Context()); err == nil || !strings.Contains(err.Error(), "draining Node n: ") {
		t.Errorf("draining: %v", err)
	}
	if err := node.Uncordon(t.Context()); err == nil {
		t.Error("uncordoning: no error")
	}
	if _, err := single.Nodes(t.Context()); err == nil || !strings.Contains(err.Error(), "listing the nodes: ") {
		t.Errorf("listing: %v", err)
	}
}

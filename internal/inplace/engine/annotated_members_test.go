package engine

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/inplace/request"
	"github.com/windlass-dev/windlass/internal/keyed"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/port"
	"github.com/windlass-dev/windlass/internal/port/porttest"
)

// TestManyKubelets ends a group whose machines another controller has upgraded, though one reconcile cannot ask all nodes, and
// though the process dies meanwhile. Each node is asked once.
func TestManyKubelets(t *testing.T) {
	t.Parallel()
	const machines = 2*kubeletsAtOnce + 1
	w := newUpgradeWorld(t, inPlaceOnly(1))
	for i := range machines {
		m := newMachine(fmt.Sprintf("w-%d", i), "")
		m.Annotations = map[string]string{keys.Release: toVersion, keys.Status: "done"}
		if err := w.client.Create(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		w.nodes.Set(inCluster, m.Name, porttest.ReadyNode(wanted, w.now))
	}
	md := newGroup(deploymentKind, "md", machines)
	md.SetAnnotations(map[string]string{keys.To: toVersion})
	w.put(md)
	asked := 0
	for range 8 {
		w.restart()
		w.engine.Nodes = nodesFunc{w.engine.Nodes, func() { asked++ }}
		if _, err := w.engine.UpgradeGroup(w.quiet(), deploymentKind, keyNamed("md")); err != nil {
			t.Fatal(err)
		}
	}
	object := w.group(deploymentKind, "md")
	if got := keys.marks(object.GetAnnotations()); got != (request.Marks{Status: request.Done, Release: toVersion}) || specVersion(object, false).String() != wanted {
		t.Errorf("the group has %+v, and version %s", got, specVersion(object, false))
	}
	if asked != machines {
		t.Errorf("%d nodes were asked, want %d", asked, machines)
	}
}

// nodesFunc calls a function for each node that is read.
type nodesFunc struct {
	port.Nodes
	read func()
}

func (n nodesFunc) Node(ctx context.Context, cluster types.NamespacedName, name string) inplace.Node {
	n.read()
	return n.Nodes.Node(ctx, cluster, name)
}

// TestCacheLags holds that a group whose Machines the cache shows as they were lets no more machines begin than maxInFlight
// allows, also where another process has let them begin, and that it goes on when the cache has caught up.
func TestCacheLags(t *testing.T) {
	t.Parallel()
	w := newUpgradeWorld(t, withoutCanary(inPlaceOnly(2)))
	w.addGroup(deploymentKind, "md", "w-0", "w-1", "w-2", "w-3")
	w.askGroup(deploymentKind, "md", toVersion)
	var shown *clusterv1.MachineList
	reads := 0
	lagging := interceptor.NewClient(w.api, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			machines, ok := list.(*clusterv1.MachineList)
			if !ok || shown == nil {
				return c.List(ctx, list, opts...)
			}
			shown.DeepCopyInto(machines)
			return nil
		},
	})
	marked := func() (n int) {
		for _, m := range w.machines() {
			if m.Annotations[keys.To] != "" {
				n++
			}
		}
		return n
	}
	reconcile := func() {
		t.Helper()
		for range 6 {
			if _, err := w.engine.UpgradeGroup(w.quiet(), deploymentKind, keyNamed("md")); err != nil {
				t.Fatal(err)
			}
		}
	}
	restart := func() {
		w.restart()
		w.engine.Client = lagging
		w.engine.Live = interceptor.NewClient(w.client, interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				if strings.Contains((&client.ListOptions{}).ApplyOptions(opts).LabelSelector.String(), clusterv1.MachineDeploymentNameLabel) {
					reads++
				}
				return c.List(ctx, list, opts...)
			},
		})
	}
	shown = &clusterv1.MachineList{Items: w.machines()}
	for process := range 2 {
		restart()
		if reconcile(); marked() != 2 || reads != process+1 {
			t.Errorf("process %d: %d machines are marked, and the group was read live %d times, want 2 and %d", process, marked(), reads, process+1)
		}
	}
	for _, name := range []string{"w-0", "w-1"} {
		w.annotate(w.machine(name), map[string]any{keys.To: nil, keys.Release: toVersion})
	}
	shown = nil
	if reconcile(); marked() != 2 || w.marks("w-2").To == "" {
		t.Errorf("%d machines are marked when the cache has caught up", marked())
	}
}

// TestRestoredMembersAreRead restores the Machines of a group to older versions, as a restore of etcd does
// while the process lives. What the process remembers must count until the cache cannot lag any longer,
// and then the group is read live, once.
func TestRestoredMembersAreRead(t *testing.T) {
	t.Parallel()
	w := newUpgradeWorld(t)
	w.addGroup(deploymentKind, "md", "w-0")
	before := w.machine("w-0")
	w.annotate(w.machine("w-0"), map[string]any{keys.To: toVersion})
	reads, live := 0, *w.machine("w-0")
	list := func(counts *int, m *clusterv1.Machine) interceptor.Funcs {
		return interceptor.Funcs{
			List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
				if _, ok := list.(*metav1.PartialObjectMetadataList); ok {
					return nil // Each Machine has its label.
				}
				machines, ok := list.(*clusterv1.MachineList)
				if !ok {
					return fmt.Errorf("unexpected list %T", list)
				}
				*counts++
				machines.Items = []clusterv1.Machine{*m.DeepCopy()}
				return nil
			},
		}
	}
	cached := 0
	w.engine.Client = interceptor.NewClient(w.api, list(&cached, before))
	w.engine.Live = interceptor.NewClient(w.client, list(&reads, &live))
	for i, tt := range []struct {
		marked bool
		reads  int
	}{{true, 1}, {true, 1}, {false, 2}, {false, 2}, {false, 2}} {
		machines, err := w.engine.readMembersOf(t.Context(), inCluster, keyNamed("md"))
		if err != nil || len(machines) != 1 {
			t.Fatalf("%d machines, %v", len(machines), err)
		}
		if marked := machines[0].Annotations[keys.To] != ""; marked != tt.marked || reads != tt.reads {
			t.Errorf("look %d: marked is %t after %d live reads, want %t and %d", i+1, marked, reads, tt.marked, tt.reads)
		}
		live = *before // The restore.
		w.now = w.now.Add(keyed.CacheLag / 2)
	}
}

// TestCacheLagsBehindUpdates holds that machines that this process updates because Cluster API asks for
// it count for maxInFlight of their group, though the cache does not show that: before, while and
// after the group is read live for the first time.
func TestCacheLagsBehindUpdates(t *testing.T) {
	t.Parallel()
	for _, when := range []string{"before", "while", "after"} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			w := newUpgradeWorld(t, inPlaceOnly(2))
			w.addGroup(deploymentKind, "md", "w-0", "w-1", "w-2", "w-3")
			w.askGroup(deploymentKind, "md", toVersion)
			begin := func(now string) {
				t.Helper()
				if now != when {
					return
				}
				for _, name := range []string{"w-2", "w-3"} {
					m := w.engine.NewMachine(w.machine(name), w.now)
					if err := m.recordProgress(w.quiet(), nil, &inplace.Progress{ID: "id", Phase: inplace.Draining}, policy.Policy{}); err != nil {
						t.Error(err)
					}
				}
			}
			shown := &clusterv1.MachineList{Items: w.machines()}
			w.engine.Client = interceptor.NewClient(w.api, interceptor.Funcs{
				List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
					if machines, ok := list.(*clusterv1.MachineList); ok {
						shown.DeepCopyInto(machines)
						return nil
					}
					return c.List(ctx, list, opts...)
				},
			})
			w.engine.Live = interceptor.NewClient(w.client, interceptor.Funcs{
				List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
					err := c.List(ctx, list, opts...)
					if strings.Contains((&client.ListOptions{}).ApplyOptions(opts).LabelSelector.String(), clusterv1.MachineDeploymentNameLabel) {
						begin("while")
					}
					return err
				},
			})
			begin("before")
			for i := range 6 {
				if _, err := w.engine.UpgradeGroup(w.quiet(), deploymentKind, keyNamed("md")); err != nil {
					t.Fatal(err)
				}
				if i == 0 {
					begin("after")
				}
			}
			for _, m := range w.machines() {
				if m.Annotations[keys.To] != "" {
					t.Errorf("Machine %s is marked though two others are updated", m.Name)
				}
			}
		})
	}
}

// TestOldestWorkerHoldsTheControlPlane: a control plane Machine gets no minor that the oldest of all
// workers is too old for, whichever place that has in the list, and whatever Machines of control planes run.
func TestOldestWorkerHoldsTheControlPlane(t *testing.T) {
	t.Parallel()
	for oldest, want := range map[string]request.Status{"v1.27.16": request.Failed, "v1.28.15": request.Done} {
		w := newUpgradeWorld(t)
		w.register()
		w.add(newMachine("cp", "kcp"), newMachine("a", ""), newMachine("b", ""), newMachine("c", ""))
		for name, kubelet := range map[string]string{"a": "v1.29.3", "b": oldest, "c": from} {
			w.nodes.Set(inCluster, name, porttest.ReadyNode(kubelet, w.now.Add(-time.Hour)))
		}
		w.sync()
		w.ask("cp", toVersion)
		w.until("it has ended", func() bool { return w.marks("cp").Status != "" && w.marks("cp").Status != request.InProgress })
		if got := w.marks("cp").Status; got != want {
			t.Errorf("beside a worker of %s the control plane Machine's upgrade to %s is %s, want %s", oldest, wanted, got, want)
		}
	}
}

// TestForeignControlPlaneMachines: of the Machines with a control plane's label, those that the asked
// object controls are its members.
func TestForeignControlPlaneMachines(t *testing.T) {
	t.Parallel()
	w := newUpgradeWorld(t)
	w.register()
	w.addGroup(kubeadmControlPlaneKind, "kcp", "cp-0")
	w.add(newMachine("foreign", "other"))
	w.useControlPlane(kubeadmControlPlaneKind, "kcp")
	w.askGroup(kubeadmControlPlaneKind, "kcp", toVersion)
	w.until("it has ended", func() bool { return w.groupMarks(kubeadmControlPlaneKind, "kcp").Status == request.Done })
	if got := w.marks("foreign"); got != (request.Marks{}) {
		t.Errorf("a Machine of another control plane was asked: %+v", got)
	}
}

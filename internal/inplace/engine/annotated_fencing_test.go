package engine

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/inplace/request"
	"github.com/windlass-dev/windlass/internal/port"
)

// rejects has the API server answer one write with an error.
type rejects struct {
	// at is the write, from 1; 0 for none. err is the answer; with done the write has been made all
	// the same.
	at   int
	err  error
	done bool
	// writes counts writes, and made says that the error has been returned.
	writes int
	made   bool
}

func (r *rejects) around(write func() error) error {
	r.writes++
	if r.writes != r.at {
		return write()
	}
	r.made = true
	if r.done {
		if err := write(); err != nil {
			return err
		}
	}
	return r.err
}

// TestEveryWriteMayFail has each write of an upgrade fail in turn, in each way that an API server
// has. Every time the machine comes to the same end, its updater works once, and nothing is left
// behind.
func TestEveryWriteMayFail(t *testing.T) {
	t.Parallel()
	group := clusterv1.GroupVersion.WithResource("machines").GroupResource()
	for name, fault := range map[string]rejects{
		"409":                     {err: apierrors.NewConflict(group, "cp-0", nil)},
		"429":                     {err: apierrors.NewTooManyRequestsError("slow down")},
		"500":                     {err: apierrors.NewInternalError(context.Canceled)},
		"timeout, written":        {err: context.DeadlineExceeded, done: true},
		"timeout, not written":    {err: context.DeadlineExceeded},
		"server timeout, written": {err: apierrors.NewServerTimeout(group, "patch", 1), done: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for at := 1; ; at++ {
				w := newUpgradeWorld(t)
				kubelet, _ := w.register()
				w.add(newMachine("cp-0", "kcp"))
				w.nodes.SetDrain(inCluster, "cp-0", 1)
				w.tick = time.Minute
				w.ask("cp-0", toVersion)
				w.rejects = fault
				w.rejects.at = at
				w.untilDone("cp-0", toVersion)
				if !w.rejects.made {
					if at < 8 {
						t.Errorf("%d writes are too few", at-1)
					}
					return
				}
				m := w.machine("cp-0")
				if diff := cmp.Diff(upgradedAnnotations, m.Annotations); diff != "" {
					t.Errorf("annotations (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(map[string]int{"cp-0": 1}, work(kubelet)); diff != "" {
					t.Errorf("work (-want +got):\n%s", diff)
				}
				if c := conditionOf(m.Status.Conditions); c != nil || w.lockHolder() != "" || w.nodes.Node(t.Context(), inCluster, "cp-0").Unschedulable {
					t.Errorf("left are the condition %+v and the lock %q, or a cordoned node", c, w.lockHolder())
				}
				if t.Failed() {
					t.Fatalf("write %d failed", at)
				}
			}
		})
	}
}

// TestFrozenProcess: a process that is frozen while its updater answers, and continues after its
// successor has ended the upgrade, changes nothing: no record, and no condition.
func TestFrozenProcess(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]inplace.Answer{
		"in progress": {Outcome: inplace.InProgress, Message: "late", RetryAfter: time.Second},
		"failed":      {Outcome: inplace.Fails, Message: "late"},
		"not heard":   {Message: "late"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newUpgradeWorld(t)
			kubelet, _ := w.register()
			w.add(newMachine("a", ""))
			w.ask("a", toVersion)
			frozen := w.engine
			first := true
			kubelet.answer = func(request *runtimehooksv1.UpdateMachineRequest) inplace.Answer {
				if !first {
					return kubelet.work(&request.Desired.Machine)
				}
				first = false
				w.restart()
				w.untilDone("a", toVersion)
				return late
			}
			var ended *clusterv1.Machine
			for first {
				w.now = w.now.Add(time.Second)
				if _, err := frozen.UpgradeMachine(w.quiet(), keyNamed("a")); err != nil {
					t.Fatal(err)
				}
			}
			ended = w.machine("a")
			if diff := cmp.Diff(request.Marks{Status: request.Done, Release: toVersion}, w.marks("a")); diff != "" {
				t.Errorf("marks (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(upgradedAnnotations, ended.Annotations); diff != "" {
				t.Errorf("annotations (-want +got):\n%s", diff)
			}
			if c := conditionOf(ended.Status.Conditions); c != nil {
				t.Errorf("a condition is shown of an upgrade that is over: %+v", c)
			}
		})
	}
}

// frozenNodes calls freeze once a node is read, and counts what is done to nodes.
type frozenNodes struct {
	port.Nodes
	freeze  func()
	effects int
}

func (n *frozenNodes) Node(ctx context.Context, cluster types.NamespacedName, name string) inplace.Node {
	node := n.Nodes.Node(ctx, cluster, name)
	if freeze := n.freeze; freeze != nil {
		n.freeze = nil
		freeze()
	}
	return node
}

func (n *frozenNodes) Drain(ctx context.Context, cluster, machine types.NamespacedName, node string) (port.DrainStatus, error) {
	n.effects++
	return n.Nodes.Drain(ctx, cluster, machine, node)
}

func (n *frozenNodes) Uncordon(ctx context.Context, cluster types.NamespacedName, node string) error {
	n.effects++
	return n.Nodes.Uncordon(ctx, cluster, node)
}

// newAskedWorld returns a world whose only control plane Machine is asked to upgrade. Its drain needs
// that many calls.
func newAskedWorld(t *testing.T, drains int) (*upgradeWorld, *installer) {
	t.Helper()
	w := newUpgradeWorld(t)
	kubelet, _ := w.register()
	w.add(newMachine("cp-0", "kcp"))
	w.nodes.SetDrain(inCluster, "cp-0", drains)
	w.tick = time.Minute
	w.ask("cp-0", toVersion)
	return w, kubelet
}

// TestUpgradeFrozenBeforeAnEffect: a process that is frozen between what it reads and what it does, and
// continues after its successor has ended the upgrade, neither drains the node nor calls the updater.
func TestUpgradeFrozenBeforeAnEffect(t *testing.T) {
	t.Parallel()
	for _, phase := range []inplace.Phase{inplace.Draining, inplace.Updating} {
		t.Run(string(phase), func(t *testing.T) {
			t.Parallel()
			w, kubelet := newAskedWorld(t, 3)
			w.until("it is "+string(phase), func() bool {
				u, _ := readRecord[request.Upgrade](w.machine("cp-0").Annotations)
				return phaseOf(u) == string(phase)
			})
			o := w.engine.Options
			nodes := &frozenNodes{Nodes: o.Nodes}
			calls := 0
			nodes.freeze = func() {
				w.now = w.now.Add(20 * time.Second)
				w.untilDone("cp-0", toVersion)
				calls = len(kubelet.requests)
			}
			o.Nodes = nodes
			if _, err := New(o).UpgradeMachine(w.quiet(), keyNamed("cp-0")); err != nil {
				t.Fatal(err)
			}
			if nodes.freeze != nil || nodes.effects > 0 || len(kubelet.requests) != calls {
				t.Errorf("frozen %v, %d effects on the node, %d more calls", nodes.freeze == nil, nodes.effects, len(kubelet.requests)-calls)
			}
			if diff := cmp.Diff(upgradedAnnotations, w.machine("cp-0").Annotations); diff != "" {
				t.Errorf("annotations (-want +got):\n%s", diff)
			}
		})
	}
}

package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/port"
	"github.com/windlass-dev/windlass/internal/port/porttest"
	"github.com/windlass-dev/windlass/pkg/version"
)

// errDied is what a process panics with that dies in a test.
var errDied = errors.New("died")

// faults break one effect: there are two points around each, before and after it.
type faults struct {
	mu sync.Mutex
	// at is the point that breaks, from 1; 0 for none. passed counts points.
	at, passed int
	// dies says that the process dies there; otherwise the effect, or its answer, fails.
	dies bool
	// err is what a broken effect returns; nil for an error of no kind. With it, only writes of objects break, and passed counts those.
	err error
	// what is the name of the point that broke.
	what string
}

func (f *faults) point(name string) error {
	f.mu.Lock()
	if f.err != nil && !strings.Contains(name, "patch") && !strings.Contains(name, "apply") {
		f.mu.Unlock()
		return nil
	}
	f.passed++
	broken := f.passed == f.at
	if broken {
		f.what = name
	}
	f.mu.Unlock()
	switch {
	case broken && f.dies:
		panic(errDied)
	case broken && f.err != nil:
		return f.err
	case broken:
		return errors.New("broken " + name)
	}
	return nil
}

func (f *faults) around(name string, effect func() error) error {
	if err := f.point("before " + name); err != nil {
		return err
	}
	if err := effect(); err != nil {
		return err
	}
	return f.point("after " + name)
}

// faultyNodes are nodes whose drains and uncordons can break.
type faultyNodes struct {
	*porttest.Nodes
	faults *faults
}

func (n *faultyNodes) Drain(ctx context.Context, cluster, machine types.NamespacedName, node string) (status port.DrainStatus, err error) {
	err = n.faults.around("drain", func() error {
		status, err = n.Nodes.Drain(ctx, cluster, machine, node)
		return err
	})
	return status, err
}

func (n *faultyNodes) Uncordon(ctx context.Context, cluster types.NamespacedName, node string) error {
	return n.faults.around("uncordon", func() error { return n.Nodes.Uncordon(ctx, cluster, node) })
}

func (n *faultyNodes) DisableScaleDown(ctx context.Context, cluster types.NamespacedName, node string) error {
	return n.faults.around("disable scale-down", func() error { return n.Nodes.DisableScaleDown(ctx, cluster, node) })
}

func (n *faultyNodes) EnableScaleDown(ctx context.Context, cluster types.NamespacedName, node string) error {
	return n.faults.around("enable scale-down", func() error { return n.Nodes.EnableScaleDown(ctx, cluster, node) })
}

// worker is an updater that works: it takes two polls for an operation, and does each once.
type worker struct {
	w       *world
	name    string
	kubelet bool
	mu      sync.Mutex
	polls   map[string]int
	// completed counts finished work by operation.
	completed map[string]int
	// protected counts answers while the cluster autoscaler was kept from the node.
	protected int
}

func (w *world) worker(name string, kubelet bool) *worker {
	k := &worker{w: w, name: name, kubelet: kubelet, polls: map[string]int{}, completed: map[string]int{}}
	w.updaters[name].answer = k.answer
	return k
}

func (k *worker) answer(operation string) (a inplace.Answer) {
	err := k.w.faults.around("call of "+k.name, func() error {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.polls[operation]++; k.polls[operation] < 2 {
			a = inplace.Answer{Outcome: inplace.InProgress, Message: "working", RetryAfter: time.Second}
			return nil
		}
		if n := k.w.nodes.Node(context.Background(), inCluster, "a"); n.ScaleDown == inplace.ScaleDownByUs {
			k.protected++
		}
		if k.completed[operation] == 0 {
			k.completed[operation]++
			if k.kubelet {
				k.w.nodes.Edit(inCluster, "a", func(n *inplace.Node) { n.Kubelet = version.MustParse(to) })
			}
		}
		a = inplace.Answer{Outcome: inplace.Finishes}
		return nil
	})
	if err != nil {
		return inplace.Answer{Message: err.Error()}
	}
	return a
}

// survive calls f as a process that may die in it, and starts the next one.
func (w *world) survive(f func() error) (err error) {
	defer func() {
		switch r := recover(); r {
		case nil:
		case errDied:
			w.restart()
			err = errDied
		default:
			panic(r)
		}
	}()
	return f()
}

// halves returns a world in which machine a has moved to another MachineSet, whose version and failure domain differ; one
// updater covers each.
func halves(t *testing.T, policy v1alpha1.UpdatePolicySpec) (w *world, files, kubelet *worker) {
	t.Helper()
	moved := machine("a", "new", to)
	moved.Spec.FailureDomain = "z2"
	w = newWorld(t, policy, deployment(), machineSet("old", from), moved)
	w.updater("files", 0, `{"spec":{"failureDomain":"z2"}}`)
	w.updaterWith("kubelet", 1, versionPatch, func(s *v1alpha1.UpdaterSpec) { s.Transitions.NeedsDrain = true })
	w.node("a", from)
	files, kubelet = w.worker("files", false), w.worker("kubelet", true)
	return w, files, kubelet
}

// decideHalves asks whether both halves can be updated in place.
func (w *world) decideHalves() error {
	desired := machineSet("new", to)
	desired.Spec.Template.Spec.FailureDomain = "z2"
	_, err := w.canUpdateSet(machineSet("old", from), desired)
	return err
}

// finishHalves calls the hooks as Cluster API does, until machine a's update is done.
func (w *world) finishHalves() error {
	const most = 60
	var last error
	for range most {
		if last = w.survive(w.decideHalves); last == nil {
			break
		}
	}
	for range most {
		reply := inplace.Reply{}
		last = w.survive(func() (err error) {
			reply, err = w.update("a")
			return err
		})
		if last == nil && reply.Done {
			return nil
		}
		w.now = w.now.Add(max(time.Second, reply.RetryAfter))
	}
	return fmt.Errorf("not done after %d calls: %w", most, last)
}

// TestCrashAnywhere breaks a whole update at every effect, once before and once after it. Every time it comes to the same end,
// and each updater has done its work once.
func TestCrashAnywhere(t *testing.T) {
	t.Parallel()
	policy := external(func(p *v1alpha1.UpdatePolicySpec) { p.Drain, p.SoakSeconds = true, 10 })
	for _, dies := range []bool{true, false} {
		broken := map[string]int{}
		for at := 1; ; at++ {
			w, files, kubelet := halves(t, policy)
			w.nodes.SetDrain(inCluster, "a", 1)
			w.faults.at, w.faults.dies, w.faults.passed = at, dies, 0
			if err := w.finishHalves(); err != nil {
				t.Fatalf("broken %s (dies %v): %v", w.faults.what, dies, err)
			}
			if w.faults.passed < at {
				t.Logf("dies %v: broken at %d points: %v", dies, at-1, broken)
				break
			}
			broken[w.faults.what]++
			w.checkHalves(t, files, kubelet)
			if t.Failed() {
				t.Fatalf("broken %s (dies %v)", w.faults.what, dies)
			}
		}
		if len(broken) < 10 {
			t.Errorf("only these points were broken: %v", broken)
		}
	}
}

func (w *world) checkHalves(t *testing.T, workers ...*worker) {
	t.Helper()
	for _, k := range workers {
		done := 0
		for _, n := range k.completed {
			done += n
		}
		if done != 1 {
			t.Errorf("updater %s did its work %d times: %v", k.name, done, k.completed)
		}
		if k.protected == 0 {
			t.Errorf("the cluster autoscaler could remove the node while updater %s was at work", k.name)
		}
	}
	m := w.machine("a")
	for _, key := range []string{
		v1alpha1.UpdatePlanAnnotation, v1alpha1.UpdateProgressAnnotation, clusterv1.MachineSkipRemediationAnnotation,
		v1alpha1.RemediationPausedAnnotation, BlockMoveAnnotation,
	} {
		if _, ok := m.Annotations[key]; ok {
			t.Errorf("annotation %s is left", key)
		}
	}
	last, err := readAnnotation[inplace.Summary](m, v1alpha1.LastUpdateAnnotation)
	if err != nil || last == nil || len(last.Done) != 2 || last.Done[0].Updater != "files" || last.Done[1].Updater != "kubelet" {
		t.Errorf("last update %+v, error %v", last, err)
	}
	if n := w.nodes.Node(t.Context(), inCluster, "a"); n.Unschedulable {
		t.Error("the node is left cordoned")
	} else if n.ScaleDown != inplace.ScaleDownAllowed {
		t.Error("the node is left protected from the cluster autoscaler")
	}
}

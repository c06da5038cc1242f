package engine

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/inplace/request"
	"github.com/windlass-dev/windlass/internal/port/porttest"
)

const noRoom = "DiskFull: step install-kubelet: /usr/bin has 3 MiB left"

func (s *scripted) CanBegin(_ context.Context, request *runtimehooksv1.UpdateMachineRequest) inplace.Readiness {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := &request.Desired.Machine
	s.questions = append(s.questions, m.Name+" "+m.Annotations[v1alpha1.OperationIDAnnotation]+" to "+m.Spec.Version)
	return s.ready
}

// asked returns a world in which machine a has moved to a new MachineSet, by an updater that needs
// a drain. Cluster API's hooks reach it, or it runs in this process.
func asked(t *testing.T, inProcess bool) (*world, *scripted) {
	t.Helper()
	policy := external(func(p *v1alpha1.UpdatePolicySpec) { p.Drain = true })
	w := newWorld(t, policy, deployment(), machineSet("old", from), machine("a", "new", to))
	s := w.updaterWith("kubelet", 0, versionPatch, func(u *v1alpha1.UpdaterSpec) {
		u.Transitions.NeedsDrain = true
		if inProcess {
			u.Remote = nil
			u.InProcess = &v1alpha1.InProcessUpdater{Kind: v1alpha1.K8sdUpdater, K8sd: &v1alpha1.K8sdConfig{}}
		}
	})
	s.answer = func(string) inplace.Answer {
		return inplace.Answer{Outcome: inplace.InProgress, RetryAfter: time.Second}
	}
	w.node("a", from)
	if _, err := w.canUpdateSet(machineSet("old", from), machineSet("new", to)); err != nil {
		t.Fatal(err)
	}
	return w, s
}

// TestRefusedBeforeTheDrain holds that an updater which cannot begin says so before its node is
// cordoned, in each attempt, and that the update goes on once it can.
func TestRefusedBeforeTheDrain(t *testing.T) {
	t.Parallel()
	w, s := asked(t, true)
	s.ready = inplace.Readiness{Refused: noRoom}
	reply, err := w.update("a")
	if err != nil || !strings.Contains(reply.Message, "failed: "+noRoom) {
		t.Fatalf("%+v, %v", reply, err)
	}
	w.now = w.now.Add(time.Minute)
	_, err = w.update("a")
	refusal, ok := errors.AsType[*RefusedError](err)
	if !ok || !strings.Contains(refusal.Message, noRoom) {
		t.Errorf("%v", err)
	}
	node := w.nodes.Node(t.Context(), inCluster, "a")
	drains := w.nodes.Calls()[porttest.DrainMethod]
	if drains > 0 || node.Unschedulable || len(s.updates) > 0 {
		t.Errorf("%d drains, %d calls; the node is %+v", drains, len(s.updates), node)
	}
	s.ready = inplace.Readiness{}
	retry := "true"
	w.annotate("a", v1alpha1.UpdateRetryAnnotation, &retry)
	w.until("a", "node drained")
	w.until("a", "in progress")
	want := []string{"a id1-1 to " + to, "a id1-2 to " + to, "a id1-3 to " + to}
	if diff := cmp.Diff(want, s.questions); diff != "" {
		t.Errorf("questions (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"a id1-3"}, s.updates[:1]); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// TestUnknownBeforeTheDrain holds that a node is not drained while its updater cannot be asked.
func TestUnknownBeforeTheDrain(t *testing.T) {
	t.Parallel()
	w, s := asked(t, true)
	s.ready = inplace.Readiness{Unknown: "no connection"}
	reply, err := w.update("a")
	drains := w.nodes.Calls()[porttest.DrainMethod]
	if err != nil || !strings.Contains(reply.Message, "no connection") || drains > 0 {
		t.Errorf("%+v, %v, %d drains", reply, err, drains)
	}
	w.now = w.now.Add(time.Hour)
	reply, err = w.update("a")
	const late = "failed: it is unknown after 10m0s whether the updater can begin"
	if err != nil || !strings.Contains(reply.Message, late) {
		t.Errorf("%+v, %v", reply, err)
	}
	if p := w.progress("a"); p.Unanswered || p.Unended || p.Cordoned {
		t.Errorf("%+v", p)
	}
}

// TestPreparesBeforeTheDrain holds that a node is not drained while its updater prepares the machine,
// and that an attempt which never gets ready fails with the node untouched.
func TestPreparesBeforeTheDrain(t *testing.T) {
	t.Parallel()
	w, s := asked(t, true)
	s.ready = inplace.Readiness{Preparing: "step 1 of 2, fetch-kubelet", RetryAfter: time.Second}
	const want = "preparing the machine before the drain and "
	reply, err := w.update("a")
	if err != nil || !strings.Contains(reply.Message, want) || !strings.Contains(reply.Message, "fetch-kubelet") ||
		w.nodes.Calls()[porttest.DrainMethod] > 0 {
		t.Errorf("%+v, %v, %d drains", reply, err, w.nodes.Calls()[porttest.DrainMethod])
	}
	s.ready = inplace.Readiness{}
	w.until("a", "node drained")
	w, s = asked(t, true)
	s.ready = inplace.Readiness{Preparing: "fetch-kubelet"}
	if _, err := w.update("a"); err != nil {
		t.Error(err)
	}
	w.now = w.now.Add(time.Hour)
	reply, err = w.update("a")
	if err != nil || !strings.Contains(reply.Message, "failed: the machine is not prepared after 10m0s: fetch-kubelet") {
		t.Errorf("%+v, %v", reply, err)
	}
}

// TestHooksAreNotAsked holds that an updater behind Cluster API's hooks gets no question: it has
// answered with what it covers.
func TestHooksAreNotAsked(t *testing.T) {
	t.Parallel()
	w, s := asked(t, false)
	s.ready = inplace.Readiness{Refused: "nobody asks"}
	w.until("a", "node drained")
	if len(s.questions) > 0 {
		t.Errorf("questions %q", s.questions)
	}
}

// TestAnnotatedIsRefusedBeforeTheDrain is TestRefusedBeforeTheDrain for an annotation. The release
// on record stays: nothing was installed.
func TestAnnotatedIsRefusedBeforeTheDrain(t *testing.T) {
	t.Parallel()
	w := newUpgradeWorld(t)
	_, k8sd := w.register()
	k8sd.ready = inplace.Readiness{Refused: "the Secret has no token"}
	w.add(newMachine("cp-0", "kcp"), newMachine("a", ""))
	w.nodes.Edit(inCluster, "cp-0", func(n *inplace.Node) { n.Kubelet = inplaceVersion(wanted) })
	w.sync()
	const release = "channel=1.30-classic/stable"
	w.annotate(w.machine("a"), map[string]any{keys.Release: release, keys.Status: "done"})
	w.ask("a", toChannel)
	w.until("it has failed finally", func() bool {
		return w.marks("a").Status == request.Failed
	})
	node := w.nodes.Node(t.Context(), inCluster, "a")
	drains := w.nodes.Calls()[porttest.DrainMethod]
	if drains > 0 || node.Unschedulable || len(k8sd.requests) > 0 {
		t.Errorf("%d drains, %d calls; the node is %+v", drains, len(k8sd.requests), node)
	}
	if got := w.marks("a").Release; got != release {
		t.Errorf("the release is %q", got)
	}
	u, _ := readRecord[request.Upgrade](w.machine("a").Annotations)
	if u == nil || !strings.Contains(u.Why(), "the Secret has no token") {
		t.Errorf("the record is %+v", u)
	}
	shown := k8sd.questions[0].Desired.Machine.Annotations
	operation := shown[v1alpha1.OperationIDAnnotation]
	if shown[v1alpha1.InPlaceUpgradeOptionAnnotation] != toChannel || operation == "" {
		t.Errorf("the updater was shown %v", shown)
	}
}

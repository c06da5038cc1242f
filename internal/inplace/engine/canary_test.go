package engine

import (
	"maps"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/google/go-cmp/cmp"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/inplace/request"
	"github.com/windlass-dev/windlass/internal/port/porttest"
)

// withoutCanary turns the canary of a policy off.
func withoutCanary(p *v1alpha1.UpdatePolicy) *v1alpha1.UpdatePolicy {
	p.Spec.Canary = new(intstr.FromInt32(0))
	return p
}

// canaryWorld is a group of three, of which the policy updates all at once.
type canaryWorld struct {
	*world
	updater *scripted
}

func newCanaryWorld(t *testing.T) canaryWorld {
	t.Helper()
	policy := external(func(p *v1alpha1.UpdatePolicySpec) { p.MaxInFlight, p.MaxAttempts = 10, 1 })
	w, s := moving(t, policy)
	w.must(w.client.Create(t.Context(), machine("c", "new", to)))
	w.node("c", from)
	s.answer = func(string) inplace.Answer { return inplace.Answer{Outcome: inplace.InProgress} }
	return canaryWorld{world: w, updater: s}
}

// ask has Cluster API ask about a machine, and returns the message of the answer.
func (w canaryWorld) ask(name string) string {
	w.Helper()
	w.now = w.now.Add(10 * time.Second)
	reply, err := w.update(name)
	if err != nil {
		return err.Error()
	}
	return reply.Message
}

// end has the updater of a machine end with an outcome.
func (w canaryWorld) end(name string, outcome inplace.Outcome) {
	w.Helper()
	before := w.updater.answer
	w.updater.answer = func(string) inplace.Answer { return inplace.Answer{Outcome: outcome, Message: "it ended"} }
	w.node(name, to)
	w.ask(name)
	w.updater.answer = before
	if p := w.progress(name); p != nil && p.Phase != inplace.Failed {
		w.Fatalf("the update of %s has not ended: %+v", name, p)
	}
}

// put gives a machine annotations, and a label of its group.
func (w canaryWorld) put(name, group string, annotations map[string]string) {
	w.Helper()
	m := w.machine(name)
	m.Labels[clusterv1.MachineDeploymentNameLabel] = group
	maps.Copy(m.Annotations, annotations)
	w.must(w.client.Update(w.Context(), m))
}

const runningProgress = `{"id":"u9","policy":"keep","phase":"Updating","target":"new","steps":[{"updater":"kubelet"}],"operation":"u9-1"}`

// unendedRecord is that of an upgrade that has failed finally, and whose last change may still run.
const unendedRecord = `{"option":"revision=7","progress":{"id":"x","policy":"keep","phase":"Failed","unended":true,"steps":[{"updater":"k8sd"}],"operation":"x-1"}}`

// TestCanary holds when the machines of a group wait for the first one: until a machine of the group has
// ended the same update. What others do is read from the Machines, so it also holds for a new process.
func TestCanary(t *testing.T) {
	t.Parallel()
	running := map[string]string{v1alpha1.UpdateProgressAnnotation: runningProgress}
	for name, tt := range map[string]struct {
		before func(canaryWorld)
		// waitsFor is a part of the message of a machine that must wait; empty for one that begins.
		waitsFor string
	}{
		"nobody before":     {func(canaryWorld) {}, ""},
		"beside the first":  {func(w canaryWorld) { w.ask("a") }, "Machine a of the group is updated first"},
		"the first is done": {func(w canaryWorld) { w.ask("a"); w.ask("b"); w.end("a", inplace.Finishes); w.ask("c") }, ""},
		"the first failed":  {func(w canaryWorld) { w.ask("a"); w.ask("b"); w.end("a", inplace.Fails); w.ask("c") }, ""},
		"the first failed, and is tried again": {func(w canaryWorld) {
			w.ask("a")
			w.end("a", inplace.Fails)
			w.annotate("a", v1alpha1.UpdateRetryAnnotation, new(string))
			w.ask("a")
		}, "Machine a"},
		"the first is gone": {func(w canaryWorld) {
			w.ask("a")
			w.ask("b")
			w.must(w.client.Delete(w.Context(), w.machine("a")))
		}, ""},
		"the first was done, and is gone": {func(w canaryWorld) {
			w.ask("a")
			w.end("a", inplace.Finishes)
			w.must(w.client.Delete(w.Context(), w.machine("a")))
			w.ask("c")
		}, "Machine c"},
		"the first is done with another target": {func(w canaryWorld) {
			w.put("a", "md", map[string]string{v1alpha1.LastUpdateAnnotation: `{"id":"u1","target":"old","done":[]}`})
			w.ask("c")
		}, "Machine c"},
		"one is new at the target": {func(w canaryWorld) {
			w.annotate("a", clusterv1.UpdateInProgressAnnotation, nil)
			w.ask("c")
		}, "Machine c"},
		"after a restart":          {func(w canaryWorld) { w.ask("a"); w.restart() }, "Machine a"},
		"done before a restart":    {func(w canaryWorld) { w.ask("a"); w.end("a", inplace.Finishes); w.restart(); w.ask("c") }, ""},
		"beside one of another":    {func(w canaryWorld) { w.put("a", "elsewhere", running) }, ""},
		"beside one of its own":    {func(w canaryWorld) { w.put("a", "md", running) }, "Machine a"},
		"beside an unreadable one": {func(w canaryWorld) { w.put("a", "md", map[string]string{v1alpha1.UpdateProgressAnnotation: "{"}) }, "Machine a"},
		"beside an annotated one": {func(w canaryWorld) {
			w.put("a", "md", map[string]string{v1alpha1.InPlaceUpgradeAnnotation: runningRecord})
		}, "Machine a"},
		"beside an annotated one that failed": {func(w canaryWorld) {
			w.put("a", "md", map[string]string{v1alpha1.InPlaceUpgradeAnnotation: unendedRecord})
		}, ""},
		"turned off after the first": {func(w canaryWorld) {
			w.ask("a")
			p := &v1alpha1.UpdatePolicy{}
			w.must(w.client.Get(w.Context(), clientKey("keep"), p))
			w.must(w.client.Update(w.Context(), withoutCanary(p)))
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newCanaryWorld(t)
			tt.before(w)
			for range 2 { // The second answer comes from the queue.
				message := w.ask("b")
				if waits := w.progress("b") == nil; waits != (tt.waitsFor != "") || !strings.Contains(message, tt.waitsFor) {
					t.Fatalf("waits %t: %s", waits, message)
				}
			}
		})
	}
}

// TestCanaryOfAnnotatedGroup holds that an option that fails everywhere reaches one machine of a group,
// and that all others begin at once when it works.
func TestCanaryOfAnnotatedGroup(t *testing.T) {
	t.Parallel()
	w := newUpgradeWorld(t, inPlaceOnly(5))
	kubelet, _ := w.register()
	w.tick = time.Minute
	kubelet.answer = func(*runtimehooksv1.UpdateMachineRequest) inplace.Answer {
		return inplace.Answer{Outcome: inplace.Fails, Message: "no such release"}
	}
	names := []string{"w-0", "w-1", "w-2", "w-3", "w-4"}
	w.addGroup(deploymentKind, "md", names...)
	w.askGroup(deploymentKind, "md", toVersion)
	flying := func() (n int) {
		for _, name := range names {
			if u, _ := readRecord[request.Upgrade](w.machine(name).Annotations); u.IsRunning() {
				n++
			}
		}
		return n
	}
	w.until("the group has failed", func() bool {
		if n := flying(); n > 1 {
			t.Fatalf("%d machines are upgraded, and none has the release", n)
		}
		return w.groupMarks(deploymentKind, "md").Status == request.Failed
	})
	if got := w.marks("w-0"); got.Status != request.Failed {
		t.Errorf("the first machine has %+v", got)
	}
	for _, name := range names[1:] {
		if got := w.marks(name); got != (request.Marks{}) {
			t.Errorf("%s was asked for the release, too: %+v", name, got)
		}
	}
	kubelet.answer = nil
	w.annotate(w.group(deploymentKind, "md"), map[string]any{v1alpha1.UpdateRetryAnnotation: ""})
	most := 0
	w.until("all have the release", func() bool {
		n := flying()
		if has := w.marks("w-0").Release == toVersion; n > 1 && !has {
			t.Fatalf("%d machines are upgraded, and none has the release", n)
		}
		most = max(most, n)
		return w.groupMarks(deploymentKind, "md") == request.Marks{Status: request.Done, Release: toVersion}
	})
	if most < 2 {
		t.Errorf("at most %d machines were upgraded at once", most)
	}
}

// TestCanaryIsChanged holds that a machine which runs the version already, so that no updater is asked,
// lets no others begin.
func TestCanaryIsChanged(t *testing.T) {
	t.Parallel()
	w := newUpgradeWorld(t, inPlaceOnly(5))
	w.register()
	w.addGroup(deploymentKind, "md", "w-0", "w-1", "w-2")
	w.nodes.Set(inCluster, "w-0", porttest.ReadyNode(wanted, w.now))
	w.askGroup(deploymentKind, "md", toVersion)
	w.until("the first has the release", func() bool { return w.marks("w-0").Release == toVersion })
	w.until("the second has begun", func() bool { return w.marks("w-1").To != "" })
	for range 3 {
		w.step()
		if got := w.marks("w-2"); got.To != "" && w.marks("w-1").Release == "" {
			t.Fatalf("w-2 begins beside w-1: %+v", got)
		}
	}
	w.untilGroupDone(deploymentKind, "md", toVersion)
}

// TestAnnotatedAttemptsHaveADeadline holds that an updater learns when the attempt is over, also if an annotation asks for it.
func TestAnnotatedAttemptsHaveADeadline(t *testing.T) {
	t.Parallel()
	w := newUpgradeWorld(t)
	kubelet, _ := w.register()
	deadline := ""
	kubelet.answer = func(r *runtimehooksv1.UpdateMachineRequest) inplace.Answer {
		deadline = r.Desired.Machine.Annotations[v1alpha1.DeadlineAnnotation]
		return inplace.Answer{Outcome: inplace.InProgress}
	}
	w.add(newMachine("a", ""))
	w.ask("a", toVersion)
	w.until("the updater is asked", func() bool { return deadline != "" })
	if at, err := time.Parse(time.RFC3339, deadline); err != nil || !at.After(w.now) {
		t.Errorf("the deadline is %q at %s", deadline, w.now)
	}
}

// TestStatusBetweenAttempts holds that a Machine shows failed after each failed attempt, and in-progress
// when the next one has begun, with the time of the last failure.
func TestStatusBetweenAttempts(t *testing.T) {
	t.Parallel()
	w := newUpgradeWorld(t)
	kubelet, _ := w.register()
	asked := 0
	kubelet.answer = func(*runtimehooksv1.UpdateMachineRequest) inplace.Answer {
		if asked++; asked%2 == 1 {
			return inplace.Answer{Outcome: inplace.InProgress, Message: "at work"}
		}
		return inplace.Answer{Outcome: inplace.Fails, Message: "no such release"}
	}
	w.add(newMachine("a", ""))
	w.ask("a", toVersion)
	var shown []string
	w.until("no attempt is left", func() bool {
		got := w.marks("a")
		line := string(got.Status)
		if got.LastFailed != "" {
			line += " since"
		}
		if n := len(shown); line != "" && (n == 0 || shown[n-1] != line) {
			shown = append(shown, line)
		}
		u, _ := readRecord[request.Upgrade](w.machine("a").Annotations)
		return u.IsFinal()
	})
	want := []string{"in-progress", "failed since", "in-progress since", "failed since", "in-progress since", "failed since"}
	if diff := cmp.Diff(want, shown); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

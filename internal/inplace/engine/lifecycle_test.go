package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/inplace/cover"
)

// answers makes an updater answer the same from now on.
func (s *scripted) answers(o inplace.Outcome, message string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = func(string) inplace.Answer { return inplace.Answer{Outcome: o, Message: message} }
}

// until calls the hook, a second at least between two calls, until the reply or error holds the text.
func (w *world) until(name, text string) inplace.Reply {
	w.Helper()
	var reply inplace.Reply
	var err error
	for range 30 {
		reply, err = w.update(name)
		if strings.Contains(fmt.Sprint(reply.Message, err), text) {
			return reply
		}
		w.now = w.now.Add(max(time.Second, reply.RetryAfter))
	}
	w.Fatalf("never %q; the last reply is %+v, error %v", text, reply, err)
	return reply
}

func (w *world) conditionOf(name string) *metav1.Condition {
	w.Helper()
	return meta.FindStatusCondition(w.machine(name).Status.Conditions, v1alpha1.UpdateBlockedCondition)
}

func (w *world) has(name, annotation string) bool {
	w.Helper()
	return has(w.machine(name), annotation)
}

// movedOn does what Cluster API's owners do when they desire something else.
func (w *world) movedOn(name string) {
	w.Helper()
	m := w.machine(name)
	meta.SetStatusCondition(&m.Status.Conditions, metav1.Condition{Type: clusterv1.MachineUpToDateCondition, Status: metav1.ConditionFalse, Reason: clusterv1.MachineNotUpToDateReason})
	if err := w.client.Status().Update(w.Context(), m); err != nil {
		w.Fatal(err)
	}
}

func TestDirtyFields(t *testing.T) {
	t.Parallel()
	w := newWorld(t, external(func(p *v1alpha1.UpdatePolicySpec) {
		p.IgnorePaths = []v1alpha1.IgnorePath{{Object: v1alpha1.IgnoreMachine, Path: "/spec/failureDomain"}}
	}), deployment(), machineSet("old", from), machineSet("new", to))
	moved := machine("a", "new", to)
	moved.Spec.FailureDomain = "z2"
	if err := w.client.Create(t.Context(), moved); err != nil {
		t.Fatal(err)
	}
	s := w.updater("kubelet", 0, versionPatch)
	w.node("a", to)
	zone := func(name, v, zone string) *clusterv1.MachineSet {
		set := machineSet(name, v)
		set.Spec.Template.Spec.FailureDomain = zone
		return set
	}
	dirty := func() []DirtyField {
		t.Helper()
		read, err := readAnnotation[[]DirtyField](w.machine("a"), v1alpha1.DirtyFieldsAnnotation)
		if err != nil {
			t.Fatal(err)
		}
		if read == nil {
			return nil
		}
		return *read
	}
	// move moves the machine to another MachineSet, as Cluster API does, and updates it.
	move := func(current, desired *clusterv1.MachineSet) {
		t.Helper()
		w.now = w.now.Add(time.Hour)
		if _, err := w.canUpdateSet(current, desired); err != nil {
			t.Fatal(err)
		}
		m := w.machine("a")
		reference := m.Spec.InfrastructureRef
		m.OwnerReferences[0].Name, m.Spec = desired.Name, desired.Spec.Template.Spec
		m.Spec.InfrastructureRef = reference
		if err := w.client.Update(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		w.node("a", desired.Spec.Template.Spec.Version)
		w.writes.Store(0)
		w.until("a", "updated in place")
		if n := w.writes.Load(); n > 4 {
			t.Errorf("%d writes", n)
		}
	}
	field := cover.Pointer{Part: cover.PartMachine, Path: "/spec/failureDomain"}
	move(zone("old", from, "z1"), zone("new", to, "z2"))
	first := w.now
	if diff := cmp.Diff([]DirtyField{{field, first}}, dirty()); diff != "" {
		t.Errorf("after the first update (-want +got)\n%s", diff)
	}
	if text := w.machine("a").Annotations[v1alpha1.DirtyFieldsAnnotation]; text != `[{"object":"Machine","path":"/spec/failureDomain","since":"2026-01-02T04:04:05Z"}]` {
		t.Errorf("annotation %s", text)
	}
	// Still dirty after an update that leaves the field alone, since the same time; also if it changes once more.
	if err := w.client.Create(t.Context(), machineSet("newer", to)); err != nil {
		t.Fatal(err)
	}
	s.patch = `{"spec":{"version":"v1.31.3"}}`
	move(zone("new", to, "z2"), zone("newer", "v1.31.3", "z3"))
	if diff := cmp.Diff([]DirtyField{{field, first}}, dirty()); diff != "" {
		t.Errorf("after the second update (-want +got)\n%s", diff)
	}
	// An updater that covers the field makes it clean.
	s.patch = `{"spec":{"failureDomain":"z4"}}`
	move(zone("newer", "v1.31.3", "z3"), zone("newest", "v1.31.3", "z4"))
	if found := dirty(); found != nil || w.has("a", v1alpha1.DirtyFieldsAnnotation) {
		t.Errorf("still dirty: %+v", found)
	}
	if len(s.updates) != 3 {
		t.Errorf("calls %v", s.updates)
	}
}

func TestOnlyIgnoredFields(t *testing.T) {
	t.Parallel()
	w := newWorld(t, external(func(p *v1alpha1.UpdatePolicySpec) {
		p.IgnorePaths = []v1alpha1.IgnorePath{{Object: v1alpha1.IgnoreMachine, Path: "/spec/failureDomain"}}
	}), deployment(), machineSet("old", to))
	moved := machine("a", "new", to)
	moved.Spec.FailureDomain = "z2" // Cluster API brings all fields to the Machine, also those that a policy ignores.
	w.must(w.client.Create(t.Context(), moved))
	s := w.updater("kubelet", 0, "{}")
	w.node("a", to)
	desired := machineSet("new", to)
	desired.Spec.Template.Spec.FailureDomain = "z2"
	coverage, err := w.canUpdateSet(machineSet("old", to), desired)
	if err != nil || !strings.Contains(string(coverage.Patches.Machine.Data), "z2") || !strings.Contains(coverage.Message, "nothing has to be done") {
		t.Fatalf("coverage %+v, error %v", coverage, err)
	}
	w.writes.Store(0)
	if reply, err := w.update("a"); err != nil || !reply.Done || len(s.updates) > 0 || w.writes.Load() > 2 {
		t.Errorf("reply %+v, error %v, calls %v, %d writes", reply, err, s.updates, w.writes.Load())
	}
	if !strings.Contains(w.machine("a").Annotations[v1alpha1.DirtyFieldsAnnotation], "/spec/failureDomain") {
		t.Errorf("annotations %v", w.machine("a").Annotations)
	}
}

func TestRemediation(t *testing.T) {
	t.Parallel()
	remediate := external(func(p *v1alpha1.UpdatePolicySpec) { p.OnFailure, p.MaxAttempts = v1alpha1.FailureRemediate, 1 })
	empty := ""
	t.Run("a failed machine is handed over", func(t *testing.T) {
		t.Parallel()
		w, s := moving(t, remediate)
		s.answers(inplace.InProgress, "working")
		w.until("a", "working")
		if !w.has("a", clusterv1.MachineSkipRemediationAnnotation) || w.has("a", clusterv1.RemediateMachineAnnotation) {
			t.Errorf("while it is updated: %v", w.machine("a").Annotations)
		}
		s.answers(inplace.Fails, "no")
		w.until("a", "no attempt is left")
		if w.has("a", clusterv1.MachineSkipRemediationAnnotation) || !w.has("a", clusterv1.RemediateMachineAnnotation) {
			t.Errorf("when it has failed: %v", w.machine("a").Annotations)
		}
		// A retry that goes well takes it back.
		w.annotate("a", v1alpha1.UpdateRetryAnnotation, &empty)
		s.answers(inplace.InProgress, "working")
		w.until("a", "working")
		if !w.has("a", clusterv1.MachineSkipRemediationAnnotation) || w.has("a", clusterv1.RemediateMachineAnnotation) || w.conditionOf("a") != nil {
			t.Errorf("when it goes on: %v, condition %v", w.machine("a").Annotations, w.conditionOf("a"))
		}
		s.answers(inplace.Finishes, "")
		w.node("a", to)
		w.until("a", "updated in place")
		if w.has("a", clusterv1.MachineSkipRemediationAnnotation) || w.has("a", clusterv1.RemediateMachineAnnotation) {
			t.Errorf("at the end: %v", w.machine("a").Annotations)
		}
	})
	t.Run("abandoned", func(t *testing.T) {
		t.Parallel()
		w, s := moving(t, remediate)
		s.answers(inplace.Fails, "no")
		w.until("a", "no attempt is left")
		w.annotate("a", v1alpha1.UpdateAbandonAnnotation, &empty)
		w.movedOn("a")
		w.until("a", "was abandoned")
		if w.has("a", clusterv1.RemediateMachineAnnotation) || w.has("a", clusterv1.UpdateInProgressAnnotation) {
			t.Errorf("annotations %v", w.machine("a").Annotations)
		}
	})
	t.Run("not ours", func(t *testing.T) {
		t.Parallel()
		w, s := moving(t, external(nil))
		w.annotate("a", clusterv1.MachineSkipRemediationAnnotation, &empty)
		w.annotate("a", clusterv1.RemediateMachineAnnotation, &empty)
		s.answers(inplace.Finishes, "")
		w.node("a", to)
		w.until("a", "updated in place")
		if !w.has("a", clusterv1.MachineSkipRemediationAnnotation) || !w.has("a", clusterv1.RemediateMachineAnnotation) {
			t.Errorf("what somebody else wrote is gone: %v", w.machine("a").Annotations)
		}
	})
	t.Run("waits for a person", func(t *testing.T) {
		t.Parallel()
		w, s := moving(t, external(nil))
		s.answers(inplace.Fails, "no")
		w.until("a", "no attempt is left")
		if !w.has("a", clusterv1.MachineSkipRemediationAnnotation) || w.has("a", clusterv1.RemediateMachineAnnotation) {
			t.Errorf("annotations %v", w.machine("a").Annotations)
		}
	})
}

func TestDrainAndSoak(t *testing.T) {
	t.Parallel()
	w, files, kubelet := halves(t, external(func(p *v1alpha1.UpdatePolicySpec) { p.Drain, p.SoakSeconds = true, 30 }))
	if err := w.decideHalves(); err != nil {
		t.Fatal(err)
	}
	w.writes.Store(0)
	w.nodes.Block(inCluster, "a", "web")
	reply := w.until("a", "disruption budget")
	if !strings.Contains(reply.Message, "web") || reply.RetryAfter <= 0 || kubelet.polls["id1-2"] > 0 {
		t.Errorf("reply %+v, calls %v", reply, kubelet.polls)
	}
	unschedulable := func() bool { return w.nodes.Node(t.Context(), inCluster, "a").Unschedulable }
	before := w.writes.Load()
	for range 5 {
		w.now = w.now.Add(5 * time.Second)
		if again, err := w.update("a"); err != nil || again != reply {
			t.Errorf("the message changes to %+v, error %v", again, err)
		}
	}
	if n := w.writes.Load(); n != before || !unschedulable() {
		t.Errorf("%d more writes while it is blocked; cordoned %v", n-before, unschedulable())
	}
	w.nodes.Block(inCluster, "a", "")
	w.until("a", "must stay Ready")
	if !unschedulable() {
		t.Error("the node is schedulable before the soak is over")
	}
	reply, err := w.update("a")
	if err != nil || reply.RetryAfter <= 0 || reply.RetryAfter > 30*time.Second {
		t.Errorf("reply %+v, error %v", reply, err)
	}
	w.now = w.now.Add(30 * time.Second)
	w.until("a", "updated in place")
	w.checkHalves(t, files, kubelet)
	t.Logf("two updaters, drain and soak: %d writes", w.writes.Load())
	if n := w.writes.Load(); n > 5 {
		t.Errorf("%d writes, want one for each of: begin, drain, second updater, soak, end", n)
	}
}

func TestPolicyDeletedMeanwhile(t *testing.T) {
	t.Parallel()
	w, files, kubelet := halves(t, external(func(p *v1alpha1.UpdatePolicySpec) { p.Drain, p.SoakSeconds = true, 30 }))
	if err := w.decideHalves(); err != nil {
		t.Fatal(err)
	}
	w.nodes.Block(inCluster, "a", "web")
	w.until("a", "disruption budget")
	w.deletePolicy()
	w.restart()
	w.nodes.Block(inCluster, "a", "")
	w.until("a", "updated in place")
	// What was begun is carried through, and what was cordoned is schedulable again.
	w.checkHalves(t, files, kubelet)
}

// TestPolicyDeletedBefore: an update that was decided under a policy which was deleted since drains
// the node, if its updater needs that: nobody knows any longer that it may do without.
func TestPolicyDeletedBefore(t *testing.T) {
	t.Parallel()
	w, files, kubelet := halves(t, external(func(p *v1alpha1.UpdatePolicySpec) { p.Drain = true }))
	if err := w.decideHalves(); err != nil {
		t.Fatal(err)
	}
	w.deletePolicy()
	w.nodes.Block(inCluster, "a", "web")
	w.until("a", "disruption budget")
	w.nodes.Block(inCluster, "a", "")
	w.until("a", "updated in place")
	w.checkHalves(t, files, kubelet)
}

func (w *world) deletePolicy() {
	w.must(w.client.Delete(w.Context(), &v1alpha1.UpdatePolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "keep"},
	}))
}

func TestGarbageOnMachine(t *testing.T) {
	t.Parallel()
	for _, garbage := range []string{
		"", "{", "null", "[]", "{}", `"yes"`, "\x00", `{"id":"x","phase":"Updating","to":"v1.31.1"}`, `{"id":"x","phase":"Draining","to":"v1.31.1","operation":"x-1"}`,
		`{"id":"x","phase":"Updating","to":"next"}`, `{"id":"x","phase":"Dreaming","target":"new","to":"v1.31.1"}`, `{"id":"x","phase":"Soaking","target":"new","to":"v1.99.0"}`,
		`{"id":"x","phase":"Updating","to":"v1.31.1","attempt":1e99}`, strings.Repeat("[", 20_000),
	} {
		w, s := moving(t, external(nil))
		w.annotate("a", v1alpha1.UpdateProgressAnnotation, &garbage)
		shown := garbage[:min(len(garbage), 60)]
		for range 2 {
			_, err := w.update("a")
			r, ok := errors.AsType[*RefusedError](err)
			if !ok || !strings.Contains(r.Message, "remove") && !strings.Contains(r.Message, "windlass.dev/update-abandon") {
				t.Errorf("%q: error %v", shown, err)
			}
		}
		if c := w.conditionOf("a"); c == nil || c.Message == "" {
			t.Errorf("%q: condition %+v", shown, c)
		}
		if left := w.machine("a").Annotations[v1alpha1.UpdateProgressAnnotation]; left != garbage || len(s.updates) > 0 {
			t.Errorf("%q: lost for %q, calls %v", shown, left, s.updates)
		}
		// What cannot be read counts as in flight for others: an updater may be at work.
		if !json.Valid([]byte(garbage)) {
			if reply, err := w.update("b"); err != nil || !strings.Contains(reply.Message, "not started") {
				t.Errorf("%q: reply %+v, error %v", shown, reply, err)
			}
		}
		// A person does what the message says.
		w.annotate("a", v1alpha1.UpdateProgressAnnotation, nil)
		w.node("a", to)
		if reply, err := w.update("a"); err != nil || !reply.Done || w.conditionOf("a") != nil {
			t.Errorf("%q: reply %+v, error %v, condition %v", shown, reply, err, w.conditionOf("a"))
		}
	}
	for _, garbage := range []string{"", "{", "[]"} {
		w, _ := moving(t, external(nil))
		w.annotate("a", v1alpha1.LastUpdateAnnotation, &garbage)
		_, err := w.update("a")
		if r, ok := errors.AsType[*RefusedError](err); !ok || !strings.Contains(r.Message, v1alpha1.LastUpdateAnnotation) {
			t.Errorf("last update %q: %v", garbage, err)
		}
	}
	// Dirty fields that nobody can read hold nothing up.
	w, _ := moving(t, external(nil))
	garbage := "{"
	w.annotate("a", v1alpha1.DirtyFieldsAnnotation, &garbage)
	w.node("a", to)
	if reply, err := w.update("a"); err != nil || !reply.Done || w.has("a", v1alpha1.DirtyFieldsAnnotation) {
		t.Errorf("reply %+v, error %v, annotations %v", reply, err, w.machine("a").Annotations)
	}
}

// TestManyMachines updates 50 machines at the same time, of which 5 may be in flight. Run it with -race.
func TestManyMachines(t *testing.T) {
	t.Parallel()
	const machines, most = 50, 5
	objects := []client.Object{deployment(), machineSet("old", from)}
	for i := range machines {
		objects = append(objects, machine(fmt.Sprintf("m%d", i), "new", to))
	}
	w := newWorld(t, external(func(p *v1alpha1.UpdatePolicySpec) { p.MaxInFlight = most }), objects...)
	s := w.updater("kubelet", 0, versionPatch)
	if _, err := w.canUpdateSet(machineSet("old", from), machineSet("new", to)); err != nil {
		t.Fatal(err)
	}
	w.writes.Store(0)
	inFlight := func() (n int) {
		list := &clusterv1.MachineList{}
		if err := w.client.List(t.Context(), list); err != nil {
			t.Error(err)
		}
		for i := range list.Items {
			if has(&list.Items[i], v1alpha1.UpdateProgressAnnotation) {
				n++
			}
		}
		return n
	}
	// The updater's lock is held whenever it answers.
	polls, highest := map[string]int{}, 0
	s.answer = func(operation string) inplace.Answer {
		highest = max(highest, inFlight())
		if polls[operation]++; polls[operation] < 3 {
			return inplace.Answer{Outcome: inplace.InProgress}
		}
		return inplace.Answer{Outcome: inplace.Finishes}
	}
	for i := range machines {
		w.node(fmt.Sprintf("m%d", i), to)
	}
	var done atomic.Int64
	finished := map[int]bool{}
	for rounds := 0; done.Load() < machines; rounds++ {
		if rounds > 10*machines {
			t.Fatalf("only %d machines are done", done.Load())
		}
		var wait sync.WaitGroup
		over := make([]bool, machines)
		for i := range machines {
			if finished[i] {
				continue
			}
			wait.Go(func() {
				reply, err := w.update(fmt.Sprintf("m%d", i))
				if err != nil {
					t.Error(err)
				}
				if reply.Done {
					done.Add(1)
					over[i] = true
				}
			})
		}
		wait.Wait()
		for i, ok := range over {
			finished[i] = finished[i] || ok
		}
	}
	if highest > most || highest == 0 {
		t.Errorf("%d machines were in flight at once, want at most %d", highest, most)
	}
	if len(polls) != machines {
		t.Errorf("%d attempts for %d machines", len(polls), machines)
	}
	perMachine := float64(w.writes.Load()) / machines
	t.Logf("%.1f writes for one machine, at most %d in flight", perMachine, highest)
	if perMachine > 4 {
		t.Errorf("%.1f writes for one machine, want at most 4", perMachine)
	}
}

// TestFailureInOneCall: an update that begins and fails finally in one call is told about as any other, and not once more.
func TestFailureInOneCall(t *testing.T) {
	t.Parallel()
	w, s := moving(t, external(func(p *v1alpha1.UpdatePolicySpec) { p.MaxAttempts = 1 }))
	s.answer = func(string) inplace.Answer { return inplace.Answer{Outcome: inplace.Fails, Message: "disk full"} }
	if _, err := w.update("a"); err == nil {
		t.Fatal("the update did not fail")
	}
	var told []string
	for len(w.events.Events) > 0 {
		if e := <-w.events.Events; strings.Contains(e, v1alpha1.UpdateFailedReason) {
			told = append(told, e)
		}
	}
	if len(told) != 2 {
		t.Errorf("Events on the Machine and its owner, and no other: %q", told)
	}
}

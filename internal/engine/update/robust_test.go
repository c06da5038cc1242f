package update

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/core/inplace"
)

// TestMovedTemplateNotName follows Cluster API, which asks again under another name for the MachineSet after each refusal.
func TestMovedTemplateNotName(t *testing.T) {
	t.Parallel()
	w := newWorld(t, external(nil), deployment(), machineSet("old", from), machineSet("older", "v1.29.9"))
	w.updater("kubelet", 0, versionPatch)
	named := func(suffix string) *clusterv1.MachineSet {
		ms := machineSet("md-"+suffix, to)
		ms.Labels[clusterv1.MachineDeploymentUniqueLabel] = "123-" + suffix
		return ms
	}
	asked := func() int64 { return w.writes.Load() }
	if _, err := w.canUpdateSet(machineSet("old", from), named("a")); err != nil {
		t.Fatal(err)
	}
	// The other MachineSet is not covered, so that Cluster API comes back, again and again.
	w.updaters["kubelet"].patch = "{}"
	if _, err := w.canUpdateSet(machineSet("older", "v1.29.9"), named("a")); err == nil {
		t.Fatal("it is covered")
	}
	before := asked()
	for i := range 10 {
		suffix := fmt.Sprintf("r%d", i)
		if _, err := w.canUpdateSet(machineSet("old", from), named(suffix)); err != nil {
			t.Fatalf("the decision does not stand: %v", err)
		}
		if _, err := w.canUpdateSet(machineSet("older", "v1.29.9"), named(suffix)); err == nil {
			t.Fatal("it is covered")
		}
	}
	if n := asked() - before; n > 0 {
		t.Errorf("%d writes for asking the same ten times", n)
	}
	md := &clusterv1.MachineDeployment{}
	if err := w.client.Get(t.Context(), types.NamespacedName{Namespace: namespace, Name: "md"}, md); err != nil {
		t.Fatal(err)
	}
	if meta.FindStatusCondition(md.Status.Conditions, v1alpha1.UpdateBlockedCondition) == nil {
		t.Error("one covered MachineSet has taken the condition away that the other one needs")
	}
}

// TestTwoCallsAtOnce begins an update once, though Cluster API asks twice at the same time.
func TestTwoCallsAtOnce(t *testing.T) {
	t.Parallel()
	w, s := moving(t, external(nil))
	s.answers(inplace.InProgress, "at work")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, err := w.update("a"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	operations := map[string]bool{}
	for _, u := range s.updates {
		operations[u] = true
	}
	if len(operations) != 1 || len(s.updates) != 8 {
		t.Errorf("calls %v, want 8 with one operation", s.updates)
	}
}

// TestPolicyConflictInTheMiddle goes on with a running update by the policy that it began with, and shows why none begins.
func TestPolicyConflictInTheMiddle(t *testing.T) {
	t.Parallel()
	w, s := moving(t, external(nil))
	s.answers(inplace.InProgress, "at work")
	if _, err := w.update("a"); err != nil {
		t.Fatal(err)
	}
	rival := &v1alpha1.UpdatePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "rival"}, Spec: external(nil)}
	rival.Spec.Targets = []v1alpha1.UpdateTarget{{ClusterName: "c"}}
	if err := w.client.Create(t.Context(), rival); err != nil {
		t.Fatal(err)
	}
	s.answers(inplace.Finishes, "")
	w.node("a", to)
	if reply, err := w.update("a"); err != nil || !reply.Done {
		t.Errorf("a running update stops: %+v, %v", reply, err)
	}
	if _, err := w.update("b"); err == nil {
		t.Error("an update begins though two policies select the group")
	}
	c := meta.FindStatusCondition(w.machine("b").Status.Conditions, v1alpha1.UpdateBlockedCondition)
	if c == nil || c.Reason != v1alpha1.PolicyConflictReason || !strings.Contains(c.Message, "rival") {
		t.Errorf("condition %+v", c)
	}
}

// TestLeftovers ends an update whose mark somebody took away: it holds no place, remediation is given back, the rest is owed.
func TestLeftovers(t *testing.T) {
	t.Parallel()
	w, s := moving(t, external(nil))
	s.answers(inplace.InProgress, "at work")
	if _, err := w.update("a"); err != nil {
		t.Fatal(err)
	}
	if err := w.engine.ClearLeftovers(t.Context()); err != nil || !w.has("a", v1alpha1.UpdateProgressAnnotation) {
		t.Fatalf("a running update is taken for a leftover: %v", err)
	}
	w.annotate("a", clusterv1.UpdateInProgressAnnotation, nil)
	w.restart()
	if reply, err := w.update("b"); err != nil || strings.Contains(reply.Message, "not started") {
		t.Errorf("a leftover holds a place: %+v, %v", reply, err)
	}
	if err := w.engine.ClearLeftovers(t.Context()); err != nil {
		t.Fatal(err)
	}
	if w.has("a", v1alpha1.UpdateProgressAnnotation) || w.has("a", clusterv1.MachineSkipRemediationAnnotation) {
		t.Errorf("annotations %v", w.machine("a").Annotations)
	}
	owed, err := readAnnotation[inplace.Owed](w.machine("a"), v1alpha1.UpdateOwedAnnotation)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]inplace.Step{{Updater: "kubelet", SetsVersion: true}}, owed.Steps); diff != "" {
		t.Errorf("it owes (-want +got)\n%s", diff)
	}
	// The next update does it, and then nothing is owed.
	empty := ""
	w.annotate("a", clusterv1.UpdateInProgressAnnotation, &empty)
	s.answers(inplace.Finishes, "")
	w.node("a", to)
	w.node("b", to)
	for _, name := range []string{"b", "a"} {
		if reply, err := w.update(name); err != nil || !reply.Done {
			t.Errorf("%s: reply %+v, error %v", name, reply, err)
		}
	}
	if w.has("a", v1alpha1.UpdateOwedAnnotation) {
		t.Error("it still owes")
	}
}

// TestStaleAbandon does not take a wish for one that is older than the update.
func TestStaleAbandon(t *testing.T) {
	t.Parallel()
	w, s := moving(t, external(nil))
	s.answers(inplace.InProgress, "at work")
	m := w.machine("a")
	m.Status.Conditions = append(m.Status.Conditions, metav1.Condition{
		Type: clusterv1.MachineUpToDateCondition, Status: metav1.ConditionFalse, Reason: clusterv1.MachineNotUpToDateReason, LastTransitionTime: metav1.NewTime(w.now),
	})
	if err := w.client.Status().Update(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	empty := ""
	w.annotate("a", v1alpha1.UpdateAbandonAnnotation, &empty)
	if reply, err := w.update("a"); err != nil || !strings.Contains(reply.Message, "at work") {
		t.Errorf("reply %+v, error %v", reply, err)
	}
	if w.has("a", v1alpha1.UpdateAbandonAnnotation) || !w.has("a", clusterv1.UpdateInProgressAnnotation) {
		t.Errorf("annotations %v", w.machine("a").Annotations)
	}
}

// TestUnansweredIsNotRemediated keeps a machine whose updater could not be asked from being replaced.
func TestUnansweredIsNotRemediated(t *testing.T) {
	t.Parallel()
	w, s := moving(t, external(func(p *v1alpha1.UpdatePolicySpec) { p.OnFailure, p.MaxAttempts = v1alpha1.FailureRemediate, 1 }))
	s.answers(inplace.Unknown, "certificate has expired")
	if _, err := w.update("a"); err != nil {
		t.Fatal(err)
	}
	w.now = w.now.Add(time.Hour)
	_, err := w.update("a")
	if r, ok := errors.AsType[*RefusedError](err); !ok || !strings.Contains(r.Message, "certificate has expired") {
		t.Fatalf("error %v", err)
	}
	if w.has("a", clusterv1.RemediateMachineAnnotation) || !w.has("a", clusterv1.MachineSkipRemediationAnnotation) {
		t.Errorf("annotations %v", w.machine("a").Annotations)
	}
}

// TestFailureShowsOnTheOwner finds a finally failed update on the MachineDeployment too, until it goes on.
func TestFailureShowsOnTheOwner(t *testing.T) {
	t.Parallel()
	w, s := moving(t, external(func(p *v1alpha1.UpdatePolicySpec) { p.MaxAttempts = 1 }))
	shown := func() *metav1.Condition {
		md := &clusterv1.MachineDeployment{}
		if err := w.client.Get(t.Context(), types.NamespacedName{Namespace: namespace, Name: "md"}, md); err != nil {
			t.Fatal(err)
		}
		return meta.FindStatusCondition(md.Status.Conditions, v1alpha1.UpdateBlockedCondition)
	}
	s.answers(inplace.Fails, "disk full")
	if _, err := w.update("a"); err == nil {
		t.Fatal("it does not fail")
	}
	if c := shown(); c == nil || c.Reason != v1alpha1.UpdateFailedReason || !strings.Contains(c.Message, "ns/a") || !strings.Contains(c.Message, "disk full") {
		t.Errorf("condition %+v", c)
	}
	empty := ""
	w.annotate("a", v1alpha1.UpdateRetryAnnotation, &empty)
	s.answers(inplace.InProgress, "at work")
	if _, err := w.update("a"); err != nil {
		t.Fatal(err)
	}
	if c := shown(); c != nil {
		t.Errorf("condition %+v is left", c)
	}
}

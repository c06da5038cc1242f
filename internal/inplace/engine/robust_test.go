package engine

import (
	"context"
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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/port"
	"github.com/windlass-dev/windlass/pkg/version"
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
	var asksAgain atomic.Int32
	for range callsOfTenant {
		wg.Go(func() {
			reply, err := w.update("a")
			if err != nil {
				t.Error(err)
			}
			// It came while another call held the Machine, or read the Machine before another call wrote.
			if reply.Message == busy().Message || strings.Contains(reply.Message, "reading it again") {
				asksAgain.Add(1)
			}
		})
	}
	wg.Wait()
	operations := map[string]bool{}
	for _, u := range s.updates {
		operations[u] = true
	}
	if len(operations) != 1 || len(s.updates)+int(asksAgain.Load()) != callsOfTenant {
		t.Errorf("calls %v, %d ask again, want %d with one operation",
			s.updates, asksAgain.Load(), callsOfTenant)
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
	if err := w.engine.SweepMachines(t.Context()); err != nil || !w.has("a", v1alpha1.UpdateProgressAnnotation) {
		t.Fatalf("a running update is taken for a leftover: %v", err)
	}
	if n := w.nodes.Node(t.Context(), inCluster, "a"); n.ScaleDown != inplace.ScaleDownByUs {
		t.Error("the cluster autoscaler may remove a node under update")
	}
	w.annotate("a", clusterv1.UpdateInProgressAnnotation, nil)
	w.restart()
	if reply, err := w.update("b"); err != nil || strings.Contains(reply.Message, "not started") {
		t.Errorf("a leftover holds a place: %+v, %v", reply, err)
	}
	// A process of another shard leaves it alone.
	w.engine.WatchFilter = "another"
	if err := w.engine.SweepMachines(t.Context()); err != nil || !w.has("a", v1alpha1.UpdateProgressAnnotation) {
		t.Fatalf("a leftover of another shard is cleared: %v", err)
	}
	w.engine.WatchFilter = ""
	if err := w.engine.SweepMachines(t.Context()); err != nil {
		t.Fatal(err)
	}
	if w.has("a", v1alpha1.UpdateProgressAnnotation) || w.has("a", clusterv1.MachineSkipRemediationAnnotation) {
		t.Errorf("annotations %v", w.machine("a").Annotations)
	}
	if n := w.nodes.Node(t.Context(), inCluster, "a"); n.ScaleDown != inplace.ScaleDownAllowed {
		t.Error("the node is left protected from the cluster autoscaler")
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
	if c := shown(); c == nil || c.Reason != v1alpha1.UpdateFailedReason || !strings.Contains(c.Message, "ns/a") || !strings.Contains(c.Message, "disk full") ||
		!strings.Contains(c.Message, ". Fix: correct the cause, then set the annotation "+v1alpha1.UpdateRetryAnnotation) {
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

// TestUpdaterThatMayNotServe: an update whose Updater the operator has withdrawn stands still, with a
// condition that says so, and goes on with the same attempt once the Updater may serve again.
func TestUpdaterThatMayNotServe(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		withdraw func(*v1alpha1.UpdaterSpec)
		want     string
	}{
		"another namespace": {func(s *v1alpha1.UpdaterSpec) {
			s.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"tenant": "other"}}
		}, "namespaceSelector"},
		"other machines": {func(s *v1alpha1.UpdaterSpec) {
			s.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "other"}}
		}, "spec.selector"},
		"an invalid spec":   {func(s *v1alpha1.UpdaterSpec) { s.Remote = nil }, "cannot be used"},
		"a deleted Updater": {nil, "does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, s := moving(t, external(nil))
			s.answers(inplace.InProgress, "at work")
			if _, err := w.update("a"); err != nil {
				t.Fatal(err)
			}
			u := &v1alpha1.Updater{}
			w.must(w.client.Get(t.Context(), types.NamespacedName{Name: "kubelet"}, u))
			good := u.DeepCopy()
			good.ResourceVersion = ""
			w.must(w.client.Delete(t.Context(), u))
			if tt.withdraw != nil {
				bad := good.DeepCopy()
				tt.withdraw(&bad.Spec)
				w.must(w.client.Create(t.Context(), bad))
			}
			for range 3 {
				w.now = w.now.Add(time.Hour) // Far beyond the time of an attempt.
				_, err := w.update("a")
				if r, ok := errors.AsType[*RefusedError](err); !ok || !strings.Contains(r.Message, tt.want) {
					t.Fatalf("error %v, want a refusal with %q", err, tt.want)
				}
			}
			c := meta.FindStatusCondition(w.machine("a").Status.Conditions, v1alpha1.UpdateBlockedCondition)
			if c == nil || c.Reason != v1alpha1.UpdaterErrorReason || !strings.Contains(c.Message, tt.want) {
				t.Errorf("condition %+v", c)
			}
			if p := w.progress("a"); p.Attempt != 1 || p.Phase != inplace.Updating || len(s.updates) != 1 {
				t.Errorf("progress %+v, calls %v", p, s.updates)
			}
			if tt.withdraw != nil {
				w.must(w.client.Delete(t.Context(), &v1alpha1.Updater{ObjectMeta: good.ObjectMeta}))
			}
			w.must(w.client.Create(t.Context(), good))
			s.answers(inplace.Finishes, "")
			w.node("a", to)
			if reply, err := w.update("a"); err != nil || !reply.Done || len(s.updates) != 2 || s.updates[0] != s.updates[1] {
				t.Errorf("reply %+v, error %v, calls %v", reply, err, s.updates)
			}
		})
	}
}

// TestGiveUpWithoutAnUpdater: a person can give up an update whose Updater may not serve.
func TestGiveUpWithoutAnUpdater(t *testing.T) {
	t.Parallel()
	w, s := moving(t, external(nil))
	s.answers(inplace.InProgress, "at work")
	if _, err := w.update("a"); err != nil {
		t.Fatal(err)
	}
	w.must(w.client.Delete(t.Context(), &v1alpha1.Updater{ObjectMeta: metav1.ObjectMeta{Name: "kubelet"}}))
	empty := ""
	w.annotate("a", v1alpha1.UpdateAbandonAnnotation, &empty)
	m := w.machine("a")
	m.Status.Conditions = []metav1.Condition{{Type: clusterv1.MachineUpToDateCondition, Status: metav1.ConditionFalse, Reason: clusterv1.MachineNotUpToDateReason}}
	w.must(w.client.Status().Update(t.Context(), m))
	for range 3 {
		if _, err := w.update("a"); err != nil {
			t.Fatal(err)
		}
		w.now = w.now.Add(time.Hour)
	}
	if p := w.progress("a"); p != nil {
		t.Errorf("progress %+v", p)
	}
}

// failingReader fails every read while err is set.
type failingReader struct {
	client.Reader
	err error
}

func (r *failingReader) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if r.err != nil {
		return r.err
	}
	return r.Reader.Get(ctx, key, object, options...)
}

// TestReadsThatFail: where the Machine cannot be read before its updater is asked, the call fails. It
// is no silence of the updater, so the attempt does not end.
func TestReadsThatFail(t *testing.T) {
	t.Parallel()
	w, s := moving(t, external(nil))
	s.answers(inplace.InProgress, "at work")
	if _, err := w.update("a"); err != nil {
		t.Fatal(err)
	}
	before := w.progress("a")
	live := &failingReader{Reader: w.client}
	o := w.engine.Options
	o.Live = live
	o.Open = func(context.Context, *v1alpha1.Updater) (port.Updater, error) {
		w.now, live.err = w.now.Add(time.Hour), errors.New("etcd has no leader")
		return s, nil
	}
	w.engine = New(o)
	if reply, err := w.update("a"); err == nil || !strings.Contains(err.Error(), "etcd has no leader") {
		t.Errorf("reply %+v, error %v", reply, err)
	}
	if diff := cmp.Diff(before, w.progress("a"), cmp.AllowUnexported(version.Version{})); diff != "" || len(s.updates) != 1 {
		t.Errorf("calls %v, progress (-before +after)\n%s", s.updates, diff)
	}
}

// TestForgedCallsDoNotWait: a call that nobody asks for is refused while another call about the
// Machine runs. A call that is asked for is answered at once, too, and does nothing.
func TestForgedCallsDoNotWait(t *testing.T) {
	t.Parallel()
	w, s := moving(t, external(nil))
	unlock, err := w.engine.machines.Lock(t.Context(), clientKey("a"))
	w.must(err)
	defer unlock()
	forged := w.request("a")
	forged.Desired.Machine.Spec.Version = "v1.31.99"
	_, err = w.engine.UpdateMachine(t.Context(), forged)
	if u, ok := errors.AsType[*UnaskedError](err); !ok || u.Reason != RequestDiffers {
		t.Errorf("error %v", err)
	}
	if reply, err := w.engine.UpdateMachine(t.Context(), w.request("a")); err != nil || reply != busy() || len(s.updates) > 0 {
		t.Errorf("reply %+v, error %v, calls %v", reply, err, s.updates)
	}
}

// TestBootstrapConfigIsGone: once the bootstrap config of a Machine was deleted, Cluster API sends
// none. The update continues, unless it would change the bootstrap config.
func TestBootstrapConfigIsGone(t *testing.T) {
	t.Parallel()
	t.Run("of a control plane Machine that is being updated", func(t *testing.T) {
		t.Parallel()
		w, s := markedControlPlane(t)
		if _, err := w.updateControlPlane(bootstrapStored); err != nil {
			t.Fatal(err)
		}
		w.must(w.client.Delete(t.Context(), w.putObject([]byte(bootstrapStored), "cp")))
		w.node("cp", to)
		s.answers(inplace.Finishes, "")
		if reply, err := w.callControlPlane("null"); err != nil || !reply.Done {
			t.Errorf("reply %+v, error %v", reply, err)
		}
	})
	t.Run("of a control plane Machine whose update would change it", func(t *testing.T) {
		t.Parallel()
		w, s := markedControlPlane(t)
		w.must(w.client.Delete(t.Context(), w.putObject([]byte(bootstrapStored), "cp")))
		_, err := w.callControlPlane("null")
		if r, ok := errors.AsType[*RefusedError](err); !ok || !strings.Contains(r.Message, "featureGates") || len(s.updates) > 0 {
			t.Errorf("error %v, calls %v", err, s.updates)
		}
	})
	t.Run("of a worker", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, external(nil), deployment(), machineSet("old", from))
		s := w.updater("kubelet", 0, versionPatch)
		current, desired, moved := machineSet("old", from), machineSet("new", to), machine("a", "new", to)
		template := []byte(`{"apiVersion":"bootstrap.cluster.x-k8s.io/v1beta2","kind":"KubeadmConfigTemplate",` +
			`"spec":{"template":{"spec":{"files":[{"path":"/a"}]}}}}`)
		w.putObject(template, "boot")
		for _, set := range []*clusterv1.MachineSet{current, desired} {
			set.Spec.Template.Spec.Bootstrap.ConfigRef = bootstrapRef("KubeadmConfigTemplate", "boot")
		}
		moved.Spec.Bootstrap.ConfigRef = bootstrapRef("KubeadmConfig", "gone")
		w.must(w.client.Create(t.Context(), moved))
		w.putSets(current, desired, infrastructure.Raw, infrastructure.Raw)
		objects := func(set *clusterv1.MachineSet) runtimehooksv1.CanUpdateMachineSetRequestObjects {
			return runtimehooksv1.CanUpdateMachineSetRequestObjects{
				MachineSet: *set, InfrastructureMachineTemplate: infrastructure, BootstrapConfigTemplate: runtime.RawExtension{Raw: template},
			}
		}
		_, err := w.engine.CanUpdateMachineSet(t.Context(), &runtimehooksv1.CanUpdateMachineSetRequest{Current: objects(current), Desired: objects(desired)})
		w.must(err)
		w.node("a", from)
		s.answer = func(string) inplace.Answer {
			w.node("a", to)
			return inplace.Answer{Outcome: inplace.Finishes}
		}
		if reply, err := w.update("a"); err != nil || !reply.Done || len(s.updates) != 1 {
			t.Errorf("reply %+v, error %v, calls %v", reply, err, s.updates)
		}
	})
}

func bootstrapRef(kind, name string) clusterv1.ContractVersionedObjectReference {
	return clusterv1.ContractVersionedObjectReference{APIGroup: "bootstrap.cluster.x-k8s.io", Kind: kind, Name: name}
}

// TestFailureShowsOnTheOwnerAfterACrash: a process that is killed after it has recorded a failure leaves it to the next one
// to show it on the MachineDeployment.
func TestFailureShowsOnTheOwnerAfterACrash(t *testing.T) {
	t.Parallel()
	w, s := moving(t, external(func(p *v1alpha1.UpdatePolicySpec) { p.MaxAttempts = 1 }))
	s.answers(inplace.Fails, "disk full")
	if _, err := w.update("a"); err == nil {
		t.Fatal("it does not fail")
	}
	md := &clusterv1.MachineDeployment{}
	key := types.NamespacedName{Namespace: namespace, Name: "md"}
	w.must(w.client.Get(t.Context(), key, md))
	meta.RemoveStatusCondition(&md.Status.Conditions, v1alpha1.UpdateBlockedCondition)
	w.must(w.client.Status().Update(t.Context(), md))
	w.restart()
	if _, err := w.update("a"); err == nil {
		t.Fatal("it does not fail")
	}
	w.must(w.client.Get(t.Context(), key, md))
	c := meta.FindStatusCondition(md.Status.Conditions, v1alpha1.UpdateBlockedCondition)
	if c == nil || c.Reason != v1alpha1.UpdateFailedReason || !strings.Contains(c.Message, "disk full") {
		t.Errorf("condition %+v", c)
	}
	before := w.writes.Load()
	if _, err := w.update("a"); err == nil {
		t.Fatal("it does not fail")
	}
	if n := w.writes.Load() - before; n > 0 {
		t.Errorf("%d writes to say the same again", n)
	}
}

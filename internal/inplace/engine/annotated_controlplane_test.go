package engine

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/inplace/request"
)

// heldBy is a lock as it is written.
func heldBy(machine string) string {
	return `{"machineName":"` + machine + `","machineNamespace":"ns"}`
}

func lockWith(information string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "c" + v1alpha1.InPlaceUpgradeLockSuffix,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: "c", UID: "c-uid"}},
		},
		Data: map[string]string{v1alpha1.InPlaceUpgradeLockKey: information},
	}
}

// TestSingleControlPlaneMachine upgrades the only machine of a control plane, under its lock.
func TestSingleControlPlaneMachine(t *testing.T) {
	t.Parallel()
	for _, option := range []string{toVersion, toChannel} {
		w := newUpgradeWorld(t)
		w.register()
		w.add(newMachine("cp", "kcp"), newMachine("worker", ""))
		w.ask("cp", option)
		w.step()
		if got := w.lockHolder(); got != heldBy("cp") {
			t.Errorf("the lock says %q", got)
		}
		w.untilDone("cp", option)
		if got := w.lockHolder(); got != "" {
			t.Errorf("the lock is left: %s", got)
		}
		if diff := cmp.Diff([]string{"InProgress", "Done"}, w.said("cp")); diff != "" {
			t.Errorf("Events (-want +got):\n%s", diff)
		}
	}
}

// TestFault9_OneControlPlaneMachineAtATime has all machines of a control plane marked at once.
func TestFault9_OneControlPlaneMachineAtATime(t *testing.T) {
	t.Parallel()
	w := newUpgradeWorld(t)
	kubelet, _ := w.register()
	names := []string{"cp-0", "cp-1", "cp-2"}
	for _, name := range names {
		w.add(newMachine(name, "kcp"))
		w.ask(name, toVersion)
	}
	for _, name := range names {
		w.untilDone(name, toVersion)
	}
	if diff := cmp.Diff(map[string]int{"cp-0": 1, "cp-1": 1, "cp-2": 1}, work(kubelet)); diff != "" || kubelet.most != 1 {
		t.Errorf("%d in flight at once; work (-want +got):\n%s", kubelet.most, diff)
	}
	if got := w.lockHolder(); got != "" {
		t.Errorf("the lock is left: %s", got)
	}
}

// TestFault11_NodeBeforeTheNext holds that the next machine waits until the node of the last one is Ready.
func TestFault11_NodeBeforeTheNext(t *testing.T) {
	t.Parallel()
	w := newUpgradeWorld(t)
	kubelet, _ := w.register()
	w.add(newMachine("cp-0", "kcp"), newMachine("cp-1", "kcp"))
	w.ask("cp-0", toVersion)
	w.until("cp-0 runs it", func() bool { return w.nodes.Node(t.Context(), inCluster, "cp-0").Kubelet == inplaceVersion(wanted) })
	w.nodes.Edit(inCluster, "cp-0", func(n *inplace.Node) { n.Ready, n.NotReady = false, "kubelet is down" })
	w.ask("cp-1", toVersion)
	for range 20 {
		w.step()
	}
	if c := conditionOf(w.machine("cp-1").Status.Conditions); c == nil || c.Reason != string(request.ReasonLocked) {
		t.Errorf("the condition of the next is %+v", c)
	}
	if done := work(kubelet); done["cp-1"] != 0 || w.marks("cp-0").Status != request.InProgress {
		t.Errorf("work %v, marks of the first %+v", done, w.marks("cp-0"))
	}
	w.nodes.Edit(inCluster, "cp-0", func(n *inplace.Node) { n.Ready, n.NotReady, n.ReadySince = true, "", w.now })
	w.untilDone("cp-0", toVersion)
	w.untilDone("cp-1", toVersion)
}

// TestFault11_EtcdBeforeTheNext holds that a machine waits while the etcd member of another one is not healthy, or not known to be, and that its own does not
// keep it from beginning.
func TestFault11_EtcdBeforeTheNext(t *testing.T) {
	t.Parallel()
	w := newUpgradeWorld(t)
	kubelet, _ := w.register()
	w.add(newMachine("cp-0", "kcp"), newMachine("cp-1", "kcp"))
	w.etcd("cp-0", metav1.ConditionUnknown)
	w.ask("cp-0", toVersion)
	for _, status := range []metav1.ConditionStatus{metav1.ConditionFalse, metav1.ConditionUnknown} {
		w.etcd("cp-1", status)
		w.step()
		if c := conditionOf(w.machine("cp-0").Status.Conditions); c == nil || c.Reason != string(request.ReasonEtcdUnhealthy) || !strings.Contains(c.Message, "no leader") || w.lockHolder() != "" {
			t.Errorf("the condition is %+v, the lock %q", c, w.lockHolder())
		}
	}
	w.etcd("cp-1", metav1.ConditionTrue)
	w.until("cp-0 has begun", func() bool { return len(kubelet.requests) > 0 })
	w.etcd("cp-0", metav1.ConditionTrue)
	w.untilDone("cp-0", toVersion)
}

// etcd sets what is known of the etcd member of a machine.
func (w *upgradeWorld) etcd(name string, status metav1.ConditionStatus) {
	w.Helper()
	m := w.machine(name)
	meta.SetStatusCondition(&m.Status.Conditions, metav1.Condition{Type: "EtcdMemberHealthy", Status: status, Reason: "r", Message: "no leader"})
	if err := w.client.Status().Update(w.Context(), m); err != nil {
		w.Fatal(err)
	}
}

// TestOwnEtcd holds where a machine's own etcd member is looked at.
func TestOwnEtcd(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		machine *clusterv1.Machine
		status  metav1.ConditionStatus
		want    string
	}{
		"no condition": {newMachine("m", "kcp"), "", ""},
		"healthy":      {newMachine("m", "kcp"), metav1.ConditionTrue, ""},
		"unhealthy":    {newMachine("m", "kcp"), metav1.ConditionFalse, "control plane Machine m has the condition EtcdMemberHealthy False (r): no leader"},
		"not known":    {newMachine("m", "kcp"), metav1.ConditionUnknown, "control plane Machine m has the condition EtcdMemberHealthy Unknown (r): no leader"},
		"a worker":     {newMachine("m", ""), metav1.ConditionFalse, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newUpgradeWorld(t)
			w.add(tt.machine)
			if tt.status != "" {
				w.etcd("m", tt.status)
			}
			r, err := w.engine.readMachine(t.Context(), keyNamed("m"))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, r.facts.OwnEtcd); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestUpgradeLock holds who gets the lock, and that nobody loses it to another one.
func TestUpgradeLock(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		before string
		want   string
		held   bool
	}{
		"nobody":                 {want: heldBy("cp-0")},
		"a machine that is gone": {before: heldBy("gone"), want: heldBy("cp-0")},
		"a crash after taking":   {before: heldBy("cp-0"), want: heldBy("cp-0")},
		"another machine":        {before: heldBy("cp-1"), want: heldBy("cp-1"), held: true},
		"unreadable":             {before: "{", want: "{", held: true},
		"empty":                  {before: "{}", want: "{}", held: true},
		"of another namespace":   {before: `{"machineName":"x","machineNamespace":"other"}`, want: `{"machineName":"x","machineNamespace":"other"}`, held: true},
		"without a namespace":    {before: `{"machineName":"cp-1"}`, want: `{"machineName":"cp-1"}`, held: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			foreign := newMachine("x", "kcp")
			foreign.Namespace = "other"
			w := newUpgradeWorld(t, foreign)
			w.register()
			w.add(newMachine("cp-0", "kcp"), newMachine("cp-1", "kcp"))
			if tt.before != "" {
				w.put(lockWith(tt.before))
			}
			w.ask("cp-0", toVersion)
			for range 3 {
				if _, err := w.reconcile("cp-0"); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(tt.want, w.lockHolder()); diff != "" {
				t.Errorf("the lock (-want +got):\n%s", diff)
			}
			c := conditionOf(w.machine("cp-0").Status.Conditions)
			if held := c.Reason == string(request.ReasonLocked); held != tt.held {
				t.Errorf("the condition is %+v", c)
			}
			if name == "unreadable" && !strings.Contains(c.Message, "c"+v1alpha1.InPlaceUpgradeLockSuffix) {
				t.Errorf("the condition does not say where to look: %s", c.Message)
			}
			if tt.held && len(w.said("cp-0")) != 0 {
				t.Errorf("Events: %v", w.said("cp-0"))
			}
		})
	}
}

// TestLockRace has two machines take the lock at once: whoever writes last finds that it is not free any longer, and waits.
func TestLockRace(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"create", "delete"} {
		w := newUpgradeWorld(t)
		kubelet, _ := w.register()
		w.add(newMachine("cp-0", "kcp"), newMachine("cp-1", "kcp"))
		w.put(lockWith(heldBy("other")))
		// Another resource version than that of a new object, which the fake client numbers alike.
		if err := w.client.Update(t.Context(), lockWith(heldBy("gone"))); err != nil {
			t.Fatal(err)
		}
		w.ask("cp-0", toVersion)
		w.ask("cp-1", toVersion)
		w.onWrite = func(done string, object client.Object) {
			if _, ok := object.(*corev1.ConfigMap); ok && done == verb {
				w.onWrite = nil
				if _, err := w.reconcile("cp-1"); err != nil {
					t.Error(err)
				}
			}
		}
		if _, err := w.reconcile("cp-0"); err != nil {
			t.Fatal(err)
		}
		if got := w.lockHolder(); got != heldBy("cp-1") {
			t.Errorf("%s: the lock says %s", verb, got)
		}
		if u := w.machine("cp-0").Annotations[v1alpha1.InPlaceUpgradeAnnotation]; u != "" {
			t.Errorf("%s: the other one began: %s", verb, u)
		}
		w.untilDone("cp-1", toVersion)
		w.untilDone("cp-0", toVersion)
		if kubelet.most != 1 {
			t.Errorf("%s: %d at once", verb, kubelet.most)
		}
	}
}

// TestLockShowsTheControlPlaneAnew: who held the lock until a moment ago may have left the control plane in another state than it was read in.
func TestLockShowsTheControlPlaneAnew(t *testing.T) {
	t.Parallel()
	w := newUpgradeWorld(t)
	w.register()
	w.add(newMachine("cp-0", "kcp"), newMachine("cp-1", "kcp"))
	w.ask("cp-0", toVersion)
	w.onWrite = func(verb string, _ client.Object) {
		if verb == "create" {
			w.nodes.Edit(inCluster, "cp-1", func(n *inplace.Node) { n.Ready, n.NotReady = false, "kubelet is down" })
			w.sync()
		}
	}
	w.step()
	m := w.machine("cp-0")
	if c := conditionOf(m.Status.Conditions); c == nil || c.Reason != string(request.ReasonControlPlaneUnhealthy) || m.Annotations[v1alpha1.InPlaceUpgradeAnnotation] != "" {
		t.Errorf("the condition is %+v, annotations %v", c, m.Annotations)
	}
}

// TestLockIsReleasedByItsHolderOnly leaves a lock that has changed hands in the meantime.
func TestLockIsReleasedByItsHolderOnly(t *testing.T) {
	t.Parallel()
	w := newUpgradeWorld(t)
	w.add(newMachine("cp-0", "kcp"), newMachine("cp-1", "kcp"))
	w.put(lockWith(heldBy("cp-0")))
	w.annotate(w.machine("cp-0"), map[string]any{keys.Status: "done", keys.Release: toChannel})
	w.onWrite = func(verb string, _ client.Object) {
		if verb == "delete" {
			changed := lockWith(heldBy("cp-1"))
			if err := w.client.Update(t.Context(), changed); err != nil {
				t.Error(err)
			}
		}
	}
	if _, err := w.reconcile("cp-0"); err != nil {
		t.Fatal(err)
	}
	if got := w.lockHolder(); got != heldBy("cp-1") {
		t.Errorf("the lock says %q", got)
	}
}

// TestControlPlaneBeforeWorkers has a worker wait for the control plane, and say for what.
func TestControlPlaneBeforeWorkers(t *testing.T) {
	t.Parallel()
	w := newUpgradeWorld(t)
	w.register()
	w.add(newMachine("cp", "kcp"), newMachine("worker", ""))
	w.ask("cp", toVersion)
	w.ask("worker", toVersion)
	if _, err := w.reconcile("worker"); err != nil {
		t.Fatal(err)
	}
	if c := conditionOf(w.machine("worker").Status.Conditions); c == nil || c.Reason != string(request.ReasonControlPlaneFirst) || !strings.Contains(c.Message, "Machine cp") {
		t.Errorf("the condition is %+v", c)
	}
	w.untilDone("cp", toVersion)
	w.untilDone("worker", toVersion)
}

// TestFailedControlPlaneHoldsWorkers says so on the worker.
func TestFailedControlPlaneHoldsWorkers(t *testing.T) {
	t.Parallel()
	w := newUpgradeWorld(t)
	kubelet, _ := w.register()
	kubelet.answer = func(*runtimehooksv1.UpdateMachineRequest) inplace.Answer {
		return inplace.Answer{Outcome: inplace.Fails, Message: "disk is full"}
	}
	w.add(newMachine("cp", "kcp"), newMachine("worker", ""))
	w.ask("cp", toVersion)
	w.until("it failed", func() bool {
		u, _ := readRecord[request.Upgrade](w.machine("cp").Annotations)
		return u.IsFinal()
	})
	if got := w.lockHolder(); got != heldBy("cp") {
		t.Errorf("a failed machine lost the lock: %q", got)
	}
	w.ask("worker", "version=v1.30.9")
	w.step()
	if c := conditionOf(w.machine("worker").Status.Conditions); c == nil || !strings.Contains(c.Message, "the upgrade of control plane Machine cp to version=v1.31.2 has failed") {
		t.Errorf("the condition is %+v", c)
	}
	w.annotate(w.machine("cp"), map[string]any{keys.To: nil})
	w.until("the lock is free", func() bool { return w.lockHolder() == "" })
	kubelet.answer = nil
	w.untilDone("worker", "version=v1.30.9")
	want := []string{"InProgress", "AttemptFailed", "AttemptFailed", "Failed"}
	if diff := cmp.Diff(want, w.said("cp")); diff != "" {
		t.Errorf("Events (-want +got):\n%s", diff)
	}
}

// TestLeftAlone leaves paused, deleting and remediating machines, and those that Cluster API updates, as they are.
func TestLeftAlone(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		edit func(*clusterv1.Machine, *clusterv1.Cluster)
		want request.Reason
	}{
		"paused":           {func(m *clusterv1.Machine, _ *clusterv1.Cluster) { m.Annotations[clusterv1.PausedAnnotation] = "" }, request.ReasonPaused},
		"a paused Cluster": {func(_ *clusterv1.Machine, c *clusterv1.Cluster) { c.Spec.Paused = new(true) }, request.ReasonPaused},
		"to be remediated": {func(m *clusterv1.Machine, _ *clusterv1.Cluster) {
			m.Annotations[clusterv1.RemediateMachineAnnotation] = ""
		}, request.ReasonRemediating},
		"being remediated": {func(m *clusterv1.Machine, _ *clusterv1.Cluster) {
			m.Status.Conditions = []metav1.Condition{{Type: clusterv1.MachineOwnerRemediatedCondition, Status: metav1.ConditionFalse}}
		}, request.ReasonRemediating},
		"updated by Cluster API": {func(m *clusterv1.Machine, _ *clusterv1.Cluster) {
			m.Annotations[clusterv1.UpdateInProgressAnnotation] = ""
		}, request.ReasonBusy},
		"moving": {func(m *clusterv1.Machine, _ *clusterv1.Cluster) {
			m.Annotations[clusterv1.PendingAcknowledgeMoveAnnotation] = ""
		}, request.ReasonBusy},
		"deleting": {func(m *clusterv1.Machine, _ *clusterv1.Cluster) {
			m.Finalizers, m.DeletionTimestamp = []string{"x/y"}, &metav1.Time{Time: metav1.Now().Time}
		}, ""},
		"another minor of a topology": {func(m *clusterv1.Machine, c *clusterv1.Cluster) {
			m.Labels[clusterv1.ClusterTopologyOwnedLabel] = ""
			c.Spec.Topology.ClassRef.Name = "class"
		}, request.ReasonTopologyOwned},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, c := newMachine("a", ""), newCluster()
			m.Annotations[keys.To] = toVersion
			tt.edit(m, c)
			w := newUpgradeWorld(t, m, c)
			kubelet, _ := w.register()
			w.nodes.Set(inCluster, "a", inplace.Node{Ready: true, Kubelet: inplaceVersion(from)})
			for range 3 {
				w.step()
			}
			var got request.Reason
			if c := conditionOf(w.machine("a").Status.Conditions); c != nil {
				got = request.Reason(c.Reason)
			}
			if got != tt.want || len(kubelet.requests) != 0 {
				t.Errorf("reason %q, want %q; %d requests", got, tt.want, len(kubelet.requests))
			}
		})
	}
}

// TestConditionIsWrittenOnChange holds that polling writes nothing.
func TestConditionIsWrittenOnChange(t *testing.T) {
	t.Parallel()
	w := newUpgradeWorld(t)
	kubelet, _ := w.register()
	kubelet.answer = func(*runtimehooksv1.UpdateMachineRequest) inplace.Answer {
		return inplace.Answer{Outcome: inplace.InProgress, Message: "copying"}
	}
	w.add(newMachine("a", ""))
	w.ask("a", toVersion)
	for range 4 {
		w.step()
	}
	applies := w.applies
	patches := 0
	w.onWrite = func(string, client.Object) { patches++ }
	for range 10 {
		w.step()
	}
	if w.applies != applies || patches != 0 || len(kubelet.requests) < 10 {
		t.Errorf("%d conditions and %d patches were written while nothing changed, in %d requests", w.applies-applies, patches, len(kubelet.requests))
	}
}

// TestUpdaterThatCannotBeAsked keeps an upgrade from beginning, and from being refused.
func TestUpdaterThatCannotBeAsked(t *testing.T) {
	t.Parallel()
	w := newUpgradeWorld(t)
	kubelet, _ := w.register()
	kubelet.mute = errDied
	w.add(newMachine("a", ""))
	w.ask("a", toVersion)
	w.step()
	if c := conditionOf(w.machine("a").Status.Conditions); c == nil || c.Status != metav1.ConditionTrue || c.Reason != string(inplace.ReasonUpdaterUnknown) {
		t.Errorf("the condition is %+v", c)
	}
	kubelet.mute = nil
	w.untilDone("a", toVersion)
}

// TestRefusedRequestHoldsNobodyUp lets a worker begin though a request of the control plane, or of one of its machines, was refused.
func TestRefusedRequestHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	w := newUpgradeWorld(t)
	w.register()
	w.addGroup(kubeadmControlPlaneKind, "kcp", "cp-0")
	w.add(newMachine("worker", ""))
	w.useControlPlane(kubeadmControlPlaneKind, "kcp")
	w.askGroup(kubeadmControlPlaneKind, "kcp", "nonsense")
	w.until("it was refused", func() bool { return w.groupMarks(kubeadmControlPlaneKind, "kcp").Status == request.Failed })
	w.ask("cp-0", "nonsense")
	w.until("it was refused", func() bool { return w.marks("cp-0").Status == request.Failed })
	const patch = "version=v1.30.9"
	w.ask("worker", patch)
	w.untilDone("worker", patch)
}

// TestStuck is about a control plane of one machine that its policy keeps. The topology asks for the next minor, which
// Cluster API cannot bring: the annotations of the Machine and of the control plane tell of it, and not to change the version.
func TestStuck(t *testing.T) {
	t.Parallel()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	w := newUpgradeWorld(t, inPlaceOnly(1))
	w.register()
	w.addGroup(kubeadmControlPlaneKind, "kcp", "cp-0")
	w.useControlPlane(kubeadmControlPlaneKind, "kcp")
	cluster, kcp := newCluster(), w.group(kubeadmControlPlaneKind, "kcp")
	must(w.client.Get(t.Context(), inCluster, cluster))
	cluster.Spec.Topology = clusterv1.Topology{ClassRef: clusterv1.ClusterClassRef{Name: "class"}, Version: "v1.32.4"}
	must(w.client.Update(t.Context(), cluster))
	kcp.SetLabels(map[string]string{clusterv1.ClusterNameLabel: "c", clusterv1.ClusterTopologyOwnedLabel: ""})
	must(unstructured.SetNestedField(kcp.Object, "v1.32.4", "spec", "version"))
	must(w.client.Update(t.Context(), kcp))
	const why = "KubeadmControlPlane kcp is stuck: UpdatePolicy keep keeps its machines, but with maxSurge 1 Cluster API creates a machine"
	w.ask("cp-0", "version=v1.32.4")
	w.step()
	c := conditionOf(w.machine("cp-0").Status.Conditions)
	if c == nil || c.Reason != string(request.ReasonTopologyOwned) || !strings.Contains(c.Message, "asks for v1.32.4 already, but "+why) || strings.Contains(c.Message, "change spec.topology.version") {
		t.Errorf("the Machine's condition is %+v", c)
	}
	w.annotate(w.machine("cp-0"), map[string]any{keys.To: nil, keys.Status: nil})
	w.askGroup(kubeadmControlPlaneKind, "kcp", "version=v1.32.4")
	w.until("the control plane tells of it", func() bool {
		c := conditionOf(capi.Conditions(w.group(kubeadmControlPlaneKind, "kcp")))
		return c != nil && c.Reason == string(request.ReasonBusy) && strings.Contains(c.Message, why)
	})
}

package engine

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/inplace/request"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/pkg/version"
)

// TestMachine upgrades a worker by each kind of option, from the annotation to the end.
func TestMachine(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		option, updater, kubelet, wantSpec string
	}{
		{toVersion, "kubelet", wanted, wanted},
		{toChannel, "k8sd", "v1.31.9", from},
	} {
		t.Run(tt.option, func(t *testing.T) {
			t.Parallel()
			w := newUpgradeWorld(t)
			w.register()
			cp := newMachine("cp-0", "kcp")
			w.add(cp, newMachine("a", ""))
			w.nodes.Edit(inCluster, "cp-0", func(n *inplace.Node) { n.Kubelet = inplaceVersion(wanted) })
			w.sync()
			w.nodes.SetDrain(inCluster, "a", 2)
			w.ask("a", tt.option)
			w.step() // It is admitted.
			w.step()
			if c := conditionOf(w.machine("a").Status.Conditions); c == nil || c.Status != metav1.ConditionTrue || c.Reason != string(inplace.ReasonDraining) {
				t.Errorf("the condition is %+v while the node is drained", c)
			}
			if n := w.nodes.Node(t.Context(), inCluster, "a"); n.ScaleDown != inplace.ScaleDownByUs {
				t.Error("the cluster autoscaler may remove a drained node")
			}
			w.untilDone("a", tt.option)
			m := w.machine("a")
			if c := conditionOf(m.Status.Conditions); c != nil {
				t.Errorf("the condition is left: %+v", c)
			}
			if _, left := m.Annotations[v1alpha1.InPlaceUpgradeAnnotation]; left || m.Spec.Version != from {
				t.Errorf("left are %v, and the spec says %s", m.Annotations, m.Spec.Version)
			}
			if diff := cmp.Diff([]string{"InProgress", "Done"}, w.said("a")); diff != "" {
				t.Errorf("Events (-want +got):\n%s", diff)
			}
			node := w.nodes.Node(t.Context(), inCluster, "a")
			if node.Kubelet.String() != tt.kubelet || node.Unschedulable || node.ScaleDown != inplace.ScaleDownAllowed {
				t.Errorf("the node is %+v", node)
			}
			u := w.updaters[tt.updater]
			if diff := cmp.Diff(map[string]int{"a": 1}, work(u)); diff != "" {
				t.Errorf("work (-want +got):\n%s", diff)
			}
			desired := u.requests[0].Desired.Machine
			if desired.Spec.Version != tt.wantSpec || desired.Annotations[v1alpha1.InPlaceUpgradeOptionAnnotation] != tt.option || desired.Annotations[v1alpha1.OperationIDAnnotation] == "" {
				t.Errorf("the updater was shown version %s and %v", desired.Spec.Version, desired.Annotations)
			}
			if w.lockHolder() != "" {
				t.Error("a worker took the lock")
			}
		})
	}
}

// TestMachineAtRest costs no read of the API server where nothing is asked for, and one of the lock for a control plane Machine.
func TestMachineAtRest(t *testing.T) {
	t.Parallel()
	w := newUpgradeWorld(t)
	w.add(newMachine("a", ""), newMachine("done", ""), newMachine("cp", "kcp"), newMachine("cp-new", "kcp"))
	w.annotate(w.machine("done"), map[string]any{keys.Release: toChannel, keys.Status: "done"})
	w.annotate(w.machine("cp"), map[string]any{keys.Release: toChannel, keys.Status: "done"})
	for name, want := range map[string]int{"a": 0, "done": 0, "gone": 0, "cp": 1, "cp-new": 1} {
		w.liveReads = 0
		if result, err := w.reconcile(name); err != nil || result != (Result{}) || w.liveReads != want {
			t.Errorf("%s: %+v, %v, %d reads, want %d", name, result, err, w.liveReads, want)
		}
	}
}

// TestFault1_ToChangedInFlight has a person change the annotation while a change runs, at the worst moment: just before a write.
func TestFault1_ToChangedInFlight(t *testing.T) {
	t.Parallel()
	const next = "version=v1.31.5"
	for at := 1; at <= 12; at++ {
		w := newUpgradeWorld(t)
		kubelet, _ := w.register()
		w.add(newMachine("a", ""))
		w.ask("a", toVersion)
		writes := 0
		w.onWrite = func(verb string, object client.Object) {
			if object.GetName() == "a" && verb == "patch" {
				if writes++; writes == at {
					w.ask("a", next)
				}
			}
		}
		w.until("it rests", func() bool { m := w.marks("a"); return m.To == "" })
		if got := w.marks("a"); writes >= at && got.Release != next {
			t.Fatalf("changed before write %d: %+v", at, got)
		}
		for _, request := range kubelet.requests {
			if o := request.Desired.Machine.Annotations[v1alpha1.InPlaceUpgradeOptionAnnotation]; o != toVersion && o != next {
				t.Errorf("the updater was asked for %s", o)
			}
		}
		if got := w.nodes.Node(t.Context(), inCluster, "a").Kubelet.String(); writes >= at && got != "v1.31.5" {
			t.Errorf("changed before write %d: the node runs %s", at, got)
		}
	}
}

// TestPolicy holds where the policy comes from.
func TestPolicy(t *testing.T) {
	t.Parallel()
	named := func(name string) *v1alpha1.UpdatePolicy {
		return &v1alpha1.UpdatePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: v1alpha1.UpdatePolicySpec{
			Strategy: v1alpha1.RollingUpdate, Targets: []v1alpha1.UpdateTarget{{ClusterName: "c"}}, SoakSeconds: 7, MaxAttempts: 2, AttemptTimeoutSeconds: 60,
		}}
	}
	base, own := policy.Default(), policy.Default()
	base.Soak, base.Drain = 40*time.Second, true
	own.Name, own.MaxAttempts, own.AttemptTimeout, own.Soak = "p", 2, time.Minute, 7*time.Second
	without := func(p policy.Policy, drain bool) policy.Policy { p.Drain = drain; return p }
	for name, tt := range map[string]struct {
		objects        []client.Object
		machine, group string
		want           policy.Policy
		busy           bool
	}{
		"none":                       {want: base},
		"one":                        {objects: []client.Object{named("p")}, want: own},
		"two":                        {objects: []client.Object{named("p"), named("q")}, want: base, busy: true},
		"drain said on the group":    {group: "false", want: without(base, false)},
		"drain said on the machine":  {group: "false", machine: "true", objects: []client.Object{named("p")}, want: without(own, true)},
		"something else on machines": {machine: "maybe", group: "false", want: without(base, false)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			md := newGroup(deploymentKind, "md", 1)
			md.SetAnnotations(map[string]string{v1alpha1.InPlaceUpgradeDrainAnnotation: tt.group})
			w := newUpgradeWorld(t, append(tt.objects, typed(t, md))...)
			m := newMachine("a", "")
			m.Annotations[v1alpha1.InPlaceUpgradeDrainAnnotation] = tt.machine
			w.add(m)
			r, err := w.engine.readMachine(t.Context(), keyNamed("a"))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, r.facts.Policy); diff != "" || tt.busy != (r.facts.Busy != "") {
				t.Errorf("busy %q; policy (-want +got):\n%s", r.facts.Busy, diff)
			}
		})
	}
}

// TestHostedControlPlane upgrades workers as far as a control plane without Machines allows.
func TestHostedControlPlane(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		spec, status map[string]any
		want         []request.Peer
	}{
		"its own version":        {map[string]any{"version": wanted}, map[string]any{"version": from}, []request.Peer{{Name: "HostedControlPlane hosted", Kubelet: inplaceVersion(from)}}},
		"no status":              {map[string]any{"version": wanted}, nil, []request.Peer{{Name: "HostedControlPlane hosted", Kubelet: inplaceVersion(wanted)}}},
		"no version":             {nil, nil, []request.Peer{{Name: "HostedControlPlane hosted"}}},
		"one that nobody parses": {map[string]any{"version": int64(1)}, map[string]any{"version": "latest"}, []request.Peer{{Name: "HostedControlPlane hosted"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newUpgradeWorld(t)
			if err := w.client.Delete(t.Context(), newHosted(nil, nil)); err != nil {
				t.Fatal(err)
			}
			w.add(newMachine("a", ""))
			w.ask("a", toVersion)
			peers := func() []request.Peer {
				r, err := w.engine.readMachine(t.Context(), keyNamed("a"))
				if err != nil {
					t.Fatal(err)
				}
				return r.facts.Peers
			}
			if got := peers(); len(got) != 0 {
				t.Errorf("without any control plane: %+v", got)
			}
			w.put(newHosted(tt.spec, tt.status))
			if diff := cmp.Diff(tt.want, peers(), cmp.AllowUnexported(version.Version{})); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			w.add(newMachine("cp-0", "kcp"))
			if got := peers(); len(got) != 1 || got[0].Name != "cp-0" {
				t.Errorf("beside a Machine: %+v", got)
			}
		})
	}
}

// TestFault6_RefusedKeepsTheRelease ends in a final failure with the reason, and goes on when a person changes the annotation.
func TestFault6_RefusedKeepsTheRelease(t *testing.T) {
	t.Parallel()
	w := newUpgradeWorld(t)
	w.add(newMachine("a", ""))
	w.annotate(w.machine("a"), map[string]any{keys.Release: "revision=1", keys.To: toChannel})
	for range 4 {
		w.step()
	}
	m := w.machine("a")
	if got := w.marks("a"); got.Status != request.Failed || got.Release != "revision=1" || got.LastFailed == "" {
		t.Errorf("marks are %+v", got)
	}
	if c := conditionOf(m.Status.Conditions); c == nil || c.Status != metav1.ConditionFalse || c.Reason != string(request.ReasonNoUpdater) {
		t.Errorf("the condition is %+v", c)
	}
	w.register()
	w.annotate(m, map[string]any{keys.To: "channel=1.30-classic/stable"})
	w.untilDone("a", "channel=1.30-classic/stable")
	if diff := cmp.Diff([]string{"Failed", "InProgress", "Done"}, w.said("a")); diff != "" {
		t.Errorf("Events (-want +got):\n%s", diff)
	}
}

// TestFault12_ConflictIsNoSecondEvent holds that a write of Cluster API's in between delays nothing: what was decided is recorded all the same, and told once.
func TestFault12_ConflictIsNoSecondEvent(t *testing.T) {
	t.Parallel()
	w := newUpgradeWorld(t)
	kubelet, _ := w.register()
	w.add(newMachine("a", ""))
	w.ask("a", toVersion)
	w.until("it began", func() bool { return len(kubelet.requests) == 1 })
	n := 0
	w.onWrite = func(verb string, object client.Object) {
		if object.GetName() == "a" && verb == "patch" {
			// The second try comes through.
			if n++; n%2 == 1 {
				w.edit("a", func(m *clusterv1.Machine) { m.Status.Phase = fmt.Sprint(n) })
			}
		}
	}
	for range 30 {
		result, err := w.reconcile("a")
		if err != nil || result.Now {
			t.Fatalf("a reconcile was for nothing: %+v, %v", result, err)
		}
		w.now = w.now.Add(5 * time.Second)
	}
	if got := w.marks("a"); n < 3 || got != (request.Marks{Status: request.Done, Release: toVersion}) {
		t.Errorf("after %d writes: %+v", n, got)
	}
	if diff := cmp.Diff([]string{"InProgress", "Done"}, w.said("a")); diff != "" {
		t.Errorf("Events (-want +got):\n%s", diff)
	}
}

// TestFault8_LeftoverFailureDoesNotBlock upgrades a machine that carries the time of an old failure, and one that an older program left failed.
func TestFault8_LeftoverFailureDoesNotBlock(t *testing.T) {
	t.Parallel()
	w := newUpgradeWorld(t)
	w.register()
	w.add(newMachine("a", ""))
	w.annotate(w.machine("a"), map[string]any{keys.LastFailed: "Sat, 7 Nov 2024 13:30:00 +0400", keys.Status: "failed", keys.To: toVersion})
	w.untilDone("a", toVersion)
}

// TestSweep removes what is left where an annotation was taken away while no process ran.
func TestSweep(t *testing.T) {
	t.Parallel()
	w := newUpgradeWorld(t)
	w.add(newMachine("a", ""), newMachine("b", ""))
	w.put(newGroup(deploymentKind, "md", 2))
	w.groups = []groupKey{{deploymentKind, "md"}}
	w.annotate(w.machine("a"), map[string]any{keys.To: toVersion, clusterv1.PausedAnnotation: ""})
	w.annotate(w.machine("b"), map[string]any{keys.To: toVersion, clusterv1.PausedAnnotation: ""})
	w.annotate(w.group(deploymentKind, "md"), map[string]any{keys.To: toVersion, clusterv1.PausedAnnotation: ""})
	w.step()
	conditions := func() (found []string) {
		for _, m := range w.machines() {
			if conditionOf(m.Status.Conditions) != nil {
				found = append(found, m.Name)
			}
		}
		if conditionOf(capi.Conditions(w.group(deploymentKind, "md"))) != nil {
			found = append(found, "md")
		}
		return found
	}
	if diff := cmp.Diff([]string{"a", "b", "md"}, conditions()); diff != "" {
		t.Fatalf("conditions (-want +got):\n%s", diff)
	}
	w.restart()
	w.annotate(w.machine("a"), map[string]any{keys.To: nil})
	w.annotate(w.group(deploymentKind, "md"), map[string]any{keys.To: nil})
	if err := w.sweep(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"b"}, conditions()); diff != "" {
		t.Errorf("conditions after a restart (-want +got):\n%s", diff)
	}
	// While a process runs it knows by itself.
	w.annotate(w.machine("b"), map[string]any{keys.To: nil})
	w.step()
	if left := conditions(); len(left) != 0 {
		t.Errorf("left are conditions of %v", left)
	}
}

// TestBeginIsDecidedAnew: what an upgrade begins by must be what is now. Had somebody taken the annotation away and set it again in between, the lock might be
// another machine's.
func TestBeginIsDecidedAnew(t *testing.T) {
	t.Parallel()
	w := newUpgradeWorld(t)
	w.register()
	w.add(newMachine("cp", "kcp"))
	w.ask("cp", toVersion)
	w.onWrite = func(verb string, object client.Object) {
		if object.GetName() == "cp" && verb == "patch" {
			w.onWrite = nil
			w.annotate(w.machine("cp"), map[string]any{"example.com/other": ""})
		}
	}
	result, err := w.reconcile("cp")
	if _, began := w.machine("cp").Annotations[v1alpha1.InPlaceUpgradeAnnotation]; err != nil || !result.Now || began {
		t.Errorf("%+v, %v, began %t", result, err, began)
	}
	w.untilDone("cp", toVersion)
}

// TestSweepGoesOnAfterABrokenMachine: a Machine whose Cluster is gone keeps its error to itself, whatever the order of the list.
func TestSweepGoesOnAfterABrokenMachine(t *testing.T) {
	t.Parallel()
	w := newUpgradeWorld(t)
	for _, name := range []string{"a", "b", "c"} {
		m := newMachine(name, "")
		if name != "c" {
			m.Spec.ClusterName = "gone"
		}
		m.Status.Conditions = []metav1.Condition{{Type: v1alpha1.InPlaceUpgradeCondition, Status: metav1.ConditionTrue, Reason: "X"}}
		w.add(m)
	}
	if err := w.sweep(); err != nil {
		t.Fatal(err)
	}
	if left := conditionOf(w.machine("c").Status.Conditions); left != nil {
		t.Errorf("left is %+v", left)
	}
	for _, name := range []string{"a", "b"} {
		if _, err := w.reconcile(name); err == nil || !strings.Contains(err.Error(), "reading Cluster ns/gone") {
			t.Errorf("Machine %s: %v", name, err)
		}
	}
}

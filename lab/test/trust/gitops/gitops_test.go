// Package gitops holds what tools that wait for objects of this project read from a real API
// server.
package gitops

import (
	"cmp"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/test/wire"
)

func TestMain(m *testing.M) { wire.Main(m) }

// patience is far beyond what a busy machine needs.
const patience = 2 * time.Minute

// newVersion is where the Cluster of the test goes to.
const newVersion = "v1.32.4"

// wrongSelector is accepted by the API server, and by nothing else.
var wrongSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Is"}}}

// object is an object of this project, and what tools are to read of it.
type object struct {
	client.Object

	// want is its status once the extension has looked, and reason that of its condition Ready.
	want   status.Status
	reason string
	// repair makes it good; nil if it is good. repaired is the reason of its condition Ready then; empty
	// for that of its kind.
	repair   func()
	repaired string
}

// world is a plane with objects of all kinds.
type world struct {
	plane     *wire.Plane
	namespace string
	updater   *wire.Updater
	scripts   map[string]string
	objects   map[string]*object
	cluster   *clusterv1.Cluster
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{plane: wire.Start(t), scripts: readScripts(t), updater: wire.NewUpdater(t)}
	w.namespace = w.plane.Namespace(t)
	w.objects = map[string]*object{}
	w.addGates()
	w.addPolicies()
	w.addUpdaters()
	w.addGraphs()
	w.cluster = &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "prod"},
		Spec: clusterv1.ClusterSpec{
			ControlPlaneRef: clusterv1.ContractVersionedObjectReference{
				APIGroup: controlplanev1.GroupVersion.Group, Kind: "KubeadmControlPlane", Name: "cp",
			},
			Topology: clusterv1.Topology{ClassRef: clusterv1.ClusterClassRef{Name: "class"}, Version: newVersion},
		},
	}
	w.cluster.Annotations = map[string]string{runtimev1.PendingHooksAnnotation: "AfterClusterUpgrade,AfterWorkersUpgrade,BeforeWorkersUpgrade"}
	template := clusterv1.ContractVersionedObjectReference{APIGroup: "infrastructure.cluster.x-k8s.io", Kind: "DevMachineTemplate", Name: "cp"}
	w.plane.Create(t, w.cluster, &controlplanev1.KubeadmControlPlane{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "cp"},
		Spec: controlplanev1.KubeadmControlPlaneSpec{Version: newVersion, MachineTemplate: controlplanev1.KubeadmControlPlaneMachineTemplate{
			Spec: controlplanev1.KubeadmControlPlaneMachineTemplateSpec{InfrastructureRef: template},
		}},
	})
	return w
}

func (w *world) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: w.namespace, Name: name}
}

func (w *world) addGates() {
	good := &v1alpha1.UpgradeGate{ObjectMeta: w.meta("good"), Spec: v1alpha1.UpgradeGateSpec{
		Steps:    []v1alpha1.GateStep{{At: "BeforeWorkersUpgrade"}},
		Requires: v1alpha1.GateRequirements{Approval: &v1alpha1.GateApproval{}},
	}}
	// It is for another Cluster, so it holds nothing here.
	window := []v1alpha1.GateWindow{{TimeZone: "Europe/Atlantis", From: "22:00", To: "04:00"}}
	wrong := &v1alpha1.UpgradeGate{ObjectMeta: w.meta("wrong"), Spec: v1alpha1.UpgradeGateSpec{
		ClusterName: "other", Steps: []v1alpha1.GateStep{{At: "BeforeWorkersUpgrade"}},
		Requires: v1alpha1.GateRequirements{Windows: window},
	}}
	w.objects["a gate"] = &object{Object: good, want: status.CurrentStatus, reason: v1alpha1.UpgradeGateValidReason}
	w.objects["a wrong gate"] = &object{
		Object: wrong, want: status.FailedStatus, reason: v1alpha1.UpgradeGateInvalidReason,
		repair: func() { wrong.Spec.Requires.Windows[0].TimeZone = "Europe/Berlin" }, repaired: v1alpha1.UpgradeGateNoClustersReason,
	}
}

func (w *world) addPolicies() {
	policy := func(name string, target v1alpha1.UpdateTarget) *v1alpha1.UpdatePolicy {
		return &v1alpha1.UpdatePolicy{ObjectMeta: w.meta(name), Spec: v1alpha1.UpdatePolicySpec{
			Targets: []v1alpha1.UpdateTarget{target}, Strategy: v1alpha1.RollingUpdate,
		}}
	}
	good := policy("good", v1alpha1.UpdateTarget{ClusterName: "other"})
	wrong := policy("wrong", v1alpha1.UpdateTarget{ClusterName: "other", Selector: wrongSelector})
	w.objects["a policy"] = &object{Object: good, want: status.CurrentStatus, reason: v1alpha1.UpdatePolicyNoGroupsReason, repaired: v1alpha1.UpdatePolicyNoGroupsReason}
	w.objects["a wrong policy"] = &object{
		Object: wrong, want: status.FailedStatus, reason: v1alpha1.UpdatePolicyInvalidReason,
		repair: func() { wrong.Spec.Targets[0].Selector = nil }, repaired: v1alpha1.UpdatePolicyNoGroupsReason,
	}
	one := policy("one", v1alpha1.UpdateTarget{ClusterName: "prod"})
	w.objects["a policy in conflict"] = &object{
		Object: one, want: status.InProgressStatus, reason: v1alpha1.UpdatePolicyConflictReason,
		repair: func() { one.Spec.Targets[0].ClusterName = "another" }, repaired: v1alpha1.UpdatePolicyNoGroupsReason,
	}
	w.objects["the other policy in conflict"] = &object{
		Object: policy("two", v1alpha1.UpdateTarget{ClusterName: "prod"}), want: status.InProgressStatus,
		reason: v1alpha1.UpdatePolicyConflictReason,
	}
}

func (w *world) addUpdaters() {
	good, wrong, away := w.updater.Object("good"), w.updater.Object("wrong"), w.updater.Object("away")
	wrong.Spec.Selector = wrongSelector
	away.Spec.Remote.URL = "https://127.0.0.1:1"
	w.objects["an updater"] = &object{Object: good, want: status.CurrentStatus, reason: v1alpha1.UpdaterReachableReason}
	w.objects["a wrong updater"] = &object{
		Object: wrong, want: status.FailedStatus, reason: v1alpha1.UpdaterInvalidReason, repair: func() { wrong.Spec.Selector = nil },
	}
	w.objects["an updater that does not answer"] = &object{
		Object: away, want: status.InProgressStatus, reason: v1alpha1.UpdaterUnreachableReason,
		repair: func() { away.Spec.Remote.URL = w.updater.URL },
	}
}

func (w *world) addGraphs() {
	graph := func(name, version, class string) *v1alpha1.UpgradeGraph {
		return &v1alpha1.UpgradeGraph{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.UpgradeGraphSpec{
			Versions: []v1alpha1.Version{v1alpha1.Version(version)}, Classes: []v1alpha1.ClassReference{{Name: class}},
		}}
	}
	wrong, one := graph("wrong", "v1.31.2-rc.01", "b"), graph("one", "v1.31.2", "c")
	w.objects["a graph"] = &object{Object: graph("good", "v1.31.2", "a"), want: status.CurrentStatus, reason: v1alpha1.UpgradeGraphValidReason}
	w.objects["a wrong graph"] = &object{
		Object: wrong, want: status.FailedStatus, reason: v1alpha1.UpgradeGraphInvalidReason,
		repair: func() { wrong.Spec.Versions[0] = "v1.31.2-rc.1" },
	}
	w.objects["a graph in conflict"] = &object{
		Object: one, want: status.InProgressStatus, reason: v1alpha1.UpgradeGraphClassConflictReason,
		repair: func() { one.Spec.Classes[0].Name = "d" },
	}
	w.objects["the other graph in conflict"] = &object{
		Object: graph("two", "v1.31.2", "c"), want: status.InProgressStatus, reason: v1alpha1.UpgradeGraphClassConflictReason,
	}
}

// read reads an object as tools do.
func (w *world) read(t *testing.T, o client.Object) *unstructured.Unstructured {
	t.Helper()
	kinds, _, err := w.plane.Client.Scheme().ObjectKinds(o)
	if err != nil {
		t.Fatal(err)
	}
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(kinds[0])
	live.SetNamespace(o.GetNamespace())
	live.SetName(o.GetName())
	w.plane.Get(t, live)
	return live
}

// check compares what kstatus and Argo CD read of an object.
func (w *world) check(t *testing.T, when, name string, want status.Status) {
	t.Helper()
	live := w.read(t, w.objects[name].Object)
	result, err := status.Compute(live)
	if err != nil {
		t.Fatal(err)
	}
	if result.Status != want {
		t.Errorf("%s: kstatus reads %s as %s (%s), want %s", when, name, result.Status, result.Message, want)
	}
	script, ok := w.scripts["resource.customizations.health.windlass.dev_"+live.GetKind()]
	if !ok {
		t.Fatalf("no health script for %s", live.GetKind())
	}
	if health, message := runScript(t, script, live); health != argoHealth[want] {
		t.Errorf("%s: Argo CD reads %s as %s (%s), want %s", when, name, health, message, argoHealth[want])
	}
}

// await waits until the extension has looked at an object and found a reason for its condition
// Ready.
func (w *world) await(t *testing.T, name, reason string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	live := w.read(t, w.objects[name].Object)
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(live.GroupVersionKind())
	err := wire.Await(ctx, w.plane.Client, list, func(seen *unstructured.Unstructured) bool {
		live = seen
		return ready(seen) == reason
	}, client.InNamespace(live.GetNamespace()), client.MatchingFields{"metadata.name": live.GetName()})
	if err != nil {
		t.Fatalf("waiting until %s has the reason %s: %v; its status is %v", name, reason, err, live.Object["status"])
	}
}

// ready is the reason of an object's condition Ready, if that is about its present spec.
func ready(o *unstructured.Unstructured) string {
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range conditions {
		fields, ok := c.(map[string]any)
		if ok && fields["type"] == v1alpha1.ReadyCondition && fields["observedGeneration"] == o.GetGeneration() {
			return fmt.Sprint(fields["reason"])
		}
	}
	return ""
}

// TestWaiting has kstatus, and the health scripts for Argo CD, read the status of objects of all
// kinds: before the extension runs, after it has looked, while a Cluster waits at a gate, and after
// what was wrong has been repaired.
func TestWaiting(t *testing.T) {
	w := newWorld(t)
	for name, o := range w.objects {
		w.plane.Create(t, o.Object)
		w.check(t, "just created", name, status.InProgressStatus)
	}
	extension := w.plane.Run(t)
	for name, o := range w.objects {
		w.await(t, name, o.reason)
		w.check(t, "looked at", name, o.want)
	}

	answer := extension.Call(t, wire.BeforeWorkersUpgrade, map[string]any{
		"cluster": w.cluster, "fromKubernetesVersion": newVersion, "toKubernetesVersion": newVersion, "kubernetesVersion": newVersion,
	})
	held := &v1alpha1.UpgradeGate{ObjectMeta: w.meta("good")}
	w.plane.Get(t, held)
	if answer.RetryAfterSeconds == 0 || held.Status.WaitingCount != 1 {
		t.Fatalf("the gate holds nothing: %+v; its status is %+v", answer, held.Status)
	}
	w.check(t, "while a Cluster waits", "a gate", status.CurrentStatus)
	wantWaiting(t, held, metav1.ConditionTrue)

	for _, o := range w.objects {
		if o.repair == nil {
			continue
		}
		w.plane.Get(t, o.Object)
		o.repair()
		if err := w.plane.Client.Update(t.Context(), o.Object); err != nil {
			t.Fatal(err)
		}
	}
	for name, o := range w.objects {
		reason := map[string]string{
			"Updater": v1alpha1.UpdaterReachableReason, "UpgradeGraph": v1alpha1.UpgradeGraphValidReason,
			"UpgradeGate": v1alpha1.UpgradeGateValidReason, "UpdatePolicy": v1alpha1.UpdatePolicyValidReason,
		}[w.read(t, o.Object).GetKind()]
		w.await(t, name, cmp.Or(o.repaired, reason))
		w.check(t, "repaired", name, status.CurrentStatus)
	}
}

// wantWaiting checks the condition that tells whether a gate holds a Cluster.
func wantWaiting(t *testing.T, g *v1alpha1.UpgradeGate, want metav1.ConditionStatus) {
	t.Helper()
	for _, c := range g.Status.Conditions {
		if c.Type == v1alpha1.WaitingCondition {
			if c.Status != want {
				t.Errorf("the condition Waiting is %s (%s), want %s", c.Status, c.Message, want)
			}
			return
		}
	}
	t.Errorf("the gate has no condition Waiting: %+v", g.Status.Conditions)
}

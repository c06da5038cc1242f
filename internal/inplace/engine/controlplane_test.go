package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/record"
)

// controlPlaneMachine is a Machine of a KubeadmControlPlane.
func controlPlaneMachine(name, v string) *clusterv1.Machine {
	m := machine(name, "", v)
	isController := true
	m.Labels = map[string]string{clusterv1.ClusterNameLabel: "c", clusterv1.MachineControlPlaneLabel: ""}
	m.Annotations = nil
	m.Spec.InfrastructureRef = infrastructureRef("DevMachine", name)
	m.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{APIGroup: "bootstrap.cluster.x-k8s.io", Kind: "KubeadmConfig", Name: name}
	m.OwnerReferences = []metav1.OwnerReference{{APIVersion: "controlplane.cluster.x-k8s.io/v1beta2", Kind: "KubeadmControlPlane", Name: "kcp", UID: "kcp", Controller: &isController}}
	return m
}

func controlPlane() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(schema.GroupVersionKind{Group: "controlplane.cluster.x-k8s.io", Version: "v1beta2", Kind: "KubeadmControlPlane"})
	u.SetNamespace(namespace)
	u.SetName("kcp")
	u.SetUID("kcp")
	u.SetLabels(map[string]string{clusterv1.ClusterNameLabel: "c"})
	u.Object["spec"] = map[string]any{
		"version": to, "kubeadmConfigSpec": map[string]any{"clusterConfiguration": map[string]any{}},
		"machineTemplate": map[string]any{"spec": map[string]any{"infrastructureRef": map[string]any{
			"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevMachineTemplate", "name": "cp",
		}}},
	}
	return u
}

// The bootstrap configs of a control plane Machine, as stock Cluster API v1.14 sends them. When it asks, they are normalised
// (PrepareKubeadmConfigsForDiff in controlplane/kubeadm/pkg/kubeadmconfig.go); when the Machine is updated, they are as stored.
const (
	bootstrapHead    = `{"apiVersion":"bootstrap.cluster.x-k8s.io/v1beta2","kind":"KubeadmConfig","metadata":{"namespace":"ns","name":"cp"},"spec":`
	bootstrapCurrent = bootstrapHead + `{"format":"cloud-config","clusterConfiguration":{},"joinConfiguration":{"nodeRegistration":{"imagePullPolicy":"IfNotPresent"}}}}`
	bootstrapDesired = bootstrapHead + `{"format":"cloud-config","clusterConfiguration":{"featureGates":{"ControlPlaneKubeletLocalMode":true}},` +
		`"joinConfiguration":{"nodeRegistration":{"imagePullPolicy":"IfNotPresent"}}}}`
	bootstrapStored = bootstrapHead + `{"clusterConfiguration":{"controlPlaneEndpoint":"127.0.0.1:6443","featureGates":{"ControlPlaneKubeletLocalMode":true}},` +
		`"joinConfiguration":{"discovery":{"bootstrapToken":{"token":"abcdef.0123456789abcdef","apiServerEndpoint":"127.0.0.1:6443","caCertHashes":["sha256:00"]}}}}}`
	// bootstrapBefore is as stored before the update.
	bootstrapBefore = bootstrapHead + `{"clusterConfiguration":{"controlPlaneEndpoint":"127.0.0.1:6443"},` +
		`"joinConfiguration":{"discovery":{"bootstrapToken":{"token":"abcdef.0123456789abcdef","apiServerEndpoint":"127.0.0.1:6443","caCertHashes":["sha256:00"]}}}}}`
	infrastructureMachine = `{"apiVersion":"infrastructure.cluster.x-k8s.io/v1beta2","kind":"DevMachine","metadata":{"namespace":"ns","name":"cp"},"spec":{"providerID":"in-memory:////cp"}}`
	// featureGatePatch is what an updater answers that covers what changes from v1.31 on.
	featureGatePatch = `{"spec":{"clusterConfiguration":{"featureGates":{"ControlPlaneKubeletLocalMode":true}}}}`
)

func canUpdateMachine(current, desired *clusterv1.Machine) *runtimehooksv1.CanUpdateMachineRequest {
	objects := func(m *clusterv1.Machine, bootstrap string) runtimehooksv1.CanUpdateMachineRequestObjects {
		return runtimehooksv1.CanUpdateMachineRequestObjects{
			Machine: *m, InfrastructureMachine: runtime.RawExtension{Raw: []byte(infrastructureMachine)}, BootstrapConfig: runtime.RawExtension{Raw: []byte(bootstrap)},
		}
	}
	return &runtimehooksv1.CanUpdateMachineRequest{Current: objects(current, bootstrapCurrent), Desired: objects(desired, bootstrapDesired)}
}

func newControlPlane(t *testing.T) (*world, *scripted) {
	t.Helper()
	return newControlPlaneWith(t, nil)
}

func newControlPlaneWith(t *testing.T, policy func(*v1alpha1.UpdatePolicySpec)) (*world, *scripted) {
	t.Helper()
	w := newWorld(t, external(policy), controlPlane(), controlPlaneMachine("cp", from))
	s := w.updater("kubeadm", 0, versionPatch)
	s.bootstrap = featureGatePatch
	w.node("cp", from)
	w.putObject([]byte(infrastructureMachine), "cp")
	w.putObject([]byte(bootstrapBefore), "cp")
	w.putObject([]byte(templateWith("DevMachineTemplate", "{}")), "cp")
	return w, s
}

// mark does what KubeadmControlPlane does after a positive answer.
func (w *world) mark(name, v string) {
	w.Helper()
	m := w.machine(name)
	m.Spec.Version = v
	if err := w.client.Update(w.Context(), m); err != nil {
		w.Fatal(err)
	}
	empty := ""
	w.annotate(name, clusterv1.UpdateInProgressAnnotation, &empty)
	w.writes.Store(0)
}

// updateControlPlane calls UpdateMachine while the live bootstrap config is this one; empty for none.
func (w *world) updateControlPlane(bootstrap string) (inplace.Reply, error) {
	w.Helper()
	m := w.machine("cp")
	if bootstrap == "" {
		m.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{}
		w.must(w.client.Update(w.Context(), m))
	} else {
		w.putObject([]byte(bootstrap), "cp")
	}
	return w.callControlPlane(bootstrap)
}

// callControlPlane calls UpdateMachine with a bootstrap config.
func (w *world) callControlPlane(bootstrap string) (inplace.Reply, error) {
	w.Helper()
	m := w.machine("cp")
	m.TypeMeta = metav1.TypeMeta{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine"}
	return w.engine.UpdateMachine(w.Context(), &runtimehooksv1.UpdateMachineRequest{Desired: runtimehooksv1.UpdateMachineRequestObjects{
		Machine: *m, InfrastructureMachine: runtime.RawExtension{Raw: []byte(infrastructureMachine)}, BootstrapConfig: runtime.RawExtension{Raw: []byte(bootstrap)},
	}})
}

func TestControlPlaneMachine(t *testing.T) {
	t.Parallel()
	w, s := newControlPlane(t)
	coverage, err := w.engine.CanUpdateMachine(t.Context(), canUpdateMachine(controlPlaneMachine("cp", from), controlPlaneMachine("cp", to)))
	if err != nil || coverage.Message != "updated in place by kubeadm" {
		t.Fatalf("coverage %+v, error %v", coverage, err)
	}
	decisions := record.DecisionsOf(w.machine("cp").GetAnnotations())
	if len(decisions) != 1 || decisions[0].Target != "" {
		t.Fatalf("decisions %+v", decisions)
	}
	if diff := cmp.Diff([]inplace.Step{{Updater: "kubeadm", SetsVersion: true}}, decisions[0].Steps); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	w.mark("cp", to)
	s.answer = func(string) inplace.Answer {
		w.node("cp", to)
		return inplace.Answer{Outcome: inplace.Finishes}
	}
	// What Cluster API fills in or leaves out is no drift.
	reply, err := w.updateControlPlane(bootstrapStored)
	if err != nil || !reply.Done {
		t.Fatalf("reply %+v, error %v", reply, err)
	}
	if n := w.writes.Load(); n > 4 {
		t.Errorf("%d writes for one machine", n)
	}
	// The next minor is decided anew, though the old decision stands beside it until then.
	w.mark("cp", "v1.32.0")
	_, err = w.updateControlPlane(bootstrapStored)
	if r, ok := errors.AsType[*RefusedError](err); !ok || r.Reason != v1alpha1.DesiredChangedReason {
		t.Errorf("error %v", err)
	}
}

func TestControlPlaneDrift(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		version, bootstrap, want string
	}{
		"another version":      {"v1.31.2", bootstrapStored, "Machine /spec/version"},
		"another feature gate": {to, strings.Replace(bootstrapStored, `LocalMode":true`, `LocalMode":false`, 1), "BootstrapConfig /spec/clusterConfiguration/featureGates"},
		"no bootstrap config":  {to, "", "BootstrapConfig /spec/clusterConfiguration/featureGates"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, s := newControlPlane(t)
			if _, err := w.engine.CanUpdateMachine(t.Context(), canUpdateMachine(controlPlaneMachine("cp", from), controlPlaneMachine("cp", to))); err != nil {
				t.Fatal(err)
			}
			w.mark("cp", tt.version)
			_, err := w.updateControlPlane(tt.bootstrap)
			r, ok := errors.AsType[*RefusedError](err)
			if !ok || r.Reason != v1alpha1.DesiredChangedReason || !strings.Contains(r.Message, tt.want) || !strings.Contains(r.Message, "update-abandon") {
				t.Errorf("error %v", err)
			}
			if len(s.updates) > 0 || w.progress("cp") != nil {
				t.Errorf("the update has begun: %v", s.updates)
			}
		})
	}
}

// TestControlPlaneEtcd: the update of a machine has not ended while its etcd member is not known to be healthy.
func TestControlPlaneEtcd(t *testing.T) {
	t.Parallel()
	w, s := newControlPlane(t)
	if _, err := w.engine.CanUpdateMachine(t.Context(), canUpdateMachine(controlPlaneMachine("cp", from), controlPlaneMachine("cp", to))); err != nil {
		t.Fatal(err)
	}
	w.mark("cp", to)
	s.answer = func(string) inplace.Answer {
		w.node("cp", to)
		return inplace.Answer{Outcome: inplace.Finishes}
	}
	for _, status := range []metav1.ConditionStatus{metav1.ConditionFalse, metav1.ConditionUnknown, metav1.ConditionTrue} {
		m := w.machine("cp")
		meta.SetStatusCondition(&m.Status.Conditions, metav1.Condition{Type: "EtcdMemberHealthy", Status: status, Reason: "r", Message: "no leader"})
		w.must(w.client.Status().Update(t.Context(), m))
		reply, err := w.updateControlPlane(bootstrapStored)
		if err != nil {
			t.Fatal(err)
		}
		if healthy := status == metav1.ConditionTrue; reply.Done != healthy || !healthy && !strings.Contains(reply.Message, "EtcdMemberHealthy "+string(status)) {
			t.Errorf("with the condition %s the reply is %+v", status, reply)
		}
	}
}

// TestControlPlaneGates is about an updater that covers the version only: with v1.31 KubeadmControlPlane sets a feature gate of kubeadm by itself, which is
// part of that version. A gate that the control plane's own configuration asks for is not.
func TestControlPlaneGates(t *testing.T) {
	t.Parallel()
	w, s := newControlPlane(t)
	s.bootstrap = ""
	request := canUpdateMachine(controlPlaneMachine("cp", from), controlPlaneMachine("cp", to))
	answer, err := w.engine.CanUpdateMachine(t.Context(), request)
	if err != nil || answer.Message != "updated in place by kubeadm" || !strings.Contains(string(answer.Patches.Bootstrap.Data), `"ControlPlaneKubeletLocalMode":true`) {
		t.Fatalf("answer %+v, error %v", answer, err)
	}
	w.mark("cp", to)
	s.answer = func(string) inplace.Answer {
		w.node("cp", to)
		return inplace.Answer{Outcome: inplace.Finishes}
	}
	if reply, err := w.updateControlPlane(bootstrapStored); err != nil || !reply.Done {
		t.Errorf("reply %+v, error %v", reply, err)
	}

	w, s = newControlPlane(t)
	s.bootstrap = ""
	kcp := controlPlane()
	w.must(w.client.Get(t.Context(), clientKey("kcp"), kcp))
	w.must(unstructured.SetNestedField(kcp.Object, false, "spec", "kubeadmConfigSpec", "clusterConfiguration", "featureGates", "ControlPlaneKubeletLocalMode"))
	w.must(w.client.Update(t.Context(), kcp))
	request.Desired.BootstrapConfig.Raw = []byte(strings.Replace(bootstrapDesired, `LocalMode":true`, `LocalMode":false`, 1))
	_, err = w.engine.CanUpdateMachine(t.Context(), request)
	r, ok := errors.AsType[*RefusedError](err)
	if !ok || r.Reason != v1alpha1.NotCoveredReason || !strings.Contains(r.Message, "BootstrapConfig /spec/clusterConfiguration/featureGates") {
		t.Errorf("error %v", err)
	}
	if decisions := record.DecisionsOf(w.machine("cp").GetAnnotations()); len(decisions) != 0 {
		t.Errorf("a decision that nobody made: %+v", decisions)
	}
}

// TestTargetsWhileFailingClosed is about a MachineDeployment with two old MachineSets of which one is not covered: Cluster API
// asks again and again about the other, each time under another name of the new MachineSet. The name is the request's own, so the decision is about the
// template: one record, which counts whatever the MachineSet is called in the end.
func TestTargetsWhileFailingClosed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, external(nil), deployment(), machineSet("old", from), machineSet("older", from), machine("a", "new-19", to))
	s := w.updater("kubelet", 0, versionPatch)
	s.answer = func(string) inplace.Answer { return inplace.Answer{Outcome: inplace.InProgress} }
	w.node("a", from)
	uncovered := machineSet("older", from)
	uncovered.Spec.Template.Spec.FailureDomain = "z2"
	decided := w.now.Add(time.Minute)
	for i := range 20 {
		target := fmt.Sprintf("new-%d", i)
		w.now = w.now.Add(time.Minute)
		if _, err := w.canUpdateSet(machineSet("old", from), machineSet(target, to)); err != nil {
			t.Fatal(err)
		}
		if _, err := w.canUpdateSet(uncovered, machineSet(target, to)); err == nil {
			t.Fatal("the uncovered change passes")
		}
		set := &clusterv1.MachineSet{}
		if err := w.client.Get(t.Context(), clientKey("old"), set); err != nil {
			t.Fatal(err)
		}
		found := record.DecisionsOf(set.GetAnnotations())
		if len(found) != 1 || found[0].Target != "new-0" || !found[0].Decided.Equal(decided) {
			t.Fatalf("after %s: decisions %+v, want that for new-0", target, found)
		}
	}
	if reply, err := w.update("a"); err != nil || reply.Done || len(s.updates) != 1 {
		t.Errorf("reply %+v, error %v, calls %v", reply, err, s.updates)
	}
}

// TestSeveralMachineSets is about two old MachineSets that move to one: nobody can tell where a machine came from, so it gets
// the updaters of both.
func TestSeveralMachineSets(t *testing.T) {
	t.Parallel()
	moved := machine("a", "new", to)
	moved.Spec.FailureDomain = "z2"
	w := newWorld(t, external(nil), deployment(), machineSet("old", from), machineSet("older", from), moved)
	files, kubelet := w.updater("files", 0, `{"spec":{"failureDomain":"z2"}}`), w.updater("kubelet", 1, versionPatch)
	w.node("a", from)
	desired := machineSet("new", to)
	desired.Spec.Template.Spec.FailureDomain = "z2"
	zoned := machineSet("older", from)
	zoned.Spec.Template.Spec.FailureDomain = "z2"
	// The one differs in the version only; the other in both.
	if _, err := w.canUpdateSet(zoned, desired); err != nil {
		t.Fatal(err)
	}
	if _, err := w.canUpdateSet(machineSet("old", from), desired); err != nil {
		t.Fatal(err)
	}
	kubelet.answer = func(string) inplace.Answer {
		w.node("a", to)
		return inplace.Answer{Outcome: inplace.Finishes}
	}
	for range 3 {
		if reply, err := w.update("a"); err != nil {
			t.Fatal(err)
		} else if reply.Done {
			break
		}
	}
	if diff := cmp.Diff([][]string{{"a id1-1"}, {"a id1-2"}}, [][]string{files.updates, kubelet.updates}); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	// A third MachineSet's decision is no reason to begin again.
	other := machineSet("oldest", "v1.29.0")
	if err := w.client.Create(t.Context(), other.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	if _, err := w.canUpdateSet(other, desired); err != nil {
		t.Fatal(err)
	}
	if reply, err := w.update("a"); err != nil || !reply.Done || len(files.updates) != 1 {
		t.Errorf("reply %+v, error %v, calls %v", reply, err, files.updates)
	}
}

func TestGarbageOnControlPlaneMachine(t *testing.T) {
	t.Parallel()
	for _, garbage := range []string{"[null]", "[{}]", "{", `[{"steps":[{"updater":"kubeadm"}]}]`} {
		w, s := newControlPlane(t)
		w.annotate("cp", v1alpha1.UpdateDecisionsAnnotation, &garbage)
		w.mark("cp", to)
		_, err := w.updateControlPlane(bootstrapStored)
		if r, ok := errors.AsType[*RefusedError](err); !ok || r.Reason != v1alpha1.NoDecisionReason || len(s.updates) > 0 {
			t.Errorf("%q: error %v, calls %v", garbage, err, s.updates)
		}
	}
}

func TestGarbageInDecisions(t *testing.T) {
	t.Parallel()
	for _, garbage := range []string{"", "{", "null", "[]", `"yes"`, `[null]`, `[{"target":"new","steps":"many"}]`, `[{"target":"newer"}]`, "\x00"} {
		w := newWorld(t, external(nil), deployment(), machineSet("old", from), machine("a", "new", to))
		w.updater("kubelet", 0, versionPatch)
		w.node("a", from)
		set := &clusterv1.MachineSet{}
		if err := w.client.Get(t.Context(), clientKey("old"), set); err != nil {
			t.Fatal(err)
		}
		set.Annotations = map[string]string{v1alpha1.UpdateDecisionsAnnotation: garbage}
		if err := w.client.Update(t.Context(), set); err != nil {
			t.Fatal(err)
		}
		_, err := w.update("a")
		if r, ok := errors.AsType[*RefusedError](err); !ok || r.Reason != v1alpha1.NoDecisionReason {
			t.Errorf("%q: error %v", garbage, err)
		}
		// Asked again, it is decided again, and what nobody can read goes.
		if _, err := w.canUpdateSet(machineSet("old", from), machineSet("new", to)); err != nil {
			t.Errorf("%q: %v", garbage, err)
		}
		if err := w.client.Get(t.Context(), clientKey("old"), set); err != nil {
			t.Fatal(err)
		}
		var list []json.RawMessage
		if err := json.Unmarshal([]byte(set.Annotations[v1alpha1.UpdateDecisionsAnnotation]), &list); err != nil || len(list) == 0 {
			t.Errorf("%q: %v, %d decisions", garbage, err, len(list))
		}
	}
}

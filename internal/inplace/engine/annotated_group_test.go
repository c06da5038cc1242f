package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/inplace/request"
	"github.com/windlass-dev/windlass/pkg/version"
)

// group reads a group.
func (w *upgradeWorld) group(gvk schema.GroupVersionKind, name string) *unstructured.Unstructured {
	w.Helper()
	g := unstructuredOf(gvk)
	if err := w.client.Get(w.Context(), keyNamed(name), g); err != nil {
		w.Fatal(err)
	}
	return g
}

// addGroup creates a group whose machines, each with a Ready node, are of several MachineSets.
func (w *upgradeWorld) addGroup(gvk schema.GroupVersionKind, name string, machines ...string) {
	w.Helper()
	w.put(newGroup(gvk, name, int64(len(machines))))
	for i, machine := range machines {
		w.addMember(gvk, name, machine, i)
	}
	w.groups = append(w.groups, groupKey{gvk, name})
}

func (w *upgradeWorld) addMember(gvk schema.GroupVersionKind, name, machine string, i int) {
	w.Helper()
	m := newMachine(machine, name)
	if gvk == deploymentKind {
		m = newMachine(machine, "")
		m.Labels[clusterv1.MachineDeploymentNameLabel] = name
		m.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "MachineSet", Name: fmt.Sprintf("%s-%d", name, i%2), UID: "s", Controller: new(true)}}
	} else {
		m.OwnerReferences[0].APIVersion, m.OwnerReferences[0].Kind = gvk.GroupVersion().String(), gvk.Kind
	}
	m.CreationTimestamp = metav1.NewTime(w.now.Add(-time.Hour))
	w.add(m)
}

func (w *upgradeWorld) askGroup(gvk schema.GroupVersionKind, name, option string) {
	w.Helper()
	w.annotate(w.group(gvk, name), map[string]any{keys.To: option})
}

func (w *upgradeWorld) groupMarks(gvk schema.GroupVersionKind, name string) request.Marks {
	w.Helper()
	return keys.marks(w.group(gvk, name).GetAnnotations())
}

func (w *upgradeWorld) untilGroupDone(gvk schema.GroupVersionKind, name, option string) {
	w.Helper()
	w.until(name+" has "+option, func() bool { return w.groupMarks(gvk, name) == request.Marks{Status: request.Done, Release: option} })
	w.step()
}

// inPlaceOnly is a policy by which nothing may be replaced.
func inPlaceOnly(maxInFlight int32) *v1alpha1.UpdatePolicy {
	return &v1alpha1.UpdatePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "keep"}, Spec: v1alpha1.UpdatePolicySpec{
		Strategy: v1alpha1.ExternalUpdate, Fallback: v1alpha1.FallbackNone, MaxInFlight: maxInFlight, Targets: []v1alpha1.UpdateTarget{{ClusterName: "c"}},
	}}
}

// TestFault7_ClusterWithTwoMachineSets upgrades a control plane of three and a MachineDeployment with two MachineSets, asked for at once.
func TestFault7_ClusterWithTwoMachineSets(t *testing.T) {
	t.Parallel()
	w := newUpgradeWorld(t, inPlaceOnly(2))
	kubelet, _ := w.register()
	w.addGroup(kubeadmControlPlaneKind, "kcp", "cp-0", "cp-1", "cp-2")
	w.addGroup(deploymentKind, "md", "w-0", "w-1", "w-2", "w-3")
	w.useControlPlane(kubeadmControlPlaneKind, "kcp")
	w.askGroup(deploymentKind, "md", toVersion)
	w.askGroup(kubeadmControlPlaneKind, "kcp", toVersion)
	w.until("the MachineDeployment waits", func() bool {
		c := conditionOf(capi.Conditions(w.group(deploymentKind, "md")))
		return c != nil && c.Reason == string(request.ReasonControlPlaneFirst)
	})
	most := 0
	kubelet.takes = 6
	kubelet.answer = func(wish *runtimehooksv1.UpdateMachineRequest) inplace.Answer {
		a := kubelet.work(&wish.Desired.Machine)
		workers := 0
		for name := range kubelet.flying {
			if strings.HasPrefix(name, "w-") {
				workers++
			}
		}
		if workers > 0 && w.groupMarks(kubeadmControlPlaneKind, "kcp").Status != request.Done {
			t.Errorf("%v began before the control plane had ended", kubelet.flying)
		}
		if len(kubelet.flying) != workers && len(kubelet.flying) > 1 {
			t.Errorf("in flight at once: %v", kubelet.flying)
		}
		most = max(most, workers)
		return a
	}
	w.untilGroupDone(kubeadmControlPlaneKind, "kcp", toVersion)
	w.untilGroupDone(deploymentKind, "md", toVersion)
	if most != 2 {
		t.Errorf("%d workers at once, want 2", most)
	}
	want := map[string]int{"cp-0": 1, "cp-1": 1, "cp-2": 1, "w-0": 1, "w-1": 1, "w-2": 1, "w-3": 1}
	if diff := cmp.Diff(want, work(kubelet)); diff != "" {
		t.Errorf("work (-want +got):\n%s", diff)
	}
	for _, g := range w.groups {
		object := w.group(g.gvk, g.name)
		if got := specVersion(object, g.gvk != deploymentKind); got.String() != wanted {
			t.Errorf("the spec of %s says %s", g.name, got)
		}
		if c := conditionOf(capi.Conditions(object)); c != nil {
			t.Errorf("the condition of %s is left: %+v", g.name, c)
		}
		if diff := cmp.Diff([]string{"InProgress", "Done"}, w.said(g.name)); diff != "" {
			t.Errorf("Events of %s (-want +got):\n%s", g.name, diff)
		}
	}
}

// TestOtherControlPlanes upgrades control planes of kinds that are not known at build time.
func TestOtherControlPlanes(t *testing.T) {
	t.Parallel()
	for _, gvk := range []schema.GroupVersionKind{ck8sKind, rke2Kind} {
		t.Run(gvk.Kind, func(t *testing.T) {
			t.Parallel()
			w := newUpgradeWorld(t, inPlaceOnly(1))
			_, k8sd := w.register()
			w.addGroup(gvk, "cp", "cp-0", "cp-1", "cp-2")
			w.askGroup(gvk, "cp", toChannel)
			w.untilGroupDone(gvk, "cp", toChannel)
			if diff := cmp.Diff(map[string]int{"cp-0": 1, "cp-1": 1, "cp-2": 1}, work(k8sd)); diff != "" || k8sd.most != 1 {
				t.Errorf("%d at once; work (-want +got):\n%s", k8sd.most, diff)
			}
			if got := specVersion(w.group(gvk, "cp"), true).String(); got != from {
				t.Errorf("the spec was raised to %s, though its controller may replace machines for that", got)
			}
			if c := conditionOf(capi.Conditions(w.group(gvk, "cp"))); c != nil {
				t.Errorf("a kind with conditions of its own has ours: %+v", c)
			}
		})
	}
}

// TestRaise holds when the version of a group's spec is raised.
func TestRaise(t *testing.T) {
	t.Parallel()
	replacing := inPlaceOnly(1)
	replacing.Spec.Fallback = v1alpha1.FallbackRollingUpdate
	for name, tt := range map[string]struct {
		gvk    schema.GroupVersionKind
		count  int
		policy *v1alpha1.UpdatePolicy
		want   string
	}{
		"MachineDeployment":                     {deploymentKind, 1, inPlaceOnly(1), wanted},
		"MachineDeployment that may replace":    {deploymentKind, 1, replacing, from},
		"MachineDeployment without a policy":    {deploymentKind, 1, nil, from},
		"KubeadmControlPlane of 3":              {kubeadmControlPlaneKind, 3, inPlaceOnly(1), wanted},
		"KubeadmControlPlane of 1":              {kubeadmControlPlaneKind, 1, inPlaceOnly(1), from},
		"KubeadmControlPlane without a policy":  {kubeadmControlPlaneKind, 3, nil, from},
		"control plane of somebody else's kind": {rke2Kind, 3, inPlaceOnly(1), from},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var objects []client.Object
			if tt.policy != nil {
				objects = append(objects, tt.policy)
			}
			w := newUpgradeWorld(t, objects...)
			w.register()
			w.tick = time.Minute
			w.addGroup(tt.gvk, "g", []string{"m-0", "m-1", "m-2"}[:tt.count]...)
			w.askGroup(tt.gvk, "g", toVersion)
			w.untilGroupDone(tt.gvk, "g", toVersion)
			if got := specVersion(w.group(tt.gvk, "g"), tt.gvk != deploymentKind).String(); got != tt.want {
				t.Errorf("the spec says %s, want %s", got, tt.want)
			}
		})
	}
}

// TestRaiseRefused ends an upgrade whose machines are there, where the API server does not take the new version, and says so. What may be otherwise the next
// time is tried again.
func TestRaiseRefused(t *testing.T) {
	t.Parallel()
	resource := clusterv1.GroupVersion.WithResource("machinedeployments").GroupResource()
	for name, tt := range map[string]struct {
		err  error
		note string
	}{
		"invalid":        {apierrors.NewInvalid(deploymentKind.GroupKind(), "md", nil), "the API server refuses it: "},
		"forbidden":      {apierrors.NewForbidden(resource, "md", errors.New("no")), "no; set spec.template.spec.version yourself"},
		"by a webhook":   {apierrors.NewBadRequest("admission webhook \"x\" denied the request: freeze"), "freeze; set spec.template.spec.version yourself"},
		"long words":     {apierrors.NewBadRequest(strings.Repeat("x", 3000)), "; set spec.template.spec.version yourself"},
		"a webhook away": {apierrors.NewInternalError(errors.New("failed calling webhook")), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newUpgradeWorld(t, inPlaceOnly(1))
			w.register()
			w.tick = time.Minute
			w.addGroup(deploymentKind, "md", "w-0")
			w.askGroup(deploymentKind, "md", toVersion)
			w.until("its machine is there", func() bool { return w.marks("w-0").Release == toVersion })
			w.refuse = func(data string) error {
				if strings.Contains(data, `"template"`) {
					return tt.err
				}
				return nil
			}
			_, err := w.engine.UpgradeGroup(w.quiet(), deploymentKind, keyNamed("md"))
			if err == nil {
				// That the condition goes is a change, after which all is decided anew.
				_, err = w.engine.UpgradeGroup(w.quiet(), deploymentKind, keyNamed("md"))
			}
			ended := w.groupMarks(deploymentKind, "md") == request.Marks{Status: request.Done, Release: toVersion}
			if tt.note == "" {
				if err == nil || ended {
					t.Errorf("ended %t, %v", ended, err)
				}
				return
			}
			if err != nil || !ended || specVersion(w.group(deploymentKind, "md"), false).String() != from {
				t.Errorf("ended %t, %v, the spec says %s", ended, err, specVersion(w.group(deploymentKind, "md"), false))
			}
			if note := w.events.notes["md"]; !strings.Contains(note, "the version of the spec stays "+from) || !strings.Contains(note, tt.note) {
				t.Errorf("the Event says %q", note)
			}
		})
	}
}

// TestKubeletsAreReadFromNodes: Cluster API may note the new kubelet later than the group ends.
func TestKubeletsAreReadFromNodes(t *testing.T) {
	t.Parallel()
	w := newUpgradeWorld(t, inPlaceOnly(1))
	w.add(newMachine("a", ""))
	md := newGroup(deploymentKind, "md", 1)
	md.SetAnnotations(map[string]string{keys.To: toVersion})
	w.put(md)
	w.groups = []groupKey{{deploymentKind, "md"}}
	w.annotate(w.machine("a"), map[string]any{keys.Release: toVersion, keys.Status: "done"})
	w.nodes.Edit(inCluster, "a", func(n *inplace.Node) { n.Kubelet = inplaceVersion(wanted) })
	for range 4 {
		if _, err := w.engine.UpgradeGroup(w.quiet(), deploymentKind, keyNamed("md")); err != nil {
			t.Fatal(err)
		}
	}
	if got := specVersion(w.group(deploymentKind, "md"), false).String(); got != wanted {
		t.Errorf("the spec says %s", got)
	}
}

// TestFault13_GroupCancelled withdraws what has not begun, and follows what has.
func TestFault13_GroupCancelled(t *testing.T) {
	t.Parallel()
	w := newUpgradeWorld(t, inPlaceOnly(2))
	kubelet, _ := w.register()
	w.addGroup(deploymentKind, "md", "w-0", "w-1", "w-2", "w-3")
	w.askGroup(deploymentKind, "md", toVersion)
	w.until("the first is being worked on", func() bool { return len(kubelet.requests) > 0 })
	w.annotate(w.group(deploymentKind, "md"), map[string]any{keys.To: nil})
	for range 20 {
		w.step()
	}
	done := work(kubelet)
	for _, name := range []string{"w-0", "w-1", "w-2", "w-3"} {
		want := request.Marks{}
		if done[name] > 0 {
			want = request.Marks{Status: request.Done, Release: toVersion}
		}
		if diff := cmp.Diff(want, w.marks(name)); diff != "" {
			t.Errorf("marks of %s (-want +got):\n%s", name, diff)
		}
	}
	object := w.group(deploymentKind, "md")
	if got := keys.marks(object.GetAnnotations()); got != (request.Marks{}) || conditionOf(capi.Conditions(object)) != nil || len(done) > 2 {
		t.Errorf("%d machines were upgraded; left are %+v, %+v", len(done), got, conditionOf(capi.Conditions(object)))
	}
	if diff := cmp.Diff([]string{"InProgress", "Cancelled"}, w.said("md")); diff != "" {
		t.Errorf("Events (-want +got):\n%s", diff)
	}
}

// TestJoining gives a machine that joins later the release of its group, once it has a node.
func TestJoining(t *testing.T) {
	t.Parallel()
	w := newUpgradeWorld(t)
	_, k8sd := w.register()
	w.addGroup(deploymentKind, "md", "w-0")
	const option = "channel=1.30-classic/stable"
	w.askGroup(deploymentKind, "md", option)
	w.untilGroupDone(deploymentKind, "md", option)
	late := newMachine("w-1", "")
	late.CreationTimestamp, late.Status.NodeRef.Name = metav1.NewTime(w.now), ""
	w.put(late)
	result, err := w.engine.UpgradeGroup(w.quiet(), deploymentKind, keyNamed("md"))
	if err != nil || result != (Result{After: joinedPoll}) || w.marks("w-1") != (request.Marks{}) {
		t.Fatalf("a machine without a node: %+v, %v, %+v", result, err, w.marks("w-1"))
	}
	late = w.machine("w-1")
	late.Status.NodeRef.Name = "w-1"
	if err := w.client.Status().Update(t.Context(), late); err != nil {
		t.Fatal(err)
	}
	node := w.nodes.Node(t.Context(), inCluster, "w-0")
	node.Kubelet = inplaceVersion(from)
	w.nodes.Set(inCluster, "w-1", node)
	w.sync()
	w.untilDone("w-1", option)
	if diff := cmp.Diff(map[string]int{"w-0": 1, "w-1": 1}, work(k8sd)); diff != "" {
		t.Errorf("work (-want +got):\n%s", diff)
	}
	if result, err := w.engine.UpgradeGroup(w.quiet(), deploymentKind, keyNamed("md")); err != nil || result != (Result{}) {
		t.Errorf("at rest: %+v, %v", result, err)
	}
}

// TestFault2_FailedGroup stops at a failed machine, for good, until a person asks for another try.
func TestFault2_FailedGroup(t *testing.T) {
	t.Parallel()
	w := newUpgradeWorld(t)
	kubelet, _ := w.register()
	w.tick = time.Minute
	kubelet.answer = func(*runtimehooksv1.UpdateMachineRequest) inplace.Answer {
		return inplace.Answer{Outcome: inplace.Fails, Message: "disk is full"}
	}
	w.addGroup(deploymentKind, "md", "w-0", "w-1")
	w.askGroup(deploymentKind, "md", toVersion)
	w.until("the group has failed", func() bool { return w.groupMarks(deploymentKind, "md").Status == request.Failed })
	requests := len(kubelet.requests)
	for range 30 {
		w.step()
	}
	if len(kubelet.requests) != requests || requests != 3 {
		t.Errorf("%d requests, then %d", requests, len(kubelet.requests))
	}
	c := conditionOf(capi.Conditions(w.group(deploymentKind, "md")))
	if c == nil || c.Status != metav1.ConditionFalse || c.Reason != string(request.ReasonFailed) || !strings.Contains(c.Message, "disk is full") {
		t.Errorf("the condition is %+v", c)
	}
	kubelet.answer = nil
	w.annotate(w.group(deploymentKind, "md"), map[string]any{v1alpha1.UpdateRetryAnnotation: ""})
	w.untilGroupDone(deploymentKind, "md", toVersion)
	for _, object := range []metav1.Object{w.group(deploymentKind, "md"), w.machine("w-0"), w.machine("w-1")} {
		if has(object, v1alpha1.UpdateRetryAnnotation) {
			t.Errorf("the wish for a retry is left on %s", object.GetName())
		}
	}
	if diff := cmp.Diff([]string{"InProgress", "Failed", "InProgress", "Done"}, w.said("md")); diff != "" {
		t.Errorf("Events (-want +got):\n%s", diff)
	}
}

// TestGroupHolds shows what keeps the machines of a group from beginning.
func TestGroupHolds(t *testing.T) {
	t.Parallel()
	second := inPlaceOnly(1)
	second.Name = "twin"
	for name, tt := range map[string]struct {
		objects []client.Object
		edit    func(*clusterv1.Machine)
		want    string
	}{
		"paused":         {edit: func(m *clusterv1.Machine) { m.Annotations[clusterv1.PausedAnnotation] = "" }, want: "it or its Cluster is paused"},
		"remediating":    {edit: func(m *clusterv1.Machine) { m.Annotations[clusterv1.RemediateMachineAnnotation] = "" }, want: "it is marked for remediation"},
		"two policies":   {objects: []client.Object{inPlaceOnly(1), second}, edit: func(*clusterv1.Machine) {}, want: "UpdatePolicies"},
		"no record":      {edit: func(m *clusterv1.Machine) { m.Annotations[v1alpha1.InPlaceUpgradeAnnotation] = "{" }, want: "cannot be read"},
		"not in the API": {edit: func(m *clusterv1.Machine) { m.Status.NodeRef.Name = "" }, want: "it has no node yet"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine("a", "")
			tt.edit(m)
			w := newUpgradeWorld(t, append(tt.objects, m)...)
			w.put(newGroup(deploymentKind, "md", 1))
			w.groups = []groupKey{{deploymentKind, "md"}}
			w.register()
			w.askGroup(deploymentKind, "md", toVersion)
			for range 3 {
				w.step()
			}
			c := conditionOf(capi.Conditions(w.group(deploymentKind, "md")))
			if c == nil || c.Reason != string(request.ReasonMachinesHeld) || !strings.Contains(c.Message, tt.want) || w.marks("a").To != "" {
				t.Errorf("the condition is %+v, marks %+v", c, w.marks("a"))
			}
		})
	}
}

// TestFault5_GroupCrashAnywhere has the process die at every effect of a group's upgrade.
func TestFault5_GroupCrashAnywhere(t *testing.T) {
	t.Parallel()
	for at := 1; ; at++ {
		w := newUpgradeWorld(t, inPlaceOnly(2))
		kubelet, _ := w.register()
		w.tick = time.Minute
		w.addGroup(deploymentKind, "md", "w-0", "w-1")
		w.askGroup(deploymentKind, "md", toVersion)
		w.faults.at, w.faults.passed = at, 0
		w.untilGroupDone(deploymentKind, "md", toVersion)
		if w.faults.passed < at {
			t.Logf("died at %d points", at-1)
			return
		}
		object := w.group(deploymentKind, "md")
		if diff := cmp.Diff(map[string]int{"w-0": 1, "w-1": 1}, work(kubelet)); diff != "" || specVersion(object, false).String() != wanted || conditionOf(capi.Conditions(object)) != nil {
			t.Fatalf("died %s (point %d): spec %s, condition %+v, work (-want +got):\n%s", w.faults.what, at, specVersion(object, false), conditionOf(capi.Conditions(object)), diff)
		}
		for _, reason := range []string{"InProgress", "Done"} {
			if n := count(w.said("md"), reason); n > 1 {
				t.Fatalf("died %s: %s was said %d times", w.faults.what, reason, n)
			}
		}
	}
}

// TestGroupAtRest costs no live read where nothing was ever asked of a group.
func TestGroupAtRest(t *testing.T) {
	t.Parallel()
	w := newUpgradeWorld(t)
	w.addGroup(deploymentKind, "md", "w-0")
	w.liveReads = 0
	for _, name := range []string{"md", "gone"} {
		if result, err := w.engine.UpgradeGroup(w.quiet(), deploymentKind, keyNamed(name)); err != nil || result != (Result{}) || w.liveReads != 0 {
			t.Errorf("%s: %+v, %v, %d reads", name, result, err, w.liveReads)
		}
	}
}

// TestFault10_BrokenNodeFirst upgrades a machine whose node is not Ready before the others: that may be what fixes it.
func TestFault10_BrokenNodeFirst(t *testing.T) {
	t.Parallel()
	w := newUpgradeWorld(t)
	kubelet, _ := w.register()
	w.addGroup(deploymentKind, "md", "w-0", "w-1", "w-2")
	w.nodes.Edit(inCluster, "w-2", func(n *inplace.Node) { n.Ready, n.NotReady = false, "kubelet is down" })
	w.sync()
	if !meta.IsStatusConditionFalse(w.machine("w-2").Status.Conditions, clusterv1.MachineNodeReadyCondition) {
		t.Fatal("the node looks Ready")
	}
	kubelet.answer = func(request *runtimehooksv1.UpdateMachineRequest) inplace.Answer {
		a := kubelet.work(&request.Desired.Machine)
		w.nodes.Edit(inCluster, request.Desired.Machine.Name, func(n *inplace.Node) { n.Ready, n.NotReady = true, "" })
		return a
	}
	w.askGroup(deploymentKind, "md", toVersion)
	w.untilGroupDone(deploymentKind, "md", toVersion)
	var order []string
	for _, request := range kubelet.requests {
		order = append(order, request.Desired.Machine.Name)
	}
	if diff := cmp.Diff([]string{"w-2", "w-0", "w-1"}, slices.Compact(order)); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

func specVersion(object *unstructured.Unstructured, controlPlane bool) version.Version {
	return capi.VersionAt(object, versionPath(controlPlane)...)
}

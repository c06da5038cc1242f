package history

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/pkg/version"
)

const (
	v130 = "v1.30.0"
	v131 = "v1.31.0"
)

var key = types.NamespacedName{Namespace: "ns", Name: "c"}

// objectMeta is that of an object of the Cluster, in a group unless that is empty.
func objectMeta(name, group string) metav1.ObjectMeta {
	labels := map[string]string{clusterv1.ClusterNameLabel: key.Name}
	if group != "" {
		labels[clusterv1.ClusterTopologyMachineDeploymentNameLabel] = group
		labels[clusterv1.MachineDeploymentNameLabel] = "c-" + group + "-x"
	}
	return metav1.ObjectMeta{Namespace: key.Namespace, Name: name, UID: types.UID(name), Labels: labels, ResourceVersion: "7"}
}

func newCluster(reconciled metav1.ConditionStatus, hooks string) *clusterv1.Cluster {
	c := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{
		Namespace: key.Namespace, Name: key.Name, UID: "cluster", Annotations: map[string]string{runtimev1.PendingHooksAnnotation: hooks},
	}}
	c.Spec.Topology.Version = v131
	c.Spec.Topology.Workers.MachineDeployments = []clusterv1.MachineDeploymentTopology{{Name: "z"}, {Name: "a"}, {Name: "later"}}
	c.Status.Conditions = []metav1.Condition{{Type: clusterv1.ClusterTopologyReconciledCondition, Status: reconciled, Reason: "Why"}}
	return c
}

func newControlPlane(spec, status string) *controlplanev1.KubeadmControlPlane {
	o := &controlplanev1.KubeadmControlPlane{ObjectMeta: objectMeta("cp", "")}
	o.Spec.Version, o.Spec.Replicas = spec, new(int32(1))
	o.Status.Version = status //nolint:staticcheck // The History reads it.
	return o
}

func newGroup(name, v string, replicas int32, statuses ...string) *clusterv1.MachineDeployment {
	o := &clusterv1.MachineDeployment{ObjectMeta: objectMeta("c-"+name+"-x", name)}
	o.Spec.Template.Spec.Version, o.Spec.Replicas = v, &replicas
	for _, v := range statuses {
		o.Status.Versions = append(o.Status.Versions, clusterv1.StatusVersion{Version: v})
	}
	return o
}

func newMachine(name, group, v, kubelet string, ready metav1.ConditionStatus) *clusterv1.Machine {
	o := &clusterv1.Machine{ObjectMeta: objectMeta(name, group)}
	o.Spec.Version = v
	o.Status.Conditions = []metav1.Condition{{Type: clusterv1.MachineReadyCondition, Status: ready}}
	if kubelet != "" {
		o.Status.NodeInfo = &corev1.NodeSystemInfo{KubeletVersion: kubelet}
	}
	return o
}

func newHistory() *History {
	return &History{changed: make(chan struct{}), latest: map[types.UID]Fact{}}
}

func kindOf(o client.Object) string {
	switch o.(type) {
	case *clusterv1.Cluster:
		return KindCluster
	case *controlplanev1.KubeadmControlPlane:
		return KindControlPlane
	case *clusterv1.MachineDeployment:
		return KindGroup
	case *clusterv1.Machine:
		return KindMachine
	}
	return o.GetObjectKind().GroupVersionKind().Kind
}

func (h *History) seeAll(objects ...client.Object) {
	for _, o := range objects {
		h.see(kindOf(o), o, false)
	}
}

func TestNotReady(t *testing.T) {
	leaving := newMachine("w", "a", v130, v130, metav1.ConditionTrue)
	leaving.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	w := func(name string) client.Object { return newMachine(name, "a", v130, v130, metav1.ConditionTrue) }
	tests := []struct {
		name    string
		objects []client.Object
		part    string
		want    string
	}{
		{"a group", []client.Object{newGroup("a", v130, 2, v130), w("w0"), w("w1")}, "a", ""},
		{"a control plane", []client.Object{newControlPlane(v130, v130), newMachine("m", "", v130, v130, "True")}, "", ""},
		{"no group", []client.Object{w("w0")}, "a", "does not exist"},
		{"another spec", []client.Object{newGroup("a", v131, 1), w("w0")}, "a", "the spec of c-a-x has v1.31.0"},
		{"a status that lags", []client.Object{newGroup("a", v130, 1, v130, v131), w("w0")}, "a", "at other versions"},
		{"a control plane on its way", []client.Object{newControlPlane(v130, v131)}, "", "cp is at v1.31.0"},
		{"a machine too few", []client.Object{newGroup("a", v130, 2), w("w0")}, "a", "1 machines of 2"},
		{"a machine too many", []client.Object{newGroup("a", v130, 1), w("w0"), w("w1")}, "a", "2 machines of 1"},
		{"a machine at another version", []client.Object{newGroup("a", v130, 1), newMachine("w", "a", v131, v130, "True")}, "a", "spec v1.31.0"},
		{"another kubelet", []client.Object{newGroup("a", v130, 1), newMachine("w", "a", v130, v131, "True")}, "a", `kubelet "v1.31.0"`},
		{"no node", []client.Object{newGroup("a", v130, 1), newMachine("w", "a", v130, "", "True")}, "a", `kubelet ""`},
		{"a machine that is not ready", []client.Object{newGroup("a", v130, 1), newMachine("w", "a", v130, v130, "False")}, "a", "Status:False"},
		{"a machine that is deleted", []client.Object{newGroup("a", v130, 1), leaving}, "a", "Machine w"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := newHistory()
			h.seeAll(tt.objects...)
			got := h.Now(key).NotReady(tt.part, v130)
			if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("%q is missing, want %q", got, tt.want)
			}
		})
	}
}

func TestPending(t *testing.T) {
	for _, tt := range []struct {
		cluster *clusterv1.Cluster
		want    string
	}{
		{newCluster(metav1.ConditionTrue, ""), ""},
		{newCluster(metav1.ConditionFalse, ""), "the topology is not reconciled, Why: "},
		{newCluster(metav1.ConditionTrue, "AfterClusterUpgrade"), "hooks are pending: AfterClusterUpgrade; "},
		{&clusterv1.Cluster{ObjectMeta: objectMeta(key.Name, "")}, "the topology is not reconciled, : "},
	} {
		h := newHistory()
		h.seeAll(tt.cluster)
		if got := h.Now(key).Pending(); got != tt.want {
			t.Errorf("%q is pending, want %q", got, tt.want)
		}
	}
}

func TestParts(t *testing.T) {
	other := newMachine("other", "a", v130, v130, "True")
	other.Labels[clusterv1.ClusterNameLabel] = "d"
	template := &unstructured.Unstructured{}
	template.SetKind("Template")
	template.SetLabels(map[string]string{clusterv1.ClusterNameLabel: key.Name})
	template.SetNamespace(key.Namespace)
	alone := newGroup("", v130, 0)
	h := newHistory()
	h.seeAll(newMachine("w1", "a", v130, v130, "False"), newMachine("w0", "a", v130, v130, "True"), other, newGroup("a", v130, 2),
		newGroup("z", v131, 0), newControlPlane(v131, v131), newCluster(metav1.ConditionTrue, ""), template, alone)
	o := h.Now(key)
	type part struct {
		Name, Group, Version string
		Machines             []string
		Done                 int
	}
	var got []part
	for _, p := range o.Parts() {
		x := part{Name: p.Name, Group: p.Group, Version: p.Version, Done: p.Done()}
		for _, m := range p.Machines {
			x.Machines = append(x.Machines, m.Name)
		}
		got = append(got, x)
	}
	want := []part{
		{Name: "cp", Version: v131}, {Name: "c-z-x", Group: "z", Version: v131},
		{Name: "c-a-x", Group: "a", Version: v130, Machines: []string{"w0", "w1"}, Done: 1},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(o.Others) != 1 || o.Others[0].Kind != "Template" {
		t.Errorf("others are %+v", o.Others)
	}
	if p := o.Part(alone.Name); p.UID != alone.UID {
		t.Errorf("a MachineDeployment without a topology is not found by its name: %+v", o.Groups)
	}
}

func TestChanges(t *testing.T) {
	at := func(o client.Object, revision string) client.Object {
		o.SetResourceVersion(revision)
		return o
	}
	h := newHistory()
	heard := 0
	h.OnFact(func(Fact) { heard++ })
	h.seeAll(
		at(newControlPlane(v130, v130), "1"), at(newGroup("a", v130, 1), "2"),
		// A watch may show what came later first.
		at(newGroup("a", v131, 1), "11"), at(newControlPlane(v131, v130), "10"), at(newControlPlane(v131, v131), "12"),
	)
	from, to := version.MustParse(v130), version.MustParse(v131)
	want := []Change{
		{Cluster: key, From: from, To: to, Revision: 10}, {Cluster: key, Group: "a", From: from, To: to, Revision: 11},
	}
	if diff := cmp.Diff(want, h.Changes(key), cmpopts.IgnoreFields(Change{}, "Seen"), cmp.Comparer(func(a, b version.Version) bool { return a == b })); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var revisions []int64
	for _, f := range h.Of(key) {
		revisions = append(revisions, f.Revision)
	}
	if diff := cmp.Diff([]int64{1, 2, 10, 11, 12}, revisions); diff != "" || heard != len(revisions) {
		t.Errorf("%d facts were heard; revisions (-want +got):\n%s", heard, diff)
	}
}

func TestGone(t *testing.T) {
	h := newHistory()
	m := newMachine("m", "a", v130, v130, "True")
	h.seeAll(m)
	h.see(KindMachine, toolscache.DeletedFinalStateUnknown{Obj: m}, true)
	if o := h.Now(key); len(o.Machines) > 0 {
		t.Errorf("a Machine that is gone is still there: %+v", o.Machines)
	}
	if f := h.Machines(key.Namespace)[m.UID]; !f.Gone || !f.Deleting {
		t.Errorf("the last version of a Machine that is gone is %+v", f)
	}
	var there []int
	Replay(h.Of(key), func(_ Fact, o Objects) { there = append(there, len(o.Machines["a"])) })
	if diff := cmp.Diff([]int{1, 0}, there); diff != "" {
		t.Errorf("machines (-want +got):\n%s", diff)
	}
}

func TestUntil(t *testing.T) {
	h := newHistory()
	calls := 0
	err := h.Until(t.Context(), func() string {
		calls++
		if len(h.Now(key).Machines) > 0 {
			return ""
		}
		go h.seeAll(newMachine("m", "a", v130, v130, "True"))
		return "there is no Machine"
	})
	if err != nil || calls != 2 {
		t.Errorf("%d calls, then %v", calls, err)
	}
}

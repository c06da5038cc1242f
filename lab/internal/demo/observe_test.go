package demo

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

var (
	v130 = version.MustParse("v1.30.0")
	v131 = version.MustParse("v1.31.0")
	v132 = version.MustParse("v1.32.0")
)

func part(name string, v version.Version, replicas int32, machines ...Machine) Part {
	return Part{Name: name, Version: v, Replicas: replicas, Machines: machines}
}

func machine(uid string, v version.Version, ready bool) Machine {
	return Machine{UID: types.UID(uid), Name: uid, Version: v, Ready: ready}
}

func TestSettled(t *testing.T) {
	both := map[string]version.Version{controlPlaneName: v131, "a": v130}
	tests := []struct {
		name string
		o    Observation
		want bool
	}{
		{"everything is there", Observation{ControlPlane: part("", v131, 1, machine("c", v131, true)), Groups: []Part{part("a", v130, 1, machine("w", v130, true))}}, true},
		{"the control plane is not there", Observation{ControlPlane: part("", v130, 1, machine("c", v130, true)), Groups: []Part{part("a", v130, 1, machine("w", v130, true))}}, false},
		{"a machine is not ready", Observation{ControlPlane: part("", v131, 1, machine("c", v131, true)), Groups: []Part{part("a", v130, 1, machine("w", v130, false))}}, false},
		{"a machine is at another version", Observation{ControlPlane: part("", v131, 1, machine("c", v130, true)), Groups: []Part{part("a", v130, 1, machine("w", v130, true))}}, false},
		{"a machine is missing", Observation{ControlPlane: part("", v131, 2, machine("c", v131, true)), Groups: []Part{part("a", v130, 1, machine("w", v130, true))}}, false},
		{"a machine is too many", Observation{ControlPlane: part("", v131, 1, machine("c", v131, true), machine("old", v130, false)), Groups: []Part{part("a", v130, 1, machine("w", v130, true))}}, false},
		{"a status lags", Observation{ControlPlane: part("", v131, 1, machine("c", v131, true)), Groups: []Part{{Name: "a", Version: v130, Replicas: 1, Machines: []Machine{machine("w", v130, true)}, Mixed: true}}}, false},
		{"a group is missing", Observation{ControlPlane: part("", v131, 1, machine("c", v131, true))}, false},
		{"another group is there", Observation{ControlPlane: part("", v131, 1, machine("c", v131, true)), Groups: []Part{part("b", v130, 1, machine("w", v130, true))}}, false},
		{"nothing is there", Observation{}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.o.settled(both); got != tt.want {
				t.Errorf("settled = %t, want %t", got, tt.want)
			}
		})
	}
}

func TestFinished(t *testing.T) {
	yes := &metav1.Condition{Status: metav1.ConditionTrue}
	no := &metav1.Condition{Status: metav1.ConditionFalse}
	for _, tt := range []struct {
		o    Observation
		want bool
	}{{Observation{Reconciled: yes}, true}, {Observation{Reconciled: no}, false}, {Observation{}, false}, {Observation{Reconciled: yes, Hooks: "AfterClusterUpgrade"}, false}} {
		if got := tt.o.finished(); got != tt.want {
			t.Errorf("%+v: finished = %t, want %t", tt.o, got, tt.want)
		}
	}
}

func TestObserve(t *testing.T) {
	ready := []metav1.Condition{{Type: clusterv1.MachineReadyCondition, Status: metav1.ConditionTrue}}
	node := func(v string) *corev1.NodeSystemInfo { return &corev1.NodeSystemInfo{KubeletVersion: v} }
	replicas := int32(2)
	group := map[string]string{clusterv1.ClusterTopologyMachineDeploymentNameLabel: "a"}
	deleting := metav1.Now()
	controlPlane := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{"version": "v1.31.0", "replicas": int64(1)},
		"status": map[string]any{"conditions": []any{
			map[string]any{"type": "Available", "status": "True"},
			map[string]any{"type": v1alpha1.UpdateBlockedCondition, "status": "True", "reason": v1alpha1.NotCoveredReason, "message": "no updater covers it"},
		}},
	}}
	cluster := &clusterv1.Cluster{}
	cluster.Spec.Topology.Workers.MachineDeployments = []clusterv1.MachineDeploymentTopology{{Name: "a"}, {Name: "later"}}
	machineDeployment := clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Name: "demo-a-x", Labels: group}}
	machineDeployment.Spec.Replicas = &replicas
	machineDeployment.Spec.Template.Spec.Version = "v1.30.0"
	machineDeployment.Status.Conditions = []metav1.Condition{{Type: "Available"}, {Type: v1alpha1.UpdateBlockedCondition, Status: metav1.ConditionFalse}}
	machineDeployment.Status.Versions = []clusterv1.StatusVersion{{Version: "v1.30.0"}, {Version: "v1.29.0"}}
	newMachine := func(name, v, kubelet string, labels map[string]string, conditions []metav1.Condition, deleted *metav1.Time) clusterv1.Machine {
		m := clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: labels, DeletionTimestamp: deleted}}
		m.Spec.Version, m.Status.Conditions = v, conditions
		if kubelet != "" {
			m.Status.NodeInfo = node(kubelet)
		}
		return m
	}
	inPlace := newMachine("c0", "v1.31.0", "v1.31.0", nil, ready, nil)
	inPlace.Annotations = map[string]string{v1alpha1.LastUpdateAnnotation: `{"id":"u","to":"v1.31.0"}`}
	got, err := observe(objects{
		cluster: cluster, controlPlane: controlPlane, machineDeployments: []clusterv1.MachineDeployment{machineDeployment},
		machines: []clusterv1.Machine{
			newMachine("w4", "v1.30.0", "v1.30.0", group, ready, &deleting),
			newMachine("w3", "v1.30.0", "v1.29.0", group, ready, nil),
			newMachine("w2", "v1.30.0", "", group, ready, nil),
			newMachine("w1", "v1.30.0", "v1.30.0", group, nil, nil),
			newMachine("w0", "v1.30.0", "v1.30.0", group, ready, nil),
			inPlace,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := Observation{
		ControlPlane: part("", v131, 1, machine("c0", v131, true)),
		Groups: []Part{part("a", v130, 2,
			machine("w0", v130, true), machine("w1", v130, false), machine("w2", v130, false), machine("w3", v130, false), machine("w4", v130, false))},
	}
	want.Groups[0].Mixed = true
	want.Groups[0].Blocked = &metav1.Condition{Type: v1alpha1.UpdateBlockedCondition, Status: metav1.ConditionFalse}
	want.ControlPlane.Machines[0].Last = &inplace.Summary{ID: "u", To: v131}
	want.ControlPlane.Blocked = &metav1.Condition{
		Type: v1alpha1.UpdateBlockedCondition, Status: metav1.ConditionTrue, Reason: v1alpha1.NotCoveredReason, Message: "no updater covers it",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
}

func TestRecorder(t *testing.T) {
	at := func(controlPlane, a, b version.Version, machines ...Machine) Observation {
		return Observation{ControlPlane: part("", controlPlane, 1), Groups: []Part{part("a", a, 1, machines...), part("b", b, 1)}}
	}
	r := NewRecorder(at(v130, v130, v130, machine("old", v130, true)))
	var changes [][]Change
	for _, o := range []Observation{
		at(v131, v130, v130, machine("old", v130, true)),
		at(v131, v130, v130, machine("old", v130, true)),
		at(v131, v131, v130, machine("old", v130, true), machine("new", v131, false)),
		at(v131, v131, v131, machine("new", v131, true)),
		at(v132, v131, v131, machine("new", v131, true)),
		at(v132, v132, v132, machine("newest", v132, true)),
	} {
		changes = append(changes, r.Observe(o))
	}
	wantChanges := [][]Change{
		{{From: v130, To: v131}}, nil, {{Name: "a", From: v130, To: v131}}, {{Name: "b", From: v130, To: v131}},
		{{From: v131, To: v132}}, {{Name: "a", From: v131, To: v132}, {Name: "b", From: v131, To: v132}},
	}
	if diff := cmp.Diff(wantChanges, changes); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	want := []plan.Operation{
		{Kind: plan.ControlPlaneUpgrade, From: v130, To: v131},
		{Kind: plan.WorkersUpgrade, Groups: []string{"a", "b"}, From: v130, To: v131},
		{Kind: plan.ControlPlaneUpgrade, From: v131, To: v132},
		{Kind: plan.WorkersUpgrade, Groups: []string{"a", "b"}, From: v131, To: v132},
	}
	if diff := cmp.Diff(want, r.Operations()); diff != "" {
		t.Errorf("operations (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int{"a": 2}, r.Created()); diff != "" {
		t.Errorf("created (-want +got):\n%s", diff)
	}
}

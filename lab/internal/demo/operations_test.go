package demo

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/lab/internal/history"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

var (
	v130 = version.MustParse("v1.30.0")
	v131 = version.MustParse("v1.31.0")
	v132 = version.MustParse("v1.32.0")
)

func part(name string, v version.Version, replicas int32, machines ...history.Fact) history.Part {
	return history.Part{Fact: history.Fact{Group: name, Version: v.String(), Replicas: replicas}, Machines: machines}
}

// machine is one that is ready at a version; or, where it is not ready, whose kubelet does not report anything yet.
func machine(uid string, v version.Version, ready bool) history.Fact {
	m := &clusterv1.Machine{Status: clusterv1.MachineStatus{Conditions: []metav1.Condition{{Type: clusterv1.MachineReadyCondition, Status: metav1.ConditionTrue}}}}
	f := history.Fact{UID: types.UID(uid), Name: uid, Version: v.String(), Object: m}
	if ready {
		f.Reported = f.Version
	}
	return f
}

// objectsOf are those of a control plane and groups, in this order.
func objectsOf(parts ...history.Part) history.Objects {
	cluster := &clusterv1.Cluster{}
	o := history.Objects{Cluster: history.Fact{Object: cluster}, Groups: map[string]history.Fact{}, Machines: map[string][]history.Fact{}}
	for _, p := range parts {
		o.Machines[p.Group] = p.Machines
		if p.Group == controlPlaneName {
			o.ControlPlane = p.Fact
			continue
		}
		o.Groups[p.Group] = p.Fact
		list := &cluster.Spec.Topology.Workers.MachineDeployments
		*list = append(*list, clusterv1.MachineDeploymentTopology{Name: p.Group})
	}
	return o
}

func TestStageMissing(t *testing.T) {
	there := func(name string, v version.Version) history.Part {
		p := part(name, v, 1, machine("m"+name, v, true))
		p.UID, p.Reported = types.UID("o"+name), v.String()
		return p
	}
	s := stage{versions: map[string]version.Version{controlPlaneName: v131, "a": v130}}
	finished := stage{versions: s.versions, finished: true}
	for _, tt := range []struct {
		name  string
		stage stage
		o     history.Objects
		want  bool
	}{
		{"everything is there", s, objectsOf(there("", v131), there("a", v130)), true},
		{"the control plane is not there", s, objectsOf(there("", v130), there("a", v130)), false},
		{"a group is missing", s, objectsOf(there("", v131)), false},
		{"a group is too many", s, objectsOf(there("", v131), there("a", v130), there("b", v130)), false},
		{"another group is there", s, objectsOf(there("", v131), there("b", v130)), false},
		{"Cluster API has not finished", finished, objectsOf(there("", v131), there("a", v130)), false},
		{"nothing is there", s, objectsOf(), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if missing := tt.stage.missing(tt.o); (missing == "") != tt.want {
				t.Errorf("missing is %q", missing)
			}
		})
	}
}

func TestComputeOperations(t *testing.T) {
	got := computeOperations([]history.Change{
		{From: v130, To: v131}, {Group: "a", From: v130, To: v131}, {Group: "b", From: v130, To: v131},
		{From: v131, To: v132}, {Group: "a", From: v131, To: v132}, {Group: "b", From: v130, To: v132},
	})
	want := []plan.Operation{
		{Kind: plan.ControlPlaneUpgrade, From: v130, To: v131},
		{Kind: plan.WorkersUpgrade, Groups: []string{"a", "b"}, From: v130, To: v131},
		{Kind: plan.ControlPlaneUpgrade, From: v131, To: v132},
		{Kind: plan.WorkersUpgrade, Groups: []string{"a"}, From: v131, To: v132},
		{Kind: plan.WorkersUpgrade, Groups: []string{"b"}, From: v130, To: v132},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCensus(t *testing.T) {
	is := func(name string, deleting bool) history.Fact { return history.Fact{Name: name, Deleting: deleting} }
	before := census{"1": is("old", false), "2": is("leaving", true)}
	// One comes and goes at once, one comes with the name of another, and one goes.
	now := census{"1": is("old", true), "2": is("leaving", true), "3": is("brief", true), "4": is("old", false)}
	created, deleted := now.since(before)
	if diff := cmp.Diff([][]string{{"brief", "old"}, {"brief", "old"}}, [][]string{names(created), names(deleted)}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if created, deleted := before.since(before); len(created)+len(deleted) > 0 {
		t.Errorf("nothing happened, but %v came and %v went", created, deleted)
	}
}

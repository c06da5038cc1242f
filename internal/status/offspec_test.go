package status

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/chain"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/pkg/version"
)

func kubelet(text string) func(*clusterv1.Machine) {
	return func(m *clusterv1.Machine) { m.Status.NodeInfo = &corev1.NodeSystemInfo{KubeletVersion: text} }
}

// TestOffSpec checks which machines count as brought to another version by an annotation, and that these are at rest.
func TestOffSpec(t *testing.T) {
	finishing := condition("UpToDate", metav1.ConditionFalse, clusterv1.MachineUpToDateUpdatingReason, "* v1.32.1 required")
	byAnnotation := mark("release", patch, "status", "done")
	for _, test := range []struct {
		name   string
		change []func(*clusterv1.Machine)
		want   bool
		state  State
	}{
		{"at rest", nil, true, UpToDate},
		{"after an earlier update", []func(*clusterv1.Machine){withAnnotation(t, v1alpha1.LastUpdateAnnotation, summary())}, true, UpToDate},
		{"of a release without a version", []func(*clusterv1.Machine){mark("release", "revision=7")}, true, UpToDate},
		{"another is refused", []func(*clusterv1.Machine){mark("to", patch), refusedUpgrade(t)}, true, UpToDate},
		{"another is under way", []func(*clusterv1.Machine){upgrading(t, patch, inplace.Draining)}, false, Updating},
		{"a change may run", []func(*clusterv1.Machine){mark("status", "in-progress", "change-id", "12")}, false, Updating},
		{"the record cannot be read", []func(*clusterv1.Machine){raw(v1alpha1.InPlaceUpgradeAnnotation, "{")}, false, Updating},
		{"not by annotation", []func(*clusterv1.Machine){mark("release", "")}, false, Updating},
		{"another version than its release", []func(*clusterv1.Machine){mark("release", other)}, false, Updating},
		{"no option", []func(*clusterv1.Machine){mark("release", "v1.32.4")}, false, Updating},
		{"the version of its spec", []func(*clusterv1.Machine){kubelet("v1.32.1")}, false, Updating},
		{"no version", []func(*clusterv1.Machine){kubelet("custom")}, false, Updating},
		{"no node", []func(*clusterv1.Machine){func(m *clusterv1.Machine) { m.Status.NodeInfo = nil }}, false, Updating},
		{"Cluster API updates it", []func(*clusterv1.Machine){condition("Updating", metav1.ConditionTrue, "InPlaceUpdating", "")}, false, Updating},
		{"Cluster API has marked it", []func(*clusterv1.Machine){marked}, false, Marked},
		{"deleting", []func(*clusterv1.Machine){deleting}, false, Deleting},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := machine("m-1", append([]func(*clusterv1.Machine){finishing, byAnnotation, kubelet("v1.32.4")}, test.change...)...)
			before := m.DeepCopy()
			r := Compute(facts(m), start)
			if got := len(r.OffSpec) == 1; got != test.want || r.Machines[0].State != test.state {
				t.Errorf("off its spec is %t, want %t; it is %s, want %s", got, test.want, r.Machines[0].State, test.state)
			}
			if diff := cmp.Diff(before, m); diff != "" {
				t.Errorf("the Machine was changed:\n%s", diff)
			}
		})
	}
}

// TestChainOffSpec checks that an upgrade is over although annotations brought nodes to another version, and what is said of them.
func TestChainOffSpec(t *testing.T) {
	upgraded := func(target string) Facts {
		f := upgrade{
			target: target, controlPlane: "v1.30.0", members: repeat(1, "v1.30.0"), groups: []testGroup{{name: "md-0", template: "v1.30.0", kubelets: repeat(2, "v1.30.0")}},
			reason: chain.ClusterUpgrading, message: "Cluster is upgrading to v1.30.0\n  * MachineDeployment prod-md-0 upgrading to version v1.30.0",
		}.facts(t)
		for _, m := range f.Machines[:2] {
			m.Annotations[prefix+"release"] = "version=v1.30.7"
			kubelet("v1.30.7")(m)
		}
		f.Machines[0].Labels[clusterv1.ClusterTopologyOwnedLabel] = ""
		f.Machines[1].Labels[clusterv1.ClusterTopologyOwnedLabel] = ""
		f.Machines[1].Labels[clusterv1.MachineDeploymentNameLabel] = "prod-md-0"
		return f
	}
	r := Compute(upgraded("v1.30.0"), start)
	if diff := cmp.Diff([]string{"UpToDate by ClusterAPI: everything is at v1.30.0"}, texts(*r.Chain)); diff != "" || r.Chain.OffSpec != 2 {
		t.Errorf("%d are off their spec, want 2; the upgrade (-want +got):\n%s", r.Chain.OffSpec, diff)
	}
	runs, spec := version.MustParse("v1.30.7"), version.MustParse("v1.30.0")
	const says = "runs v1.30.7 by annotation, its spec says v1.30.0"
	text := says + "; Cluster API treats it as upgrading, and refuses another spec.topology.version " +
		"until it runs v1.30.0 again: windlass upgrade machine md-0-0-0 -n team-a --to with a release of that version"
	want := []OffSpec{
		{Machine: "cp-0", Group: ControlPlaneGroup, Runs: runs, Spec: spec, Message: says},
		{Machine: "md-0-0-0", Group: "md-0", Runs: runs, Spec: spec, Blocks: true, Message: text},
	}
	if diff := cmp.Diff(want, r.OffSpec); diff != "" {
		t.Errorf("off their spec (-want +got):\n%s", diff)
	}
	if got := Compute(upgraded("v1.31.0"), start).Chain; got.State != ChainUpgrading || got.OffSpec != 0 {
		t.Errorf("with another target it is %s, and %d are left out", got.State, got.OffSpec)
	}
}

package snapshot

import (
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/policy"
)

func TestVersionPatch(t *testing.T) {
	inline := func(match clusterv1.PatchSelectorMatch, from clusterv1.JSONPatchValue) clusterv1.ClusterClassPatch {
		return clusterv1.ClusterClassPatch{Name: "p", Definitions: []clusterv1.PatchDefinition{{
			Selector: clusterv1.PatchSelector{MatchResources: match}, JSONPatches: []clusterv1.JSONPatch{{ValueFrom: &from}},
		}}}
	}
	controlPlane := clusterv1.PatchSelectorMatch{ControlPlane: new(true)}
	workers := func(names ...string) clusterv1.PatchSelectorMatch {
		return clusterv1.PatchSelectorMatch{MachineDeploymentClass: &clusterv1.PatchSelectorMatchMachineDeploymentClass{Names: names}}
	}
	template := clusterv1.JSONPatchValue{Template: "version: {{ .builtin.machineDeployment.version }}"}
	variable := clusterv1.JSONPatchValue{Variable: "builtin.controlPlane.version"}
	other := clusterv1.JSONPatchValue{Variable: "imageVersion"}
	conditional := inline(controlPlane, other)
	conditional.EnabledIf = `{{ semverCompare ">= v1.31" .builtin.controlPlane.version }}`
	for _, test := range []struct {
		name                   string
		patch                  clusterv1.ClusterClassPatch
		controlPlane, pool, md bool
	}{
		{"a variable", inline(controlPlane, variable), true, false, false},
		{"a template", inline(workers("gpu"), template), false, true, false},
		{"all classes", inline(workers("*"), template), false, true, true},
		{"classes that begin so", inline(workers("w*"), template), false, false, true},
		{"classes that end so", inline(workers("*pu"), template), false, true, false},
		{"a variable of the user's", inline(controlPlane, other), false, false, false},
		{"only for some versions", conditional, true, false, false},
		{"of other objects", inline(clusterv1.PatchSelectorMatch{InfrastructureCluster: new(true)}, variable), false, false, false},
		{"external", clusterv1.ClusterClassPatch{Name: "p", External: &clusterv1.ExternalPatchDefinition{}}, true, true, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			class := &clusterv1.ClusterClass{}
			class.Spec.Patches = []clusterv1.ClusterClassPatch{{Name: "none"}, test.patch}
			for _, group := range []struct {
				name string
				g    UpdateGroup
				want bool
			}{
				{"control plane", UpdateGroup{Group: policy.Group{ControlPlane: true}}, test.controlPlane},
				{"gpu", UpdateGroup{InTopology: &clusterv1.MachineDeploymentTopology{Class: "gpu"}}, test.pool},
				{"worker", UpdateGroup{InTopology: &clusterv1.MachineDeploymentTopology{Class: "worker"}}, test.md},
				{"not of the topology", UpdateGroup{}, test.patch.External != nil},
			} {
				want := ""
				if group.want {
					want = "p"
				}
				if got := VersionPatch(class, group.g); got != want {
					t.Errorf("%s: VersionPatch is %q, want %q", group.name, got, want)
				}
				if got := VersionPatch(nil, group.g); got != "" {
					t.Errorf("%s without a class: %q", group.name, got)
				}
			}
		})
	}
}

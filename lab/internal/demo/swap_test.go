package demo

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/windlass-dev/windlass/internal/manifest"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// userObjects reads the manifests that the end-to-end test upgrades too.
func userObjects(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	objects, err := manifest.ReadObjects([]string{"../../test/e2e/chain/testdata"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

func TestFromObjects(t *testing.T) {
	objects := userObjects(t)
	before := make([]*unstructured.Unstructured, 0, len(objects))
	for _, o := range objects {
		before = append(before, o.DeepCopy())
	}
	s, err := FromObjects(objects, version.MustParse("v1.33.6"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, objects); diff != "" {
		t.Errorf("the manifests changed:\n%s", diff)
	}
	wantNotices := []string{
		`upgrade plans come from windlass and the UpgradeGraph, not from the extension "plans.acme"`,
		"infrastructure is simulated: DevCluster and DevMachine stand for AcmeCluster and AcmeMachine",
		"the manifests do not hold AcmeClusterTemplate standard, which ClusterClass standard names",
		"the manifests do not hold AcmeMachineTemplate standard-control-plane, which ClusterClass standard names",
		"file /etc/kubernetes/cloud.conf is left out: its content is in a Secret",
		"patch machine-zone is left out where it is about infrastructure",
	}
	if diff := cmp.Diff(wantNotices, s.Notices); diff != "" {
		t.Errorf("notices (-want +got):\n%s", diff)
	}
	var kinds []string
	for _, o := range s.Objects {
		kinds = append(kinds, o.GetKind()+" "+o.GetName())
		text, err := o.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "Acme") || strings.Contains(string(text), "cloud.conf") {
			t.Errorf("%s still needs what is not here: %s", o.GetName(), text)
		}
	}
	wantKinds := []string{
		"UpgradeGraph standard", "DevClusterTemplate simulated-cluster", "DevMachineTemplate simulated-control-plane", "DevMachineTemplate simulated-worker",
		"KubeadmConfigTemplate plain-bootstrap", "KubeadmControlPlaneTemplate standard", "KubeadmConfigTemplate standard-worker", "ClusterClass standard",
	}
	if diff := cmp.Diff(wantKinds, kinds); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
	if s.Namespace != "classes" || s.Cluster.Spec.Topology.ClassRef.Namespace != "" || s.Cluster.Labels["team"] != "platform" {
		t.Errorf("namespace %q, class in %q, labels %v", s.Namespace, s.Cluster.Spec.Topology.ClassRef.Namespace, s.Cluster.Labels)
	}
}

func TestFromObjectsOnHosts(t *testing.T) {
	objects := userObjects(t)
	for _, o := range objects {
		if o.GetKind() != "KubeadmConfigTemplate" {
			continue
		}
		config := map[string]any{
			"format": "ignition", "ntp": map[string]any{"enabled": true}, "preKubeadmCommands": []any{"apt-get update"},
			"joinConfiguration": map[string]any{"nodeRegistration": map[string]any{"kubeletExtraArgs": []any{
				map[string]any{"name": "cloud-provider", "value": "external"}, map[string]any{"name": "v", "value": "4"},
			}}},
		}
		if err := unstructured.SetNestedMap(o.Object, config, "spec", "template", "spec"); err != nil {
			t.Fatal(err)
		}
	}
	s, err := FromObjectsOnHosts(objects, version.MustParse("v1.33.6"))
	if err != nil {
		t.Fatal(err)
	}
	wantNotices := []string{
		`upgrade plans come from windlass and the UpgradeGraph, not from the extension "plans.acme"`,
		"infrastructure is on this machine: HostCluster and HostMachine stand for AcmeCluster and AcmeMachine",
		"the manifests do not hold AcmeClusterTemplate standard, which ClusterClass standard names",
		"the manifests do not hold AcmeMachineTemplate standard-control-plane, which ClusterClass standard names",
		"file /etc/kubernetes/cloud.conf is left out: its content is in a Secret",
		"format of a kubeadm config is left out: hosts read cloud-config",
		"the argument cloud-provider is left out: hosts are in no cloud",
		"ntp of a kubeadm config is left out: hosts have the clock of this machine",
		"preKubeadmCommands of a kubeadm config is left out: commands for your image may not exist on hosts",
		"patch machine-zone is left out where it is about infrastructure",
	}
	if diff := cmp.Diff(wantNotices, s.Notices); diff != "" {
		t.Errorf("notices (-want +got):\n%s", diff)
	}
	for _, o := range s.Objects {
		text, err := o.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if o.GetKind() == "KubeadmConfigTemplate" && o.GetName() == "standard-worker" {
			const want = `{"joinConfiguration":{"nodeRegistration":{"kubeletExtraArgs":[{"name":"v","value":"4"}]}}}`
			if !strings.Contains(string(text), want) {
				t.Errorf("the workers' template is %s, want %s", text, want)
			}
		}
		if strings.Contains(string(text), "Acme") || strings.Contains(string(text), "Dev") {
			t.Errorf("%s needs other infrastructure: %s", o.GetName(), text)
		}
	}
	if diff := cmp.Diff(&Real{Replaced: []string{"", "blue"}}, s.Real); diff != "" {
		t.Errorf("what is replaced (-want +got):\n%s", diff)
	}
}

func TestAdaptToHostsLeavesNothingEmpty(t *testing.T) {
	cloud := map[string]any{"nodeRegistration": map[string]any{"kubeletExtraArgs": []any{map[string]any{"name": "cloud-provider"}}}}
	for name, c := range map[string]struct{ spec, want map[string]any }{
		"a worker": {
			map[string]any{"template": map[string]any{"spec": map[string]any{"joinConfiguration": cloud}}},
			map[string]any{"template": map[string]any{"spec": map[string]any{"format": "cloud-config"}}},
		},
		"a control plane": {
			map[string]any{"kubeadmConfigSpec": map[string]any{"ntp": map[string]any{}, "joinConfiguration": cloud, "verbosity": int64(4)}},
			map[string]any{"kubeadmConfigSpec": map[string]any{"verbosity": int64(4)}},
		},
		"what was empty stays": {
			map[string]any{"files": []any{}, "format": "cloud-config"}, map[string]any{"files": []any{}, "format": "cloud-config"},
		},
	} {
		spec := (&unstructured.Unstructured{Object: c.spec}).DeepCopy().Object
		if diff := cmp.Diff(any(c.want), adaptToHosts(spec, func(string, ...any) {})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestFromObjectsRefuses(t *testing.T) {
	without := func(kind string) func(*testing.T, []*unstructured.Unstructured) []*unstructured.Unstructured {
		return func(_ *testing.T, objects []*unstructured.Unstructured) []*unstructured.Unstructured {
			return slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == kind })
		}
	}
	set := func(kind string, value any, fields ...string) func(*testing.T, []*unstructured.Unstructured) []*unstructured.Unstructured {
		return func(t *testing.T, objects []*unstructured.Unstructured) []*unstructured.Unstructured {
			t.Helper()
			for _, o := range objects {
				if o.GetKind() == kind {
					if err := unstructured.SetNestedField(o.Object, value, fields...); err != nil {
						t.Fatal(err)
					}
				}
			}
			return objects
		}
	}
	tests := []struct {
		name   string
		target string
		change func(*testing.T, []*unstructured.Unstructured) []*unstructured.Unstructured
		says   string
	}{
		{"no target", "", nil, "--to"},
		{"no Cluster", "v1.33.6", without("Cluster"), "hold 0 Clusters"},
		{"no ClusterClass", "v1.33.6", without("ClusterClass"), "do not hold ClusterClass standard"},
		{"no UpgradeGraph for an extension", "v1.33.6", without("UpgradeGraph"), `the extension "plans.acme", which does not run here`},
		{"a template is missing", "v1.33.6", without("KubeadmConfigTemplate"), "do not hold KubeadmConfigTemplate standard-worker"},
		{"an old API version", "v1.33.6", set("ClusterClass", "cluster.x-k8s.io/v1beta1", "apiVersion"), "the lab reads v1beta2 only"},
		{"an unknown field", "v1.33.6", set("Cluster", true, "spec", "topologie"), `unknown field "spec.topologie"`},
		{"another control plane", "v1.33.6", set("ClusterClass", "RKE2ControlPlaneTemplate", "spec", "controlPlane", "templateRef", "kind"), "KubeadmControlPlaneTemplate only"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			objects := userObjects(t)
			if tt.change != nil {
				objects = tt.change(t, objects)
			}
			var target version.Version
			if tt.target != "" {
				target = version.MustParse(tt.target)
			}
			if _, err := FromObjects(objects, target); err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %v; want an error that says %q", err, tt.says)
			}
		})
	}
}

func TestStages(t *testing.T) {
	s, err := Default()
	if err != nil {
		t.Fatal(err)
	}
	stages, err := s.computeStages()
	if err != nil {
		t.Fatal(err)
	}
	type row struct {
		Version string
		Groups  []string
		Settled map[string]version.Version
	}
	var rows []row
	for _, stage := range stages {
		r := row{Version: stage.cluster.Spec.Topology.Version, Settled: stage.versions}
		for _, md := range stage.cluster.Spec.Topology.Workers.MachineDeployments {
			r.Groups = append(r.Groups, md.Name)
		}
		rows = append(rows, r)
	}
	v28, v29 := version.MustParse("v1.28.15"), version.MustParse("v1.29.14")
	want := []row{
		{"v1.28.15", []string{"general", "batch"}, map[string]version.Version{"": v28, "general": v28, "batch": v28}},
		{"v1.29.14", []string{"general", "batch"}, map[string]version.Version{"": v29, "general": v28, "batch": v28}},
		{"v1.29.14", []string{"general", "batch", "edge"}, map[string]version.Version{"": v29, "general": v28, "batch": v28, "edge": v29}},
	}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if upgraded := s.upgraded(); upgraded.Spec.Topology.Version != "v1.33.6" || len(upgraded.Spec.Topology.Workers.MachineDeployments[0].Metadata.Annotations) != 0 {
		t.Errorf("the upgrade starts with %+v", upgraded.Spec.Topology)
	}
}

func TestRequest(t *testing.T) {
	s, err := Default()
	if err != nil {
		t.Fatal(err)
	}
	request, err := s.Request()
	if err != nil {
		t.Fatal(err)
	}
	planned, err := plan.Compute(request)
	if err != nil {
		t.Fatal(err)
	}
	want := []version.Version{version.MustParse("v1.31.14"), version.MustParse("v1.33.6")}
	if diff := cmp.Diff(want, planned.Workers); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	user, err := FromObjects(userObjects(t), version.MustParse("v1.35.0"))
	if err != nil {
		t.Fatal(err)
	}
	if request, err = user.Request(); err != nil {
		t.Fatal(err)
	}
	if _, err := plan.Compute(request); err == nil || !strings.Contains(err.Error(), "the upgrade graph does not offer it") {
		t.Errorf("a version that is not there gives %v", err)
	}
}

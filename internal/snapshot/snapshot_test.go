package snapshot

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

var v = version.MustParse

func cluster(topologyVersion string, deployments, pools []string) *clusterv1.Cluster {
	c := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}}
	c.Spec.Topology.Version = topologyVersion
	c.Spec.Topology.ClassRef.Name = "class"
	for _, name := range deployments {
		c.Spec.Topology.Workers.MachineDeployments = append(c.Spec.Topology.Workers.MachineDeployments, clusterv1.MachineDeploymentTopology{Name: name})
	}
	for _, name := range pools {
		c.Spec.Topology.Workers.MachinePools = append(c.Spec.Topology.Workers.MachinePools, clusterv1.MachinePoolTopology{Name: name})
	}
	return c
}

func controlPlane(spec string, status map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{
		"kind": "KubeadmControlPlane", "metadata": map[string]any{"namespace": "ns", "name": "cp"},
		"spec": map[string]any{"version": spec},
	}}
	if status != nil {
		o.Object["status"] = status
	}
	return o
}

func statusVersions(versions ...string) []clusterv1.StatusVersion {
	var list []clusterv1.StatusVersion
	for _, version := range versions {
		list = append(list, clusterv1.StatusVersion{Version: version, Replicas: 1})
	}
	return list
}

func deployment(topology, template string, reported ...string) *clusterv1.MachineDeployment {
	md := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c-" + topology}}
	if topology != "" {
		md.Labels = map[string]string{clusterv1.ClusterTopologyMachineDeploymentNameLabel: topology}
	}
	md.Spec.Template.Spec.Version, md.Spec.Replicas = template, new(int32(0))
	md.Status.Versions = statusVersions(reported...)
	return md
}

func pool(topology, template string, reported ...string) *clusterv1.MachinePool {
	mp := &clusterv1.MachinePool{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c-" + topology}}
	mp.Labels = map[string]string{clusterv1.ClusterTopologyMachinePoolNameLabel: topology}
	mp.Spec.Template.Spec.Version = template
	mp.Status.Versions = statusVersions(reported...)
	return mp
}

func machine(name, label, topology, spec, kubelet string) *clusterv1.Machine {
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{label: topology}}}
	m.Spec.Version = spec
	if kubelet != "" {
		m.Status.NodeInfo = &corev1.NodeSystemInfo{KubeletVersion: kubelet}
	}
	return m
}

func group(name string, kind plan.GroupKind, at string) plan.Group {
	return plan.Group{Name: name, Kind: kind, Version: v(at)}
}

func TestTakeControlPlane(t *testing.T) {
	moving := map[string]any{"versions": []any{map[string]any{"version": "v1.30.3"}, map[string]any{"version": "v1.31.2"}}}
	for _, test := range []struct {
		name     string
		object   *unstructured.Unstructured
		override version.Version
		want     State
	}{
		{name: "no object: what the topology says", want: State{Inventory: plan.Inventory{ControlPlane: v("v1.33.0")}, Assumed: true}},
		{name: "the object's spec", object: controlPlane("1.31.2", nil), want: State{Inventory: plan.Inventory{ControlPlane: v("v1.31.2")}}},
		{name: "at rest", object: controlPlane("v1.31.2", map[string]any{"version": "v1.31.2"}), want: State{Inventory: plan.Inventory{ControlPlane: v("v1.31.2")}}},
		{
			name: "moving, by status.versions", object: controlPlane("v1.31.2", moving),
			want: State{Inventory: plan.Inventory{ControlPlane: v("v1.31.2")}, Moving: v("v1.30.3")},
		},
		{
			name: "moving, by status.version", object: controlPlane("v1.31.2", map[string]any{"version": "v1.30.3"}),
			want: State{Inventory: plan.Inventory{ControlPlane: v("v1.31.2")}, Moving: v("v1.30.3")},
		},
		{
			name: "at rest, in k0s's words", object: controlPlane("v1.31.2", map[string]any{"version": "v1.31.2-k0s.0"}),
			want: State{Inventory: plan.Inventory{ControlPlane: v("v1.31.2")}},
		},
		{
			name: "moving between builds of RKE2", object: controlPlane("v1.31.2+rke2r2", map[string]any{"version": "v1.31.2+rke2r1"}),
			want: State{Inventory: plan.Inventory{ControlPlane: v("v1.31.2+rke2r2")}, Moving: v("v1.31.2+rke2r1")},
		},
		{
			name: "status.versions of another shape", object: controlPlane("v1.31.2", map[string]any{"versions": []any{"v1.30.3"}}),
			want: State{Inventory: plan.Inventory{ControlPlane: v("v1.31.2")}},
		},
		{
			name: "overridden, so not read", object: controlPlane("nonsense", nil), override: v("v1.29.0"),
			want: State{Inventory: plan.Inventory{ControlPlane: v("v1.29.0")}},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := Take(Objects{Cluster: cluster("v1.33.0", nil, nil), ControlPlane: test.object}, Overrides{ControlPlane: test.override})
			if err != nil {
				t.Fatalf("Take: %v", err)
			}
			test.want.Target, got.Refs = v("v1.33.0"), nil
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(version.Version{})); diff != "" {
				t.Errorf("Take (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTakeWorkersUpgrading(t *testing.T) {
	const hooks, step = "runtime.cluster.x-k8s.io/pending-hooks", clusterv1.ClusterTopologyUpgradeStepAnnotation
	for _, test := range []struct {
		name        string
		annotations map[string]string
		want        bool
	}{
		{name: "no upgrade"},
		{name: "other hooks are pending", annotations: map[string]string{hooks: "AfterClusterUpgrade,AfterControlPlaneUpgrade"}},
		{name: "a hook with a longer name", annotations: map[string]string{hooks: "AfterWorkersUpgradeNotReally"}},
		{name: "pending, step not recorded", annotations: map[string]string{hooks: "AfterClusterUpgrade,AfterWorkersUpgrade"}, want: true},
		{name: "pending for this step", annotations: map[string]string{hooks: "AfterWorkersUpgrade", step: "v1.31.2"}, want: true},
		{name: "pending for a step that the control plane has not begun", annotations: map[string]string{hooks: "AfterWorkersUpgrade", step: "v1.32.1"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := cluster("v1.33.0", nil, nil)
			c.Annotations = test.annotations
			got, err := Take(Objects{Cluster: c, ControlPlane: controlPlane("v1.31.2", nil)}, Overrides{})
			if err != nil || got.Inventory.WorkersUpgrading != test.want {
				t.Errorf("WorkersUpgrading is %v (error %v), want %v", got.Inventory.WorkersUpgrading, err, test.want)
			}
		})
	}
}

func TestTakeGroups(t *testing.T) {
	const mdLabel, mpLabel = clusterv1.ClusterTopologyMachineDeploymentNameLabel, clusterv1.ClusterTopologyMachinePoolNameLabel
	for _, test := range []struct {
		name      string
		objects   Objects
		overrides []plan.Group
		want      []plan.Group
		unmanaged []string
	}{
		{name: "no workers", objects: Objects{Cluster: cluster("v1.33.0", nil, nil)}},
		{
			name: "in the topology's order, whatever the order of the objects",
			objects: Objects{
				Cluster:            cluster("v1.33.0", []string{"b", "a"}, []string{"p"}),
				MachineDeployments: []*clusterv1.MachineDeployment{deployment("a", "v1.30.0"), deployment("b", "v1.31.0")},
				MachinePools:       []*clusterv1.MachinePool{pool("p", "v1.29.0")},
			},
			want: []plan.Group{group("b", plan.MachineDeployment, "v1.31.0"), group("a", plan.MachineDeployment, "v1.30.0"), group("p", plan.MachinePool, "v1.29.0")},
		},
		{
			name:    "without an object a group is at the control plane's version, not at the target",
			objects: Objects{Cluster: cluster("v1.33.0", []string{"new"}, nil)},
			want:    []plan.Group{group("new", plan.MachineDeployment, "v1.31.2")},
		},
		{
			name: "machines lag behind the template",
			objects: Objects{
				Cluster:            cluster("v1.33.0", []string{"a"}, []string{"p"}),
				MachineDeployments: []*clusterv1.MachineDeployment{deployment("a", "v1.31.2", "v1.29.0", "v1.31.2")},
				MachinePools:       []*clusterv1.MachinePool{pool("p", "v1.31.2", "v1.31.2-eks-7f9249a", "not-a-version", "v1.30.9-eks-1")},
			},
			want: []plan.Group{group("a", plan.MachineDeployment, "v1.29.0"), group("p", plan.MachinePool, "v1.30.9-eks-1")},
		},
		{
			name: "machines ahead of the template do not count",
			objects: Objects{
				Cluster:            cluster("v1.33.0", []string{"a"}, nil),
				MachineDeployments: []*clusterv1.MachineDeployment{deployment("a", "v1.30.0", "v1.31.2")},
			},
			want: []plan.Group{group("a", plan.MachineDeployment, "v1.30.0")},
		},
		{
			name: "Machines count where the status has no versions: the kubelet's before the spec's",
			objects: Objects{
				Cluster:            cluster("v1.33.0", []string{"a", "b"}, []string{"p"}),
				MachineDeployments: []*clusterv1.MachineDeployment{deployment("a", "v1.31.2"), deployment("b", "v1.31.2", "v1.31.2")},
				MachinePools:       []*clusterv1.MachinePool{pool("p", "v1.31.2")},
				Machines: []*clusterv1.Machine{
					machine("m1", mdLabel, "a", "v1.31.2", "v1.30.0"), machine("m2", mdLabel, "a", "v1.31.2", ""),
					machine("m3", mdLabel, "b", "v1.29.0", ""), machine("m4", mpLabel, "p", "v1.30.1", ""), machine("m5", mdLabel, "", "v1.20.0", ""),
				},
			},
			want: []plan.Group{group("a", plan.MachineDeployment, "v1.30.0"), group("b", plan.MachineDeployment, "v1.31.2"), group("p", plan.MachinePool, "v1.30.1")},
		},
		{
			name: "a pool with the name of a deployment",
			objects: Objects{
				Cluster:            cluster("v1.33.0", []string{"a"}, []string{"a"}),
				MachineDeployments: []*clusterv1.MachineDeployment{deployment("a", "v1.30.0")},
				MachinePools:       []*clusterv1.MachinePool{pool("a", "v1.29.0")},
			},
			want: []plan.Group{group("a", plan.MachineDeployment, "v1.30.0"), group("MachinePool/a", plan.MachinePool, "v1.29.0")},
		},
		{
			name: "what is not part of the topology is reported",
			objects: Objects{
				Cluster:            cluster("v1.33.0", []string{"a"}, nil),
				MachineDeployments: []*clusterv1.MachineDeployment{deployment("", "v1.20.0"), deployment("gone", "v1.20.0"), deployment("a", "v1.30.0")},
			},
			want:      []plan.Group{group("a", plan.MachineDeployment, "v1.30.0")},
			unmanaged: []string{"MachineDeployment ns/c-", "MachineDeployment ns/c-gone"},
		},
		{
			name: "overrides",
			objects: Objects{
				Cluster:            cluster("v1.33.0", []string{"a", "b"}, nil),
				MachineDeployments: []*clusterv1.MachineDeployment{deployment("a", "nonsense"), deployment("b", "v1.30.0")},
			},
			overrides: []plan.Group{{Name: "b", MaxMinorStep: 1}, {Name: "a", Version: v("v1.28.0")}},
			want: []plan.Group{
				group("a", plan.MachineDeployment, "v1.28.0"),
				{Name: "b", Kind: plan.MachineDeployment, Version: v("v1.30.0"), MaxMinorStep: 1},
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.objects.ControlPlane = controlPlane("v1.31.2", nil)
			got, err := Take(test.objects, Overrides{Groups: test.overrides})
			if err != nil {
				t.Fatalf("Take: %v", err)
			}
			if diff := cmp.Diff(test.want, got.Inventory.Groups, cmp.AllowUnexported(version.Version{})); diff != "" {
				t.Errorf("groups (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.unmanaged, got.Unmanaged); diff != "" {
				t.Errorf("unmanaged (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTakeErrors(t *testing.T) {
	without := cluster("", nil, nil)
	without.Spec.Topology = clusterv1.Topology{}
	for _, test := range []struct {
		name      string
		objects   Objects
		overrides Overrides
		want      string
	}{
		{"no topology", Objects{Cluster: without}, Overrides{}, "Cluster ns/c: spec.topology: it is missing; only Clusters with a managed topology, made from a ClusterClass, can be planned"},
		{"topology version", Objects{Cluster: cluster("v1.33", nil, nil)}, Overrides{}, `Cluster ns/c: spec.topology.version: "v1.33" is not a Kubernetes version: write all three numbers, such as v1.31.2`},
		{"control plane version", Objects{Cluster: cluster("v1.33.0", nil, nil), ControlPlane: controlPlane("x", nil)}, Overrides{}, `KubeadmControlPlane ns/cp: spec.version: "x" is not a Kubernetes version: write all three numbers, such as v1.31.2`},
		{"no control plane version", Objects{Cluster: cluster("v1.33.0", nil, nil), ControlPlane: controlPlane("", nil)}, Overrides{}, "KubeadmControlPlane ns/cp: spec.version: it is missing, so nothing says which version the control plane has"},
		{
			"control plane status", Objects{Cluster: cluster("v1.33.0", nil, nil), ControlPlane: controlPlane("v1.31.2", map[string]any{"version": int64(1)})}, Overrides{},
			"KubeadmControlPlane ns/cp: status.version: it must be a string such as v1.31.2",
		},
		{"no name", Objects{Cluster: cluster("v1.33.0", []string{""}, nil)}, Overrides{}, `Cluster ns/c: spec.topology.workers.machineDeployments[0].name: "" is not a name: a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`},
		{"a name twice", Objects{Cluster: cluster("v1.33.0", nil, []string{"p", "p"})}, Overrides{}, `Cluster ns/c: spec.topology.workers.machinePools[1].name: "p" stands twice. Fix: give each group a name of its own`},
		{
			"two objects of a group", Objects{Cluster: cluster("v1.33.0", []string{"a"}, nil), MachineDeployments: []*clusterv1.MachineDeployment{deployment("a", "v1.30.0"), deployment("a", "v1.30.0")}},
			Overrides{}, `MachineDeployment ns/c-a: metadata.labels: it belongs to the topology's "a", and so does ns/c-a; only one may`,
		},
		{"no group version", Objects{Cluster: cluster("v1.33.0", []string{"a"}, nil), MachineDeployments: []*clusterv1.MachineDeployment{deployment("a", "")}}, Overrides{}, "MachineDeployment ns/c-a: spec.template.spec.version: it is missing, so nothing says which version the group has"},
		{"override of nothing", Objects{Cluster: cluster("v1.33.0", []string{"a"}, nil)}, Overrides{Groups: []plan.Group{{Name: "b"}}}, `Cluster ns/c: spec.topology.workers: there is no group "b" to override; the groups are ["a"]`},
		{
			"override of another kind", Objects{Cluster: cluster("v1.33.0", []string{"a"}, nil)}, Overrides{Groups: []plan.Group{{Name: "a", Kind: plan.MachinePool}}},
			`Cluster ns/c: spec.topology.workers.machineDeployments[0].name: "a" is a MachineDeployment here and was given as a MachinePool`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Take(test.objects, test.overrides)
			if _, ok := errors.AsType[*FieldError](err); !ok {
				t.Fatalf("Take: %v, want a *FieldError", err)
			}
			if diff := cmp.Diff(test.want, err.Error()); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTakeDoesNotChangeItsInput(t *testing.T) {
	build := func() Objects {
		return Objects{
			Cluster: cluster("v1.33.0", []string{"a"}, []string{"p"}), ControlPlane: controlPlane("v1.31.2", map[string]any{"version": "v1.30.3"}),
			MachineDeployments: []*clusterv1.MachineDeployment{deployment("a", "v1.31.2", "v1.31.2", "v1.30.0")},
			Machines:           []*clusterv1.Machine{machine("z", "l", "a", "v1.30.0", ""), machine("a", "l", "a", "v1.30.0", "")},
		}
	}
	o := build()
	if _, err := Take(o, Overrides{}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(build(), o); diff != "" {
		t.Errorf("the input was changed (-before +after):\n%s", diff)
	}
}

func class(extension string, versions ...string) *clusterv1.ClusterClass {
	c := &clusterv1.ClusterClass{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "class"}}
	c.Spec.KubernetesVersions = versions
	c.Spec.Upgrade.External.GenerateUpgradePlanExtension = extension
	return c
}

func graph(name string, classes ...string) *v1alpha1.UpgradeGraph {
	g := &v1alpha1.UpgradeGraph{ObjectMeta: metav1.ObjectMeta{Name: name}}
	g.Spec.Versions = []v1alpha1.Version{"v1.30.3", "v1.31.2"}
	for _, c := range classes {
		g.Spec.Classes = append(g.Spec.Classes, v1alpha1.ClassReference{Name: c})
	}
	return g
}

func TestSource(t *testing.T) {
	graphSource := plan.Graph{Versions: []version.Version{v("v1.30.3"), v("v1.31.2")}}
	topology := &clusterv1.Cluster{}
	topology.Spec.Topology.Workers.MachineDeployments = []clusterv1.MachineDeploymentTopology{{Name: "a", Class: "x"}, {Name: "b", Class: "y"}}
	ruled := graph("ruled", "class")
	ruled.Spec.Workers = []v1alpha1.WorkersRule{{
		Classes: []v1alpha1.ClassReference{{Name: "class", Namespace: "ns"}}, WorkerClasses: []string{"y"}, Stops: v1alpha1.WorkerStopsEveryMinor, Reason: "r",
	}}
	broken := graph("broken", "class")
	broken.Spec.Versions = nil
	for _, test := range []struct {
		name    string
		cluster *clusterv1.Cluster
		class   *clusterv1.ClusterClass
		graphs  []*v1alpha1.UpgradeGraph
		want    plan.Source
		wantErr string
	}{
		{name: "nothing", class: class(""), want: plan.NextMinor{}},
		{name: "a list", class: class("", "v1.30.3", "1.31.2"), want: plan.VersionList{v("v1.30.3"), v("v1.31.2")}},
		{name: "a list and a graph: Cluster API does not ask the graph", class: class("", "v1.30.3"), graphs: []*v1alpha1.UpgradeGraph{graph("g", "class")}, want: plan.VersionList{v("v1.30.3")}},
		{name: "a broken list", class: class("", "v1.30.3", "v1.31"), wantErr: `ClusterClass ns/class: spec.kubernetesVersions[1]: "v1.31" is not a Kubernetes version: write all three numbers, such as v1.31.2`},
		{name: "an extension before the list", class: class("plan.x", "v1.30.3"), wantErr: `ClusterClass ns/class: spec.upgrade.external.generateUpgradePlanExtension: upgrade plans of this class come from the extension "plan.x"`},
		{name: "the graph that serves the class", class: class("plan.x"), graphs: []*v1alpha1.UpgradeGraph{graph("other", "other"), graph("g", "class")}, want: graphSource},
		{name: "a single graph without classes", class: class("plan.x"), graphs: []*v1alpha1.UpgradeGraph{graph("g")}, want: graphSource},
		{
			name: "rules for the cluster's groups", cluster: topology, class: class("plan.x"), graphs: []*v1alpha1.UpgradeGraph{ruled},
			want: plan.Graph{Versions: graphSource.Versions, Stops: []plan.StopRule{{Groups: []string{"b"}, EveryMinor: true, Reason: "r"}}},
		},
		{name: "a broken graph", class: class("plan.x"), graphs: []*v1alpha1.UpgradeGraph{broken}, wantErr: `UpgradeGraph broken: spec.versions: Required value: list the versions that clusters may run or go to`},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, _, err := Source(test.cluster, test.class, test.graphs)
			text := ""
			if err != nil {
				text = err.Error()
			}
			if diff := cmp.Diff(test.wantErr, text); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(version.Version{})); diff != "" {
				t.Errorf("Source (-want +got):\n%s", diff)
			}
		})
	}

	_, _, err := Source(nil, class("plan.x"), []*v1alpha1.UpgradeGraph{graph("g", "class"), graph("h", "class")})
	if extension, ok := errors.AsType[*ExtensionError](err); !ok || extension.Err == nil {
		t.Errorf("two graphs serve the class: %v, want an *ExtensionError with a cause", err)
	}
}

func TestNeedsMachines(t *testing.T) {
	one := int32(1)
	lacking := deployment("a", "v1.30.0")
	lacking.Status.Replicas = &one
	lackingPool := pool("p", "v1.30.0")
	lackingPool.Status.Replicas = &one
	for _, test := range []struct {
		name string
		in   Objects
		want bool
	}{
		{"nothing there", Objects{}, false},
		{"versions are listed", Objects{MachineDeployments: []*clusterv1.MachineDeployment{deployment("a", "v1.30.0", "v1.30.0")}}, false},
		{"no machines", Objects{MachineDeployments: []*clusterv1.MachineDeployment{deployment("a", "v1.30.0")}}, false},
		{"a deployment lacks them", Objects{MachineDeployments: []*clusterv1.MachineDeployment{lacking}}, true},
		{"a pool lacks them", Objects{MachinePools: []*clusterv1.MachinePool{lackingPool}}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := NeedsMachines(test.in); got != test.want {
				t.Errorf("NeedsMachines returns %v, want %v", got, test.want)
			}
		})
	}
}

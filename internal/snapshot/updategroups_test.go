package snapshot

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/policy"
)

// TestUpdateGroups checks order, names and the labels that UpdatePolicies and Updaters select by.
func TestUpdateGroups(t *testing.T) {
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "prod", Namespace: "team-a", Labels: map[string]string{"stage": "prod"}}}
	cluster.Spec.Topology.ControlPlane.Metadata.Labels = map[string]string{"cp": "topology"}
	cluster.Spec.Topology.Workers.MachineDeployments = []clusterv1.MachineDeploymentTopology{
		{Name: "md-0", Class: "worker"}, {Name: "md-1", Class: "worker", Metadata: clusterv1.ObjectMeta{Labels: map[string]string{"pool": "one"}}},
	}
	class := &clusterv1.ClusterClass{}
	class.Spec.ControlPlane.Metadata.Labels = map[string]string{"cp": "class", "tier": "gold"}
	class.Spec.Workers.MachineDeployments = []clusterv1.MachineDeploymentClass{
		{Class: "other"}, {Class: "worker", Metadata: clusterv1.ObjectMeta{Labels: map[string]string{"pool": "any", "class": "worker"}}},
	}
	md := func(name, topology string) *clusterv1.MachineDeployment {
		m := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "team-a", Labels: map[string]string{}}}
		if topology != "" {
			m.Labels[clusterv1.ClusterTopologyMachineDeploymentNameLabel] = topology
		}
		m.Spec.Template.Labels = map[string]string{"template": name}
		return m
	}
	type row struct {
		Name, Subject, Topology, Object string
		Labels, MachineLabels           map[string]string
		Exists, HasTopology, HasClass   bool
	}
	rows := func(o Objects, class *clusterv1.ClusterClass) []row {
		var list []row
		for _, g := range UpdateGroups(o, class) {
			if g.Namespace != "team-a" || g.Cluster != "prod" || g.ClusterLabels["stage"] != "prod" {
				t.Errorf("%s is of the cluster %s/%s with %v", g.Subject, g.Namespace, g.Cluster, g.ClusterLabels)
			}
			list = append(list, row{g.Name, g.Subject, g.Topology, g.Object, g.Labels, g.MachineLabels, g.MachineDeployment != nil, g.InTopology != nil, g.InClass != nil})
		}
		return list
	}
	for _, test := range []struct {
		name    string
		objects Objects
		class   *clusterv1.ClusterClass
		want    []row
	}{
		{
			name: "objects, some of them not of the topology",
			objects: Objects{
				Cluster: cluster,
				ControlPlane: &unstructured.Unstructured{Object: map[string]any{
					"kind": "KubeadmControlPlane", "metadata": map[string]any{"name": "prod-cp", "labels": map[string]any{"on": "object"}},
					"spec": map[string]any{"machineTemplate": map[string]any{"metadata": map[string]any{"labels": map[string]any{"on": "machines"}}}},
				}},
				MachineDeployments: []*clusterv1.MachineDeployment{md("z", ""), md("prod-md-0-x", "md-0"), md("a", "removed")},
			},
			class: class,
			want: []row{
				{
					Subject: "KubeadmControlPlane prod-cp", Object: "prod-cp", Labels: map[string]string{"on": "object"},
					MachineLabels: map[string]string{
						clusterv1.ClusterNameLabel: "prod", clusterv1.MachineControlPlaneLabel: "", clusterv1.MachineControlPlaneNameLabel: "prod-cp", "on": "machines",
					},
				},
				{
					Name: "md-0", Subject: "MachineDeployment prod-md-0-x", Topology: "md-0", Object: "prod-md-0-x", Exists: true, HasTopology: true, HasClass: true,
					Labels:        map[string]string{clusterv1.ClusterTopologyMachineDeploymentNameLabel: "md-0"},
					MachineLabels: map[string]string{"template": "prod-md-0-x"},
				},
				{
					Name: "md-1", Subject: "MachineDeployment of topology md-1", Topology: "md-1", HasTopology: true, HasClass: true,
					Labels:        made(map[string]string{"pool": "one", "class": "worker", clusterv1.ClusterTopologyMachineDeploymentNameLabel: "md-1"}),
					MachineLabels: made(map[string]string{"pool": "one", "class": "worker", clusterv1.ClusterTopologyMachineDeploymentNameLabel: "md-1"}),
				},
				{
					Subject: "MachineDeployment a", Topology: "removed", Object: "a", Exists: true,
					Labels: map[string]string{clusterv1.ClusterTopologyMachineDeploymentNameLabel: "removed"}, MachineLabels: map[string]string{"template": "a"},
				},
				{Subject: "MachineDeployment z", Topology: "z", Object: "z", Exists: true, Labels: map[string]string{}, MachineLabels: map[string]string{"template": "z"}},
			},
		},
		{
			name: "nothing exists yet", objects: Objects{Cluster: cluster}, class: class,
			want: []row{
				{
					Subject: "control plane", Labels: made(map[string]string{"cp": "topology", "tier": "gold"}),
					MachineLabels: map[string]string{clusterv1.ClusterNameLabel: "prod", clusterv1.MachineControlPlaneLabel: "", "cp": "topology", "tier": "gold"},
				},
				{
					Name: "md-0", Subject: "MachineDeployment of topology md-0", Topology: "md-0", HasTopology: true, HasClass: true,
					Labels:        made(map[string]string{"pool": "any", "class": "worker", clusterv1.ClusterTopologyMachineDeploymentNameLabel: "md-0"}),
					MachineLabels: made(map[string]string{"pool": "any", "class": "worker", clusterv1.ClusterTopologyMachineDeploymentNameLabel: "md-0"}),
				},
				{
					Name: "md-1", Subject: "MachineDeployment of topology md-1", Topology: "md-1", HasTopology: true, HasClass: true,
					Labels:        made(map[string]string{"pool": "one", "class": "worker", clusterv1.ClusterTopologyMachineDeploymentNameLabel: "md-1"}),
					MachineLabels: made(map[string]string{"pool": "one", "class": "worker", clusterv1.ClusterTopologyMachineDeploymentNameLabel: "md-1"}),
				},
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, rows(test.objects, test.class)); diff != "" {
				t.Errorf("UpdateGroups (-want +got):\n%s", diff)
			}
		})
	}
}

// made adds the labels that Cluster API gives to all objects of a topology.
func made(labels map[string]string) map[string]string {
	labels[clusterv1.ClusterNameLabel], labels[clusterv1.ClusterTopologyOwnedLabel] = "prod", ""
	return labels
}

// Whoever has metadata only and whoever has whole objects sees the same group: the guard must not select another policy than the engine.
func TestGroupsOfMetadata(t *testing.T) {
	partial := func(o metav1.Object) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: o.GetNamespace(), Name: o.GetName(), Labels: o.GetLabels()}}
	}
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "prod", Namespace: "team-a", Labels: map[string]string{"stage": "prod"}}}
	cluster.Spec.ControlPlaneRef.Name = "prod-cp"
	plane := &unstructured.Unstructured{}
	plane.SetName("prod-cp")
	plane.SetNamespace("team-a")
	// Nobody puts this label there; whoever does makes no topology of the control plane.
	plane.SetLabels(map[string]string{"on": "object", clusterv1.ClusterTopologyMachineDeploymentNameLabel: "md-0"})
	md := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Name: "prod-md-0-x", Namespace: "team-a", Labels: map[string]string{
		clusterv1.ClusterTopologyMachineDeploymentNameLabel: "md-0",
	}}}
	bare := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Name: "bare", Namespace: "team-a"}}
	of := func(g policy.Group) policy.Group {
		g.Namespace, g.Cluster, g.ClusterLabels = "team-a", "prod", cluster.Labels
		return g
	}
	for name, test := range map[string]struct {
		got  []policy.Group
		want policy.Group
	}{
		"control plane": {
			[]policy.Group{ControlPlaneGroup(cluster, plane), ControlPlaneGroup(partial(cluster), partial(plane))},
			of(policy.Group{ControlPlane: true, Object: "prod-cp", Labels: plane.GetLabels()}),
		},
		"control plane that does not exist": {
			[]policy.Group{MissingControlPlaneGroup(cluster)}, of(policy.Group{ControlPlane: true, Object: "prod-cp"}),
		},
		"of a topology": {
			[]policy.Group{MachineDeploymentGroup(cluster, md), MachineDeploymentGroup(partial(cluster), partial(md))},
			of(policy.Group{Topology: "md-0", Object: "prod-md-0-x", Labels: md.Labels}),
		},
		"of none": {
			[]policy.Group{MachineDeploymentGroup(cluster, bare), MachineDeploymentGroup(partial(cluster), partial(bare))},
			of(policy.Group{Topology: "bare", Object: "bare"}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, got := range test.got {
				if diff := cmp.Diff(test.want, got); diff != "" {
					t.Errorf("the group (-want +got):\n%s", diff)
				}
			}
		})
	}
}

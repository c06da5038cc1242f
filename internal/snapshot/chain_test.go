package snapshot

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/chain"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

var versions = cmp.AllowUnexported(version.Version{})

func TestChainCluster(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(*clusterv1.Cluster)
		want   chain.State
	}{
		"new": {change: func(*clusterv1.Cluster) {}, want: chain.State{Concurrency: 1}},
		"begun with its infrastructure": {
			change: func(c *clusterv1.Cluster) { c.Spec.InfrastructureRef.Name = "c" }, want: chain.State{Begun: true, Concurrency: 1},
		},
		"begun with its control plane": {
			change: func(c *clusterv1.Cluster) { c.Spec.ControlPlaneRef.Name = "c" }, want: chain.State{Begun: true, Concurrency: 1},
		},
		"paused by its spec":       {change: func(c *clusterv1.Cluster) { c.Spec.Paused = new(true) }, want: chain.State{Paused: true, Concurrency: 1}},
		"paused by its annotation": {change: annotated(clusterv1.PausedAnnotation, ""), want: chain.State{Paused: true, Concurrency: 1}},
		"deleted":                  {change: func(c *clusterv1.Cluster) { c.DeletionTimestamp = new(metav1.Now()) }, want: chain.State{Deleting: true, Concurrency: 1}},
		"initialized": {
			change: func(c *clusterv1.Cluster) {
				conditions.Set(c, metav1.Condition{Type: clusterv1.ClusterControlPlaneInitializedCondition, Status: metav1.ConditionTrue, Reason: "Initialized"})
			}, want: chain.State{Initialized: true, Concurrency: 1},
		},
		"not initialized": {
			change: func(c *clusterv1.Cluster) {
				conditions.Set(c, metav1.Condition{Type: clusterv1.ClusterControlPlaneInitializedCondition, Status: metav1.ConditionFalse, Reason: "NotInitialized"})
			}, want: chain.State{Concurrency: 1},
		},
		"three groups at once":      {change: annotated(clusterv1.ClusterTopologyUpgradeConcurrencyAnnotation, "3"), want: chain.State{Concurrency: 3}},
		"no groups at once":         {change: annotated(clusterv1.ClusterTopologyUpgradeConcurrencyAnnotation, "0"), want: chain.State{Concurrency: 1}},
		"less than none at once":    {change: annotated(clusterv1.ClusterTopologyUpgradeConcurrencyAnnotation, "-4"), want: chain.State{Concurrency: 1}},
		"some groups at once":       {change: annotated(clusterv1.ClusterTopologyUpgradeConcurrencyAnnotation, "some"), want: chain.State{Concurrency: 1}},
		"more than a number can be": {change: annotated(clusterv1.ClusterTopologyUpgradeConcurrencyAnnotation, "99999999999999999999"), want: chain.State{Concurrency: 1}},
		"blocked": {
			change: func(c *clusterv1.Cluster) {
				for _, name := range []string{"z", "a"} {
					annotated(clusterv1.BeforeClusterUpgradeHookAnnotationPrefix+"/"+name, "x")(c)
				}
			},
			want: chain.State{Concurrency: 1, Blockers: []string{clusterv1.BeforeClusterUpgradeHookAnnotationPrefix + "/a", clusterv1.BeforeClusterUpgradeHookAnnotationPrefix + "/z"}},
		},
		"in an upgrade": {
			change: func(c *clusterv1.Cluster) {
				annotated("runtime.cluster.x-k8s.io/pending-hooks", "AfterClusterUpgrade")(c)
				annotated(clusterv1.ClusterTopologyUpgradeStepAnnotation, "v1.32.0")(c)
				annotated(v1alpha1.ChainProgressAnnotation, `{"from":"v1.31.0","target":"v1.33.0","began":"2026-03-01T12:00:00Z"}`)(c)
			},
			want: chain.State{Concurrency: 1, Pending: chain.Pending{chain.AfterClusterUpgrade}, UpgradeStep: v("v1.32.0"), ChainTarget: v("v1.33.0"), ChainAt: v("v1.31.0")},
		},
	} {
		c := cluster("1.33.0", nil, nil)
		tt.change(c)
		tt.want.Target, tt.want.Groups = v("v1.33.0"), []chain.Group{}
		got, _, err := Chain(Objects{Cluster: c})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(tt.want, got, versions); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func annotated(key, value string) func(*clusterv1.Cluster) {
	return func(c *clusterv1.Cluster) {
		if c.Annotations == nil {
			c.Annotations = map[string]string{}
		}
		c.Annotations[key] = value
	}
}

func TestChainControlPlane(t *testing.T) {
	t.Parallel()
	reports := func(versions ...string) map[string]any {
		var list []any
		for _, version := range versions {
			list = append(list, map[string]any{"version": version, "replicas": int64(1)})
		}
		return map[string]any{"versions": list}
	}
	stamped := func(value string) *unstructured.Unstructured {
		object := controlPlane("v1.32.0", nil)
		object.SetAnnotations(map[string]string{v1alpha1.ChainStepAnnotation: value})
		return object
	}
	at := v("v1.32.0")
	for name, tt := range map[string]struct {
		object *unstructured.Unstructured
		want   chain.ControlPlane
		// field is that of the error.
		field string
	}{
		"none":               {},
		"without a status":   {object: controlPlane("1.32.0", nil), want: chain.ControlPlane{Exists: true, Version: at}},
		"at rest":            {object: controlPlane("v1.32.0", map[string]any{"version": "v1.32.0"}), want: chain.ControlPlane{Exists: true, Provisioned: true, Version: at}},
		"on its way":         {object: controlPlane("v1.32.0", map[string]any{"version": "v1.31.0"}), want: chain.ControlPlane{Exists: true, Provisioned: true, Upgrading: true, Running: v("v1.31.0"), Version: at}},
		"ahead of its spec":  {object: controlPlane("v1.32.0", map[string]any{"version": "v1.33.0"}), want: chain.ControlPlane{Exists: true, Provisioned: true, Version: at}},
		"k0s's own words":    {object: controlPlane("v1.32.0", map[string]any{"version": "v1.32.0-k0s.0"}), want: chain.ControlPlane{Exists: true, Provisioned: true, Version: at}},
		"another build":      {object: controlPlane("v1.32.0+b", map[string]any{"version": "v1.32.0+a"}), want: chain.ControlPlane{Exists: true, Provisioned: true, Upgrading: true, Running: v("v1.32.0+a"), Version: v("v1.32.0+b")}},
		"machines at rest":   {object: controlPlane("v1.32.0", reports("v1.32.0")), want: chain.ControlPlane{Exists: true, Provisioned: true, Version: at}},
		"one machine behind": {object: controlPlane("v1.32.0", reports("v1.32.0", "v1.31.0")), want: chain.ControlPlane{Exists: true, Provisioned: true, Upgrading: true, Running: v("v1.31.0"), Version: at}},
		"an empty status":    {object: controlPlane("v1.32.0", map[string]any{"version": ""}), want: chain.ControlPlane{Exists: true, Version: at}},
		"an empty list":      {object: controlPlane("v1.32.0", map[string]any{"versions": []any{}, "version": "v1.31.0"}), want: chain.ControlPlane{Exists: true, Provisioned: true, Upgrading: true, Running: v("v1.31.0"), Version: at}},
		"a list of another form": {
			object: controlPlane("v1.32.0", map[string]any{"versions": []any{"v1.30.0", map[string]any{"version": int64(1)}}, "version": "v1.32.0"}),
			want:   chain.ControlPlane{Exists: true, Provisioned: true, Version: at},
		},
		"stamped":                 {object: stamped("v1.32.0"), want: chain.ControlPlane{Exists: true, Version: at, Stamp: at}},
		"stamped by a stranger":   {object: stamped("here"), want: chain.ControlPlane{Exists: true, Version: at}},
		"a spec that is none":     {object: controlPlane("latest", nil), field: "spec.version"},
		"a spec without one":      {object: controlPlane("", nil), field: "spec.version"},
		"a spec of another form":  {object: &unstructured.Unstructured{Object: map[string]any{"kind": "CP", "spec": map[string]any{"version": int64(1)}}}, field: "spec.version"},
		"a status that is none":   {object: controlPlane("v1.32.0", map[string]any{"version": "latest"}), field: "status.version"},
		"a machine that has none": {object: controlPlane("v1.32.0", reports("v1.32.0", "latest")), field: "status.versions[1].version"},
	} {
		got, _, err := Chain(Objects{Cluster: cluster("v1.33.0", nil, nil), ControlPlane: tt.object})
		if tt.field != "" {
			if field, ok := errors.AsType[*FieldError](err); !ok || field.Ref.Field != tt.field || field.Ref.Object != tt.object {
				t.Errorf("%s: error %v, want one about %s", name, err, tt.field)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(tt.want, got.ControlPlane, versions); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

const (
	mdName = clusterv1.ClusterTopologyMachineDeploymentNameLabel
	mpName = clusterv1.ClusterTopologyMachinePoolNameLabel
)

func TestChainGroups(t *testing.T) {
	t.Parallel()
	at := v("v1.32.0")
	md := func(change func(*chain.Group)) []chain.Group {
		g := chain.Group{Name: "a", Kind: plan.MachineDeployment, Exists: true, Version: at, Oldest: at}
		change(&g)
		return []chain.Group{g}
	}
	mp := func(change func(*chain.Group)) []chain.Group {
		groups := md(change)
		groups[0].Name, groups[0].Kind = "p", plan.MachinePool
		return groups
	}
	rest := func(*chain.Group) {}
	moving := func(oldest string) func(*chain.Group) {
		return func(g *chain.Group) { g.Upgrading, g.Oldest = true, v(oldest) }
	}
	observed := func(change func(*clusterv1.MachinePool), reported ...string) []*clusterv1.MachinePool {
		object := pool("p", "v1.32.0", reported...)
		change(object)
		return []*clusterv1.MachinePool{object}
	}
	deleting := deployment("a", "v1.32.0")
	deleting.DeletionTimestamp = new(metav1.Now())
	for name, tt := range map[string]struct {
		topology *clusterv1.Cluster
		objects  Objects
		want     []chain.Group
	}{
		"not there": {topology: cluster("v1.33.0", []string{"a"}, nil), want: []chain.Group{{Name: "a", Kind: plan.MachineDeployment}}},
		"without machines": {
			topology: cluster("v1.33.0", []string{"a"}, nil), objects: Objects{MachineDeployments: []*clusterv1.MachineDeployment{deployment("a", "1.32.0")}}, want: md(rest),
		},
		"what its status says does not count": {
			topology: cluster("v1.33.0", []string{"a"}, nil), objects: Objects{MachineDeployments: []*clusterv1.MachineDeployment{deployment("a", "v1.32.0", "v1.31.0")}}, want: md(rest),
		},
		"a machine without a node": {
			topology: cluster("v1.33.0", []string{"a"}, nil),
			objects: Objects{
				MachineDeployments: []*clusterv1.MachineDeployment{deployment("a", "v1.32.0")}, Machines: []*clusterv1.Machine{machine("1", mdName, "a", "v1.31.0", "")},
			}, want: md(moving("v1.31.0")),
		},
		"a kubelet that is behind its machine": {
			topology: cluster("v1.33.0", []string{"a"}, nil),
			objects: Objects{
				MachineDeployments: []*clusterv1.MachineDeployment{deployment("a", "v1.32.0")}, Machines: []*clusterv1.Machine{machine("1", mdName, "a", "v1.32.0", "v1.31.0")},
			}, want: md(moving("v1.31.0")),
		},
		"words of a distribution": {
			topology: cluster("v1.33.0", []string{"a"}, nil),
			objects: Objects{
				MachineDeployments: []*clusterv1.MachineDeployment{deployment("a", "v1.32.0")},
				Machines:           []*clusterv1.Machine{machine("1", mdName, "a", "v1.32.0", "v1.32.0-eks-7f9249a"), machine("2", mdName, "a", "v1.32.0", "v1.32.0+k3s1")},
			}, want: md(rest),
		},
		"a pre-release of Kubernetes": {
			topology: cluster("v1.33.0", []string{"a"}, nil),
			objects: Objects{
				MachineDeployments: []*clusterv1.MachineDeployment{deployment("a", "v1.32.0")}, Machines: []*clusterv1.Machine{machine("1", mdName, "a", "v1.32.0", "v1.32.0-rc.1")},
			}, want: md(moving("v1.32.0-rc.1")),
		},
		"machines of many versions": {
			topology: cluster("v1.33.0", []string{"a"}, nil),
			objects: Objects{
				MachineDeployments: []*clusterv1.MachineDeployment{deployment("a", "v1.32.0")},
				Machines: []*clusterv1.Machine{
					machine("1", mdName, "a", "v1.32.0", "v1.32.0"), machine("2", mdName, "a", "v1.30.0", ""), machine("3", mdName, "a", "v1.31.0", "v1.31.0"),
					machine("4", mdName, "b", "v1.20.0", ""), machine("5", "other", "a", "v1.20.0", ""),
				},
			}, want: md(moving("v1.30.0")),
		},
		"a machine that is newer": {
			topology: cluster("v1.33.0", []string{"a"}, nil),
			objects: Objects{
				MachineDeployments: []*clusterv1.MachineDeployment{deployment("a", "v1.32.0")}, Machines: []*clusterv1.Machine{machine("1", mdName, "a", "v1.33.0", "v1.33.0")},
			}, want: md(moving("v1.32.0")),
		},
		"one that goes": {
			topology: cluster("v1.33.0", []string{"a"}, nil), objects: Objects{MachineDeployments: []*clusterv1.MachineDeployment{deleting}},
			want: md(func(g *chain.Group) { g.Deleting = true }),
		},
		"a pool by what it reports": {
			topology: cluster("v1.33.0", nil, []string{"p"}), objects: Objects{MachinePools: observed(func(*clusterv1.MachinePool) {}, "v1.31.0", "v1.32.0")}, want: mp(moving("v1.31.0")),
		},
		"a pool by its machines": {
			topology: cluster("v1.33.0", nil, []string{"p"}),
			objects:  Objects{MachinePools: observed(func(*clusterv1.MachinePool) {}, "v1.31.0"), Machines: []*clusterv1.Machine{machine("1", mpName, "p", "v1.32.0", "v1.32.0")}},
			want:     mp(rest),
		},
		"a pool that was not looked at": {
			topology: cluster("v1.33.0", nil, []string{"p"}),
			objects:  Objects{MachinePools: observed(func(mp *clusterv1.MachinePool) { mp.Generation, mp.Status.ObservedGeneration = 2, 1 }, "v1.32.0")},
			want:     mp(func(g *chain.Group) { g.Upgrading = true }),
		},
		"a pool that has nodes and does not report": {
			topology: cluster("v1.33.0", nil, []string{"p"}),
			objects:  Objects{MachinePools: observed(func(mp *clusterv1.MachinePool) { mp.Status.NodeRefs = []corev1.ObjectReference{{Name: "n"}} })},
			want:     mp(func(g *chain.Group) { g.Upgrading = true }),
		},
		"a pool without nodes": {
			topology: cluster("v1.33.0", nil, []string{"p"}), objects: Objects{MachinePools: observed(func(*clusterv1.MachinePool) {})}, want: mp(rest),
		},
		"a pool with the name of a MachineDeployment": {
			topology: cluster("v1.33.0", []string{"p"}, []string{"p"}),
			objects: Objects{
				MachineDeployments: []*clusterv1.MachineDeployment{deployment("p", "v1.32.0")},
				MachinePools:       observed(func(mp *clusterv1.MachinePool) { mp.Generation = 1 }, "v1.32.0"),
			},
			want: []chain.Group{
				{Name: "p", Kind: plan.MachineDeployment, Exists: true, Version: at, Oldest: at},
				{Name: "MachinePool/p", Kind: plan.MachinePool, Exists: true, Version: at, Oldest: at, Upgrading: true},
			},
		},
		"kept back": {
			topology: heldBackCluster(),
			want: []chain.Group{
				{Name: "a", Kind: plan.MachineDeployment, Defer: true}, {Name: "b", Kind: plan.MachineDeployment, Hold: true}, {Name: "c", Kind: plan.MachineDeployment},
				{Name: "a", Kind: plan.MachinePool}, {Name: "q", Kind: plan.MachinePool, Defer: true, Hold: true},
			},
		},
	} {
		tt.objects.Cluster = tt.topology
		if name == "kept back" {
			tt.want[3].Name = "MachinePool/a"
		}
		got, _, err := Chain(tt.objects)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(tt.want, got.Groups, versions); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func heldBackCluster() *clusterv1.Cluster {
	c := cluster("v1.33.0", []string{"a", "b", "c"}, []string{"a", "q"})
	const deferUpgrade, hold = clusterv1.ClusterTopologyDeferUpgradeAnnotation, clusterv1.ClusterTopologyHoldUpgradeSequenceAnnotation
	c.Spec.Topology.Workers.MachineDeployments[0].Metadata.Annotations = map[string]string{deferUpgrade: ""}
	c.Spec.Topology.Workers.MachineDeployments[1].Metadata.Annotations = map[string]string{hold: "x"}
	c.Spec.Topology.Workers.MachinePools[1].Metadata.Annotations = map[string]string{hold: "", deferUpgrade: "false"}
	return c
}

func TestChainErrors(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		objects Objects
		field   string
	}{
		"a target that is none": {objects: Objects{Cluster: cluster("stable", nil, nil)}, field: "spec.topology.version"},
		"two groups of one name": {
			objects: Objects{Cluster: cluster("v1.33.0", []string{"a", "a"}, nil)}, field: "spec.topology.workers.machineDeployments[1].name",
		},
		"two objects of one group": {
			objects: Objects{Cluster: cluster("v1.33.0", []string{"a"}, nil), MachineDeployments: []*clusterv1.MachineDeployment{deployment("a", "v1.32.0"), deployment("a", "v1.32.0")}},
			field:   "metadata.labels",
		},
		"a template without a version": {
			objects: Objects{Cluster: cluster("v1.33.0", []string{"a"}, nil), MachineDeployments: []*clusterv1.MachineDeployment{deployment("a", "")}}, field: "spec.template.spec.version",
		},
	} {
		_, _, err := Chain(tt.objects)
		if field, ok := errors.AsType[*FieldError](err); !ok || field.Ref.Field != tt.field {
			t.Errorf("%s: error %v, want one about %s", name, err, tt.field)
		}
	}
}

// TestChainIgnoresTheOrderOfObjects checks that lists may come in any order, and are not changed.
func TestChainIgnoresTheOrderOfObjects(t *testing.T) {
	t.Parallel()
	objects := Objects{
		Cluster:            cluster("v1.33.0", []string{"b", "a"}, []string{"p"}),
		MachineDeployments: []*clusterv1.MachineDeployment{deployment("a", "v1.32.0"), deployment("b", "v1.31.0"), deployment("", "v1.20.0")},
		MachinePools:       []*clusterv1.MachinePool{pool("p", "v1.32.0", "v1.31.0")},
		Machines: []*clusterv1.Machine{
			machine("1", mdName, "a", "v1.32.0+b", "v1.32.0+b"), machine("2", mdName, "a", "v1.31.0", ""), machine("3", mdName, "b", "v1.31.0", "v1.30.0"), machine("4", mdName, "a", "v1.30.1", ""),
		},
	}
	want, _, err := Chain(objects)
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		shuffled := objects
		shuffled.MachineDeployments = rapid.Permutation(objects.MachineDeployments).Draw(t, "MachineDeployments")
		shuffled.Machines = rapid.Permutation(objects.Machines).Draw(t, "Machines")
		given := slices.Clone(shuffled.Machines)
		got, _, err := Chain(shuffled)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, versions); diff != "" {
			t.Fatalf("in another order (-want +got):\n%s", diff)
		}
		if !slices.Equal(given, shuffled.Machines) {
			t.Fatal("the input was sorted")
		}
	})
}

func TestChainMachines(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		made, runs string
		want       chain.Group
	}{
		"there":                              {"v1.32.0", "v1.32.0", chain.Group{Oldest: v("v1.32.0")}},
		"there, in a distribution's words":   {"v1.32.0", "v1.32.0-eks-1", chain.Group{Oldest: v("v1.32.0")}},
		"there, by a kubelet without sense":  {"v1.32.0", "custom_build", chain.Group{Oldest: v("v1.32.0")}},
		"not made for it":                    {"v1.31.0", "v1.31.0", chain.Group{Oldest: v("v1.31.0"), Upgrading: true}},
		"not made for it, without sense":     {"v1.31.0", "custom_build", chain.Group{Oldest: v("v1.31.0"), Upgrading: true}},
		"in place: the kubelet is not there": {"v1.32.0", "v1.31.0", chain.Group{Oldest: v("v1.31.0"), Upgrading: true}},
		"its spec follows its kubelet":       {"v1.31.0", "v1.32.0", chain.Group{Oldest: v("v1.32.0"), Upgrading: true}},
		"nothing is known of it":             {"", "", chain.Group{Oldest: v("v1.32.0"), Upgrading: true}},
	} {
		tt.want.Name, tt.want.Kind, tt.want.Exists, tt.want.Version = "a", plan.MachineDeployment, true, v("v1.32.0")
		s, _, err := Chain(Objects{
			Cluster: cluster("v1.33.0", []string{"a"}, nil), MachineDeployments: []*clusterv1.MachineDeployment{deployment("a", "v1.32.0")},
			Machines: []*clusterv1.Machine{machine("1", mdName, "a", tt.made, tt.runs)},
		})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff([]chain.Group{tt.want}, s.Groups); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestChainShort(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		replicas *int32
		machines []string
		going    bool
		// bare is how many of the machines, from the last, have no Node.
		bare int
		want int32
	}{
		"one is missing":           {replicas: new(int32(2)), machines: []string{"v1.32.0"}, want: 1},
		"all are there":            {replicas: new(int32(2)), machines: []string{"v1.32.0", "v1.32.0"}},
		"one that goes is missing": {replicas: new(int32(1)), machines: []string{"v1.32.0"}, going: true, want: 1},
		"one is the default":       {want: 1},
		"one has no Node":          {replicas: new(int32(2)), machines: []string{"v1.32.0", "v1.32.0"}, bare: 1, want: 1},
		"a surplus has no Node":    {replicas: new(int32(1)), machines: []string{"v1.32.0", "v1.32.0"}, bare: 1},
		"it moves anyway":          {replicas: new(int32(3)), machines: []string{"v1.31.0"}},
	} {
		md := deployment("a", "v1.32.0")
		md.Spec.Replicas = tt.replicas
		o := Objects{Cluster: cluster("v1.33.0", []string{"a"}, nil), MachineDeployments: []*clusterv1.MachineDeployment{md}}
		for i, made := range tt.machines {
			m := machine("1", mdName, "a", made, made)
			if i < len(tt.machines)-tt.bare {
				m.Status.NodeRef.Name = "node"
			}
			if tt.going {
				m.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
			}
			o.Machines = append(o.Machines, m)
		}
		s, _, err := Chain(o)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if s.Groups[0].Missing != tt.want {
			t.Errorf("%s: %d are missing, want %d", name, s.Groups[0].Missing, tt.want)
		}
	}
}

func TestChainLeaving(t *testing.T) {
	t.Parallel()
	s, _, err := Chain(Objects{
		Cluster:            cluster("v1.33.0", []string{"a"}, nil),
		MachineDeployments: []*clusterv1.MachineDeployment{deployment("z", "v1.30.0"), deployment("a", "v1.32.0"), deployment("gone", "v1.31.0")},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []chain.Group{
		{Name: "gone", Kind: plan.MachineDeployment, Exists: true, Version: v("v1.31.0"), Oldest: v("v1.31.0")},
		{Name: "z", Kind: plan.MachineDeployment, Exists: true, Version: v("v1.30.0"), Oldest: v("v1.30.0")},
	}
	if diff := cmp.Diff(want, s.Leaving); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A Cluster that is deleted goes, whatever stands in it.
func TestChainDeletingUnreadable(t *testing.T) {
	t.Parallel()
	c := cluster("not a version", nil, nil)
	c.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	c.Annotations = map[string]string{v1alpha1.ChainIntentAnnotation: "{", runtimev1.OkToDeleteAnnotation: "", runtimev1.PendingHooksAnnotation: "AfterClusterUpgrade"}
	s, recorded, err := Chain(Objects{Cluster: c})
	if err != nil {
		t.Fatal(err)
	}
	if !s.Deleting || !s.OKToDelete || !recorded.Pending.Has(chain.AfterClusterUpgrade) {
		t.Errorf("state %+v, recorded %+v", s, recorded)
	}
}

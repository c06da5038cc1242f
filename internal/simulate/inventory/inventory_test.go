package inventory_test

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/manifest"
	"github.com/windlass-dev/windlass/internal/simulate/inventory"
	"github.com/windlass-dev/windlass/internal/simulate/scenario"
	"github.com/windlass-dev/windlass/internal/snapshot"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// read reads the cluster of the manifests, with the updates that its groups get.
func read(t *testing.T, updates ...cover.Update) inventory.Cluster {
	t.Helper()
	set, err := manifest.Read([]string{"testdata/objects.yaml"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := set.Cluster("", "prod")
	if err != nil {
		t.Fatal(err)
	}
	c := inventory.Cluster{Updates: updates, Class: set.ClusterClasses[0]}
	if c.Objects, err = set.Objects(cluster); err != nil {
		t.Fatal(err)
	}
	state, err := snapshot.Take(c.Objects, snapshot.Overrides{})
	if err != nil {
		t.Fatal(err)
	}
	source, _, err := snapshot.Source(nil, c.Class, nil)
	if err != nil {
		t.Fatal(err)
	}
	c.Request = plan.Request{Inventory: state.Inventory, Target: version.MustParse("v1.31.1"), Source: source, Policy: plan.Policy{Skew: version.KubernetesSkew()}}
	c.Policies, c.Updaters = set.UpdateObjects(cluster)
	c.Gates = []v1alpha1.UpgradeGate{
		gate("nights", "prod", v1alpha1.GateRequirements{
			Windows: []v1alpha1.GateWindow{{TimeZone: "UTC", From: "22:00", To: "04:00"}}, Approval: &v1alpha1.GateApproval{},
		}),
		gate("looks", "prod", v1alpha1.GateRequirements{Checks: []v1alpha1.GateCheck{"NodesReady"}}),
		gate("another", "other", v1alpha1.GateRequirements{Windows: []v1alpha1.GateWindow{{TimeZone: "UTC", From: "22:00", To: "04:00"}}}),
	}
	return c
}

func gate(name, cluster string, requires v1alpha1.GateRequirements) v1alpha1.UpgradeGate {
	return v1alpha1.UpgradeGate{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name},
		Spec: v1alpha1.UpgradeGateSpec{
			ClusterName: cluster, Requires: requires, Steps: []v1alpha1.GateStep{{At: "BeforeWorkersUpgrade", Versions: []v1alpha1.GateVersion{"v1.31"}}},
		},
	}
}

// updates are those of the control plane, and of there, coming and odd.
func updates() []cover.Update {
	return []cover.Update{
		{Outcome: cover.InPlace, Policy: "keep", Updaters: []string{"k8s"}},
		{Outcome: cover.InPlace, Policy: "keep", Updaters: []string{"a-os", "k8s"}},
		{Outcome: cover.Unknown, Policy: "keep", Message: "unknown: nobody answers"},
		{Outcome: cover.Replace},
	}
}

func TestFromObjects(t *testing.T) {
	t.Parallel()
	got, err := inventory.FromObjects([]inventory.Cluster{read(t, updates()...)})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := scenario.Print(&b, got.File, got.Notes); err != nil {
		t.Fatal(err)
	}
	const golden = "testdata/prod.golden.yaml"
	if os.Getenv("WINDLASS_UPDATE") != "" {
		if err := os.WriteFile(golden, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("another scenario (-want +got):\n%s", diff)
	}
	s, err := scenario.Translate(got.File, scenario.Options{Sources: got.Sources})
	if err != nil {
		t.Fatal(err)
	}
	// 10 % of 5 machines are none, and 20 % of 7 one, as Kubernetes rounds.
	pools := s.Config.Clusters[0].Pools
	if pools[0].MaxUnavailable != 0 || pools[0].MaxSurge != 0 || pools[1].MaxUnavailable != 1 || pools[1].MaxSurge != 0 {
		t.Errorf("the limits are %+v and %+v", pools[0], pools[1])
	}
}

// TestStatusBehindItsMachines: a MachineDeployment reports the versions of its machines a little later than these have them.
func TestStatusBehindItsMachines(t *testing.T) {
	t.Parallel()
	c := read(t, updates()...)
	for i, m := range c.Objects.Machines {
		if m.Name == "m1" {
			c.Objects.Machines[i] = m.DeepCopy()
			c.Objects.Machines[i].Spec.Version = "v1.29.4"
		}
	}
	got, err := inventory.FromObjects([]inventory.Cluster{c})
	if err != nil {
		t.Fatal(err)
	}
	if pool := got.File.Clusters[0].Pools[0]; pool.Name != "there" || pool.Version != "v1.29.4" || pool.Oldest != "" || pool.Lagging != 0 {
		t.Errorf("the pool is %+v, want it at v1.29.4", pool)
	}
}

func TestClustersOfSeveralNamespaces(t *testing.T) {
	t.Parallel()
	first, second := read(t, updates()...), read(t, updates()...)
	moved := second.Objects.Cluster.DeepCopy()
	moved.Namespace = "other"
	second.Objects.Cluster, second.Gates, second.Policies = moved, nil, nil
	second.Request.Source = plan.Graph{Versions: []version.Version{version.MustParse("v1.29.4"), version.MustParse("v1.30.7"), version.MustParse("v1.31.1")}}
	second.Plan = plan.Plan{ControlPlane: []version.Version{version.MustParse("v1.30.7"), version.MustParse("v1.31.1")}}
	got, err := inventory.FromObjects([]inventory.Cluster{first, second})
	if err != nil {
		t.Fatal(err)
	}
	names := []string{got.File.Clusters[0].Name, got.File.Clusters[1].Name, got.File.Policies[0].Name, got.File.Gates[0].Name, got.File.Gates[0].Clusters[0]}
	if diff := cmp.Diff([]string{"team/prod", "other/prod", "team/keep", "team/nights", "team/prod"}, names); diff != "" {
		t.Errorf("other names (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"v1.30.7", "v1.31.1"}, got.File.Clusters[1].Versions); diff != "" || got.Sources["other/prod"] == nil {
		t.Errorf("the graph was lost: %v %s", got.Sources, diff)
	}
	if got.File.Clusters[1].Pools[0].Policy != "" {
		t.Error("a policy of another namespace counts")
	}
	if _, err := scenario.Translate(got.File, scenario.Options{Sources: got.Sources}); err != nil {
		t.Error(err)
	}
}

// TestBlocked: an upgrade that cannot end is not simulated as one that does.
func TestBlocked(t *testing.T) {
	t.Parallel()
	given := updates()
	given[1] = cover.Update{Outcome: cover.Blocked, Message: "blocked: not covered"}
	_, err := inventory.FromObjects([]inventory.Cluster{read(t, given...)})
	blocked, ok := errors.AsType[*inventory.BlockedError](err)
	if !ok || len(blocked.Groups) != 1 || !strings.Contains(blocked.Error(), "MachineDeployment prod-there of cluster prod: blocked: not covered") {
		t.Errorf("the error is %v", err)
	}
}

func TestControlPlanesThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		path  string
		value any
	}{{"replicas", "three"}, {"rolloutStrategy", map[string]any{"rollingUpdate": map[string]any{"maxSurge": "some"}}}} {
		c := read(t, updates()...)
		object := c.Objects.ControlPlane.DeepCopy()
		spec, ok := object.Object["spec"].(map[string]any)
		if !ok {
			t.Fatal("there is no spec")
		}
		delete(spec, "rollout")
		spec[tt.path] = tt.value
		c.Objects.ControlPlane = object
		_, err := inventory.FromObjects([]inventory.Cluster{c})
		if _, ok := errors.AsType[*snapshot.FieldError](err); !ok || !strings.Contains(err.Error(), tt.path) {
			t.Errorf("%s: %v", tt.path, err)
		}
	}
}

// TestWithoutAControlPlaneObject: manifests in git have none.
func TestWithoutAControlPlaneObject(t *testing.T) {
	t.Parallel()
	c := read(t, updates()...)
	c.Objects.ControlPlane = nil
	cluster := c.Objects.Cluster.DeepCopy()
	cluster.Spec.Topology.ControlPlane.Replicas = new(int32(3))
	c.Objects.Cluster = cluster
	c.Objects.Machines = append(c.Objects.Machines, &clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{Name: "cp", Labels: map[string]string{clusterv1.MachineControlPlaneLabel: ""}}, Spec: clusterv1.MachineSpec{FailureDomain: "z5"},
	})
	got, err := inventory.FromObjects([]inventory.Cluster{c})
	if err != nil {
		t.Fatal(err)
	}
	want := scenario.ControlPlane{Replicas: new(3), Machines: scenario.Machines{FailureDomains: []string{"z5"}, Policy: "keep", Updaters: []string{"k8s"}}}
	if diff := cmp.Diff(want, got.File.Clusters[0].ControlPlane); diff != "" {
		t.Errorf("another control plane (-want +got):\n%s", diff)
	}
}

// TestTheControlPlaneTemplate counts while there is no control plane object, in both versions of the kubeadm provider.
func TestTheControlPlaneTemplate(t *testing.T) {
	t.Parallel()
	rolling := func(surge any) map[string]any {
		return map[string]any{"rollingUpdate": map[string]any{"maxSurge": surge}}
	}
	for name, tt := range map[string]struct {
		spec   map[string]any
		object bool
		want   *int
	}{
		"v1beta2":          {spec: map[string]any{"rollout": map[string]any{"strategy": rolling(int64(0))}}, want: new(0)},
		"v1beta1":          {spec: map[string]any{"rolloutStrategy": rolling("1")}, want: new(1)},
		"says nothing":     {spec: map[string]any{}, want: new(1)},
		"beside an object": {spec: map[string]any{"rolloutStrategy": rolling(int64(1))}, object: true, want: new(0)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := read(t, updates()...)
			c.Policies[0].Spec.Fallback = v1alpha1.FallbackRollingUpdate
			c.Objects.Cluster = c.Objects.Cluster.DeepCopy()
			c.Objects.Cluster.Spec.Topology.ControlPlane.Replicas = new(int32(3))
			if !tt.object {
				c.Objects.ControlPlane = nil
			}
			c.ControlPlaneTemplate = &unstructured.Unstructured{Object: map[string]any{"kind": "KubeadmControlPlaneTemplate", "spec": map[string]any{"template": map[string]any{"spec": tt.spec}}}}
			got, err := inventory.FromObjects([]inventory.Cluster{c})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got.File.Clusters[0].ControlPlane.MaxSurge); diff != "" {
				t.Errorf("another maxSurge (-want +got):\n%s", diff)
			}
		})
	}
}

// TestSurgesThatTheGuardRefuses: what windlass doctor calls an error is no upgrade that ends, whoever has looked at it before.
func TestSurgesThatTheGuardRefuses(t *testing.T) {
	t.Parallel()
	asks := "Cluster API creates a machine before it asks"
	for name, tt := range map[string]struct {
		change func(*inventory.Cluster)
		want   []string
	}{
		"of a control plane": {
			change: func(c *inventory.Cluster) { controlPlane(c, 3, map[string]any{"maxSurge": int64(1)}) },
			want:   []string{"KubeadmControlPlane prod-cp of cluster prod: blocked: maxSurge is 1: " + asks},
		},
		"of a control plane by default": {
			change: func(c *inventory.Cluster) { controlPlane(c, 3, nil) },
			want:   []string{"KubeadmControlPlane prod-cp of cluster prod: blocked: maxSurge is 1: " + asks},
		},
		"of a small control plane": {
			change: func(c *inventory.Cluster) { controlPlane(c, 1, nil) },
			want:   []string{"KubeadmControlPlane prod-cp of cluster prod: blocked: a control plane of 1 cannot be updated in place"},
		},
		"of MachineDeployments": {
			change: func(c *inventory.Cluster) {
				deployment(c, clusterv1.MachineDeploymentRolloutStrategyRollingUpdate{MaxSurge: new(intstr.FromString("20%"))})
				c.Class = c.Class.DeepCopy()
				c.Class.Spec.Workers.MachineDeployments[0].Rollout.Strategy.RollingUpdate = clusterv1.MachineDeploymentClassRolloutStrategyRollingUpdate{}
			},
			want: []string{"MachineDeployment prod-there of cluster prod: blocked: maxSurge is 1: " + asks, "MachineDeployment of topology coming of cluster prod: blocked: maxSurge is 1: " + asks},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := read(t, updates()...)
			tt.change(&c)
			_, err := inventory.FromObjects([]inventory.Cluster{c})
			blocked, ok := errors.AsType[*inventory.BlockedError](err)
			if !ok || len(blocked.Groups) != len(tt.want) {
				t.Fatalf("the error is %v", err)
			}
			for i, want := range tt.want {
				if !strings.HasPrefix(blocked.Groups[i], want) {
					t.Errorf("%s, not %s", blocked.Groups[i], want)
				}
			}
		})
	}
}

// TestSurgeOfOurEngine: windlass manager makes no machine more in a group whose machines are kept,
// and updates at least one at a time.
func TestSurgeOfOurEngine(t *testing.T) {
	t.Parallel()
	c := read(t, updates()...)
	c.Engine = v1alpha1.EngineManager
	controlPlane(&c, 3, map[string]any{"maxSurge": int64(0)})
	deployment(&c,
		clusterv1.MachineDeploymentRolloutStrategyRollingUpdate{MaxSurge: new(intstr.FromInt32(2))})
	s := translate(t, c)
	limits := s.Config.Clusters[0].Pools[0].Limits()
	if limits.Surge != 0 || limits.Unavailable != 1 {
		t.Errorf("the limits are %+v", limits)
	}
}

func translate(t *testing.T, clusters ...inventory.Cluster) scenario.Simulation {
	t.Helper()
	got, err := inventory.FromObjects(clusters)
	if err != nil {
		t.Fatal(err)
	}
	s, err := scenario.Translate(got.File, scenario.Options{Sources: got.Sources})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSurgesAreThoseOfTheObjects: what objects leave out is Cluster API's default, and not that of
// a scenario.
func TestSurgesAreThoseOfTheObjects(t *testing.T) {
	t.Parallel()
	c := read(t, updates()...)
	controlPlane(&c, 3, nil)
	deployment(&c, clusterv1.MachineDeploymentRolloutStrategyRollingUpdate{})
	c.Policies[0].Spec.Fallback = v1alpha1.FallbackRollingUpdate
	s := translate(t, c)
	into := s.Config.Clusters[0]
	if into.ControlPlane.MaxSurge != 1 || !into.ControlPlane.Update.InPlace || into.Pools[0].MaxSurge != 1 || into.Pools[0].MaxUnavailable != 0 || !into.Pools[0].Update.InPlace {
		t.Errorf("the limits are %d, %d and %d", into.ControlPlane.MaxSurge, into.Pools[0].MaxSurge, into.Pools[0].MaxUnavailable)
	}
}

// TestAControlPlaneThatClusterAPIRefuses: the error names the object.
func TestAControlPlaneThatClusterAPIRefuses(t *testing.T) {
	t.Parallel()
	c := read(t)
	controlPlane(&c, 2, map[string]any{"maxSurge": int64(0)})
	_, err := inventory.FromObjects([]inventory.Cluster{c})
	if _, ok := errors.AsType[*snapshot.FieldError](err); !ok || !strings.Contains(err.Error(), "prod-cp") || !strings.Contains(err.Error(), "refuses maxSurge 0 below 3") {
		t.Errorf("the error is %v", err)
	}
}

// controlPlane gives a cluster's control plane replicas, and the fields of a rolling update.
func controlPlane(c *inventory.Cluster, replicas int64, rolling map[string]any) {
	object := c.Objects.ControlPlane.DeepCopy()
	object.Object["spec"] = map[string]any{"version": "v1.29.4", "replicas": replicas}
	if rolling != nil {
		object.Object["spec"] = map[string]any{"version": "v1.29.4", "replicas": replicas, "rollout": map[string]any{"strategy": map[string]any{"rollingUpdate": rolling}}}
	}
	c.Objects.ControlPlane = object
}

// deployment gives the MachineDeployment of a cluster another rolling update.
func deployment(c *inventory.Cluster, rolling clusterv1.MachineDeploymentRolloutStrategyRollingUpdate) {
	c.Objects.MachineDeployments = slices.Clone(c.Objects.MachineDeployments)
	for i, md := range c.Objects.MachineDeployments {
		if md.Name == "prod-there" {
			md = md.DeepCopy()
			md.Spec.Rollout.Strategy.RollingUpdate = rolling
			c.Objects.MachineDeployments[i] = md
		}
	}
}

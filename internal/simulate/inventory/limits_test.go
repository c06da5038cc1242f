package inventory_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/pool"
	"github.com/windlass-dev/windlass/internal/simulate/inventory"
	"github.com/windlass-dev/windlass/internal/snapshot"
)

// driven reads the cluster of the manifests, without a surge, as an engine drives it.
func driven(t *testing.T, engine string) inventory.Cluster {
	t.Helper()
	c := read(t, updates()...)
	c.Engine = engine
	controlPlane(&c, 3, map[string]any{"maxSurge": int64(0)})
	none := new(intstr.FromInt32(0))
	deployment(&c, clusterv1.MachineDeploymentRolloutStrategyRollingUpdate{MaxSurge: none})
	return c
}

// TestRolloutLimits: the limits of rollouts count where windlass manager drives the Cluster, also
// for machines that are replaced.
func TestRolloutLimits(t *testing.T) {
	t.Parallel()
	limits := new(pool.Limits(policy.Default()))
	limits.Canary, limits.Batches = intstr.FromString("25%"), []intstr.IntOrString{intstr.FromInt32(2)}
	limits.Partition, limits.MaxFailures, limits.Soak = intstr.FromInt32(1), 3, 90*time.Second
	limits.MachineDeadline, limits.GroupDeadline = 20*time.Minute, 3*time.Hour
	limits.Order = policy.Order{Labels: []string{"rack"}, OneAtATime: true}
	for name, tt := range map[string]struct {
		engine  string
		replace bool
		want    *pool.Limits
	}{
		"stock":             {},
		"windlass manager":  {engine: v1alpha1.EngineManager, want: limits},
		"stock, replaced":   {replace: true},
		"manager, replaced": {engine: v1alpha1.EngineManager, replace: true, want: limits},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := driven(t, tt.engine)
			spec := &c.Policies[0].Spec
			spec.MaxInFlight, spec.Canary, spec.Batches = 1, &limits.Canary, limits.Batches
			spec.Partition, spec.OnFailure, spec.MaxFailures = &limits.Partition, v1alpha1.FailurePause, 3
			spec.MachineDeadlineSeconds, spec.GroupDeadlineSeconds = 1200, 10800
			spec.Order = v1alpha1.UpdateOrder{Labels: limits.Order.Labels, OneAtATime: true}
			if tt.replace {
				spec.Strategy, spec.Fallback = v1alpha1.RollingUpdate, ""
			}
			s := translate(t, c)
			update := s.Config.Clusters[0].Pools[0].Update
			if diff := cmp.Diff(tt.want, update.Limits); diff != "" {
				t.Errorf("the limits (-want +got):\n%s", diff)
			}
			if update.InPlace == tt.replace {
				t.Errorf("updated in place: %t", update.InPlace)
			}
		})
	}
}

// TestLimitsOfAnUncoveredChange: windlass manager applies the limits also where machines are
// replaced because updaters do not cover the change, beside a group of the policy that is updated
// in place.
func TestLimitsOfAnUncoveredChange(t *testing.T) {
	t.Parallel()
	for engine, want := range map[string]int32{"": 0, v1alpha1.EngineManager: 3} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			c := driven(t, engine)
			c.Policies[0].Spec.Fallback, c.Policies[0].Spec.MaxInFlight = v1alpha1.FallbackRollingUpdate, 3
			for i, g := range snapshot.UpdateGroups(c.Objects, c.Class) {
				if !g.ControlPlane && i < len(c.Updates) {
					c.Updates[i] = cover.Update{Outcome: cover.Replace, Message: "not covered"}
				}
			}
			s := translate(t, c)
			into := s.Config.Clusters[0]
			if !into.ControlPlane.Update.InPlace || into.Pools[0].Update.InPlace {
				t.Errorf("in place: %t, %t", into.ControlPlane.Update.InPlace, into.Pools[0].Update.InPlace)
			}
			var got int32
			if limits := into.Pools[0].Update.Limits; limits != nil {
				got = limits.MaxInFlight
			}
			if got != want {
				t.Errorf("maxInFlight is %d, want %d", got, want)
			}
		})
	}
}

// TestLimitsOfTwoEngines: of two Clusters under one policy only the one that windlass manager
// drives has its limits, whichever is read first.
func TestLimitsOfTwoEngines(t *testing.T) {
	t.Parallel()
	for name, engines := range map[string][]string{
		"manager first": {v1alpha1.EngineManager, ""}, "stock first": {"", v1alpha1.EngineManager},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var clusters []inventory.Cluster
			for i, engine := range engines {
				c := driven(t, engine)
				c.Objects.Cluster = c.Objects.Cluster.DeepCopy()
				c.Objects.Cluster.Name = fmt.Sprintf("cluster-%d", i)
				clusters = append(clusters, c)
			}
			for i, c := range translate(t, clusters...).Config.Clusters {
				if limited := c.Pools[0].Update.Limits != nil; limited != (engines[i] != "") {
					t.Errorf("cluster %d: limited is %t, the engine is %q", i, limited, engines[i])
				}
			}
		})
	}
}

// TestLabelsThatCount: the labels of Machines that the order of a policy reads are those of the
// scenario's machines. Machines that lag behind come first.
func TestLabelsThatCount(t *testing.T) {
	t.Parallel()
	zone := corev1.LabelTopologyZone
	spare := &metav1.LabelSelector{MatchLabels: map[string]string{"spare": ""}}
	for name, tt := range map[string]struct {
		engine string
		order  v1alpha1.UpdateOrder
		// template are the labels of the template, and machines those of each Machine.
		template map[string]string
		machines []map[string]string
		want     []map[string]string
	}{
		"stock": {order: v1alpha1.UpdateOrder{Labels: []string{zone}}},
		"no order": {
			engine:   v1alpha1.EngineManager,
			machines: []map[string]string{{"rack": "a"}, {"rack": "b"}},
		},
		"racks": {
			engine:   v1alpha1.EngineManager,
			order:    v1alpha1.UpdateOrder{Labels: []string{"rack"}, Last: spare},
			machines: []map[string]string{{"rack": "b", "other": "x"}, {"spare": ""}},
			want:     []map[string]string{{"rack": "b"}, {"spare": ""}},
		},
		"failure domains": {
			engine: v1alpha1.EngineManager, order: v1alpha1.UpdateOrder{Labels: []string{zone}, Last: spare},
			want: []map[string]string{{zone: "z1"}, {zone: "z2"}},
		},
		"those of the template": {
			engine: v1alpha1.EngineManager, order: v1alpha1.UpdateOrder{Labels: []string{"rack"}},
			template: map[string]string{"rack": "a"},
			machines: []map[string]string{{"rack": "a"}, {"rack": "a"}},
			want:     []map[string]string{{"rack": "a"}},
		},
		"none": {engine: v1alpha1.EngineManager, order: v1alpha1.UpdateOrder{Labels: []string{"rack"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := driven(t, tt.engine)
			c.Policies[0].Spec.Order = tt.order
			i := 1 // m2 is the first Machine of the manifests, and m1 lags behind.
			for _, m := range c.Objects.Machines {
				pool := m.Labels[clusterv1.ClusterTopologyMachineDeploymentNameLabel]
				if tt.machines != nil && pool == "there" {
					label(m, tt.machines[i])
					i--
				}
			}
			for _, md := range c.Objects.MachineDeployments {
				md.Spec.Template.Labels = tt.template
			}
			got := translate(t, c).Config.Clusters[0].Pools[0].Update.Labels
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("the labels (-want +got):\n%s", diff)
			}
		})
	}
}

func label(m *clusterv1.Machine, set map[string]string) {
	for key, value := range set {
		metav1.SetMetaDataLabel(&m.ObjectMeta, key, value)
	}
}

package app

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
)

// TestClusterUrgency: the Cluster controller gets its own summary of workers not at all, and statuses
// in the middle of a rollout later.
func TestClusterUrgency(t *testing.T) {
	t.Parallel()
	cluster := func(change func(*clusterv1.Cluster)) *clusterv1.Cluster {
		c := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c", ResourceVersion: "1"}}
		conditions.Set(c, metav1.Condition{Type: clusterv1.ClusterRollingOutCondition, Status: "False"})
		if change != nil {
			c.ResourceVersion = "2"
			change(c)
		}
		return c
	}
	group := func(change func(*clusterv1.MachineDeployment)) *clusterv1.MachineDeployment {
		md := &clusterv1.MachineDeployment{}
		md.Spec.ClusterName, md.Spec.Replicas = "c", new(int32(2))
		change(md)
		return md
	}
	rolling := func(*clusterv1.MachineDeployment) {}
	for _, test := range []struct {
		name          string
		before, after any
		want          urgency
	}{
		{"a resync", cluster(nil), cluster(nil), now},
		{"workers in the Cluster's status", cluster(nil), cluster(func(c *clusterv1.Cluster) {
			c.Status.Workers = &clusterv1.WorkersStatus{Replicas: new(int32(1))}
			conditions.Set(c, metav1.Condition{Type: clusterv1.ClusterRollingOutCondition, Status: "True"})
		}), never},
		{"another condition", cluster(nil), cluster(func(c *clusterv1.Cluster) {
			conditions.Set(c, metav1.Condition{Type: clusterv1.ClusterInfrastructureReadyCondition, Status: "True"})
		}), now},
		{"the Cluster's phase", cluster(nil), cluster(func(c *clusterv1.Cluster) { c.Status.Phase = "x" }), now},
		{"the Cluster's spec", cluster(nil), cluster(func(c *clusterv1.Cluster) { c.Generation = 2 }), now},
		{"the Cluster's labels", cluster(nil), cluster(func(c *clusterv1.Cluster) {
			c.Labels = map[string]string{"a": "b"}
		}), now},
		{"a counter of a group in a rollout", group(rolling), group(func(md *clusterv1.MachineDeployment) {
			md.Status.ReadyReplicas = new(int32(1))
		}), soon},
		{"a group's spec", group(rolling), group(func(md *clusterv1.MachineDeployment) {
			md.Generation = 2
		}), now},
		{"the generation that a group has observed", group(rolling), group(func(md *clusterv1.MachineDeployment) {
			md.Status.ObservedGeneration = 2
		}), now},
		{"another kind", &clusterv1.Machine{}, &clusterv1.Machine{}, now},
	} {
		if got := clusterUrgency(test.before, test.after); got != test.want {
			t.Errorf("%s: urgency %d, want %d", test.name, got, test.want)
		}
	}
}

// TestClusterEventsByWatchLabel: one update waits for all MachineDeployments of a Cluster that a
// watch filter treats alike, and for no other.
func TestClusterEventsByWatchLabel(t *testing.T) {
	t.Parallel()
	rules, waiting := clusterEvents(), []func(){}
	rules.later = func(_ time.Duration, f func()) { waiting = append(waiting, f) }
	var passed []string
	handler := rules.narrow(toolscache.ResourceEventHandlerFuncs{UpdateFunc: func(_, after any) {
		if md, ok := after.(*clusterv1.MachineDeployment); ok {
			passed = append(passed, md.Name)
		}
	}})
	for _, md := range []struct{ name, cluster, label string }{
		{"a", "c", "theirs"}, {"b", "c", "ours"}, {"c", "c", "ours"}, {"d", "c", ""}, {"e", "d", "ours"},
	} {
		before := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Name: md.name}}
		before.Spec.ClusterName, before.Spec.Replicas = md.cluster, new(int32(2))
		if md.label != "" {
			before.Labels = map[string]string{clusterv1.WatchLabel: md.label}
		}
		after := before.DeepCopy()
		after.Status.ReadyReplicas = new(int32(1))
		handler.OnUpdate(before, after)
	}
	for _, f := range waiting {
		f()
	}
	if diff := cmp.Diff([]string{"a", "c", "d", "e"}, passed); diff != "" {
		t.Errorf("the updates that the controller gets (-want +got):\n%s", diff)
	}
}

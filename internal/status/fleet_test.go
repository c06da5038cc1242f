package status

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
)

// TestComputeFleet: what waits for a person is first, and the longest of it before all others.
func TestComputeFleet(t *testing.T) {
	t.Parallel()
	named := func(name string, change func(*clusterv1.Cluster)) *clusterv1.Cluster {
		c := glanced(change)
		c.Name, c.UID = name, "uid-"+c.UID
		c.Status.ControlPlane.DesiredReplicas, c.Status.Workers.DesiredReplicas = new(int32(3)), new(int32(5))
		c.Status.Workers.UpToDateReplicas = new(int32(2))
		return c
	}
	atRest := func(c *clusterv1.Cluster) {
		c.Annotations = nil
		c.Spec.Topology.Version = "v1.30.0"
		c.Status.ControlPlane.Versions = nil
		c.Status.Conditions = []metav1.Condition{{
			Type: clusterv1.ClusterControlPlaneInitializedCondition, Status: metav1.ConditionTrue,
		}}
	}
	blocked := func(c *clusterv1.Cluster) {
		upgrades(c, "ClusterUpgrading", "Cluster is upgrading to v1.33.0\n  * Following hooks are blocking upgrade: BeforeWorkersUpgrade: no")
	}
	gate := v1alpha1.UpgradeGate{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "approval"}}
	gate.Status.Waiting = []v1alpha1.GateWaiting{{
		Cluster: "gated", ClusterUID: "uid-gated", At: "BeforeWorkersUpgrade", Since: metav1.NewTime(after(time.Hour)),
	}}
	gated, approved := named("gated", blocked), named("approved", blocked)
	gated.UID, approved.UID = "uid-gated", "uid-approved"
	const step = "v1.33.0"
	gate.Status.Waiting = append(gate.Status.Waiting, v1alpha1.GateWaiting{
		ClusterUID: "uid-approved", At: "BeforeWorkersUpgrade", Version: step, Since: metav1.NewTime(start), Message: "needs approval: x",
	})
	gate.Status.Approvals = []v1alpha1.GateApprovalRecord{{
		ClusterUID: "uid-approved", At: "BeforeWorkersUpgrade", Version: step, Time: metav1.NewTime(after(3 * time.Hour)),
	}}
	failed := func(cluster string, since time.Duration) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Namespace: "team-a", Name: "m", Labels: map[string]string{clusterv1.ClusterNameLabel: cluster},
			Annotations: map[string]string{v1alpha1.UpdateProgressAnnotation: fmt.Sprintf(
				`{"phase": "Failed", "started": %q}`, after(since).Format(time.RFC3339))},
		}}
	}
	f := FleetFacts{
		Clusters: []*clusterv1.Cluster{
			named("resting", atRest), named("moving", nil), named("blocked", blocked), gated, approved,
			named("broken", nil),
			named("no-path", func(c *clusterv1.Cluster) { upgrades(c, "ReconcileFailed", "it fails") }),
			named("paused", func(c *clusterv1.Cluster) { c.Spec.Paused = new(true) }),
			named("leaving", func(c *clusterv1.Cluster) { c.DeletionTimestamp = new(metav1.NewTime(start)) }),
			named("no-topology", func(c *clusterv1.Cluster) {
				atRest(c)
				c.Spec.Topology = clusterv1.Topology{}
			}),
			named("new", func(c *clusterv1.Cluster) {
				atRest(c)
				c.Status.Conditions = nil
			}),
		},
		Gates:    []v1alpha1.UpgradeGate{gate},
		Machines: []*metav1.PartialObjectMetadata{failed("broken", 2*time.Hour), failed("broken", time.Minute), failed("other", 0)},
		Hidden:   []string{"Machines of namespace team-b"},
	}
	fleet := ComputeFleet(f, after(3*time.Hour))
	var got []string
	for _, o := range fleet.Clusters {
		line := fmt.Sprintf("%s %s %t %s->%s %d/%d", o.Cluster, o.State, o.NeedsPerson, o.From, o.Target, o.UpToDate, o.Machines)
		for _, h := range o.Holds {
			line += fmt.Sprintf("; %s %s %s", h.Kind, h.By, h.Message)
			if !h.Since.IsZero() {
				line += fmt.Sprintf(" +%s", h.Since.Sub(start))
			}
		}
		got = append(got, line)
	}
	want := []string{
		"broken Held true v1.30.0->v1.33.0 2/8; Machines  2 failed updates +1m0s",
		"gated Held true v1.30.0->v1.33.0 2/8; UpgradeGate approval  +1h0m0s",
		"no-path Held true v1.30.0->v1.33.0 2/8; Failure  it fails",
		"paused Paused true v1.30.0->v1.33.0 2/8; Pause  ",
		"approved Held false v1.30.0->v1.33.0 2/8; UpgradeGate approval  +0s",
		"blocked Held false v1.30.0->v1.33.0 2/8; Hook BeforeWorkersUpgrade ",
		"moving Upgrading false v1.30.0->v1.33.0 2/8",
		"leaving Deleting false ->v1.33.0 2/8",
		"new Creating false ->v1.30.0 2/8",
		"no-topology Unknown false -> 2/8",
		"resting UpToDate false ->v1.30.0 2/8",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(f.Hidden, []string(fleet.Hidden)); diff != "" || !fleet.AsOf.Equal(after(3*time.Hour)) {
		t.Errorf("%s %s", fleet.AsOf, diff)
	}
}

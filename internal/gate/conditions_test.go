package gate_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/gate"
)

func TestComputeStatus(t *testing.T) {
	earlier, now := metav1.NewTime(time.Unix(1000, 0)), metav1.NewTime(time.Unix(2000, 0))
	condition := func(kind, status, reason, message string, at metav1.Time) metav1.Condition {
		return metav1.Condition{
			Type: kind, Status: metav1.ConditionStatus(status), Reason: reason, Message: message, ObservedGeneration: 4, LastTransitionTime: at,
		}
	}
	valid, none := condition("Ready", "True", "Valid", "", now), condition("Waiting", "False", "NoClusterWaits", "", now)
	invalid := func(message string) []metav1.Condition {
		return []metav1.Condition{condition("Ready", "False", "InvalidSpec", message, now), condition("Stalled", "True", "InvalidSpec", message, now), none}
	}
	noClusters := condition("Ready", "True", "NoClusters", "the gate is for no Cluster: none of its namespace matches spec.clusterName or "+
		"spec.clusterSelector. Fix: compare them with the names and labels of the Clusters", now)
	elsewhere := []gate.Cluster{{Name: "prod", Labels: map[string]string{"tier": "prod"}}}
	for name, test := range map[string]struct {
		edit func(*v1alpha1.UpgradeGate)
		want []metav1.Condition
	}{
		"another name": {func(g *v1alpha1.UpgradeGate) { g.Spec.ClusterName = "pord" }, []metav1.Condition{noClusters, none}},
		"other labels": {func(g *v1alpha1.UpgradeGate) {
			g.Spec.ClusterSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "test"}}
		}, []metav1.Condition{noClusters, none}},
		"its labels": {func(g *v1alpha1.UpgradeGate) {
			g.Spec.ClusterSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "prod"}}
		}, []metav1.Condition{valid, none}},
		"new": {func(*v1alpha1.UpgradeGate) {}, []metav1.Condition{valid, none}},
		"a Cluster waits": {func(g *v1alpha1.UpgradeGate) {
			g.Status.Waiting = []v1alpha1.GateWaiting{{Cluster: "prod"}}
		}, []metav1.Condition{valid, condition("Waiting", "True", "ClustersWait", "these Clusters wait: prod", now)}},
		"many Clusters wait": {func(g *v1alpha1.UpgradeGate) {
			for name := range strings.SplitSeq("a b c d e f g", " ") {
				g.Status.Waiting = append(g.Status.Waiting, v1alpha1.GateWaiting{Cluster: name})
			}
		}, []metav1.Condition{valid, condition("Waiting", "True", "ClustersWait", "these Clusters wait: a, b, c, d, e and 2 more", now)}},
		"unchanged keeps its time": {func(g *v1alpha1.UpgradeGate) {
			g.Status.Conditions = []metav1.Condition{condition("Ready", "True", "Valid", "", earlier), condition("Waiting", "False", "NoClusterWaits", "", earlier)}
		}, []metav1.Condition{condition("Ready", "True", "Valid", "", earlier), condition("Waiting", "False", "NoClusterWaits", "", earlier)}},
		"a selector": {func(g *v1alpha1.UpgradeGate) {
			g.Spec.ClusterSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Is"}}}
		}, invalid(`spec.clusterSelector: "Is" is not a valid label selector operator`)},
		"a version": {func(g *v1alpha1.UpgradeGate) { g.Spec.Steps[0].Versions = []v1alpha1.GateVersion{"v1.32", "v1.x"} },
			invalid(`spec.steps[0].versions[1]: "v1.x" is not a Kubernetes version: write all three numbers, such as v1.31.2`)},
		"a time zone": {func(g *v1alpha1.UpgradeGate) {
			g.Spec.Requires.Windows = []v1alpha1.GateWindow{{TimeZone: "Europe/Atlantis", From: "22:00", To: "04:00"}}
		}, invalid(`spec.requires.windows[0]: timeZone: "Europe/Atlantis" is not in the time zone database. Fix: write a name such as Europe/Berlin or UTC`)},
		"a check of a later release": {func(g *v1alpha1.UpgradeGate) {
			g.Spec.Requires.Checks = []v1alpha1.GateCheck{"MoonIsFull", "NodesReady"}
		},
			invalid(`there is no check "MoonIsFull" in this version of Windlass`)},
	} {
		t.Run(name, func(t *testing.T) {
			g := &v1alpha1.UpgradeGate{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g", Generation: 4},
				Spec:       v1alpha1.UpgradeGateSpec{Steps: []v1alpha1.GateStep{{At: "BeforeWorkersUpgrade"}}},
			}
			test.edit(g)
			before := g.DeepCopy()
			idle := gate.IsIdle(g, elsewhere)
			got := gate.ComputeStatus(g, idle, now)
			if was := gate.WasIdle(&v1alpha1.UpgradeGate{Status: got}); was != idle {
				t.Errorf("the status says idle: %t, want %t", was, idle)
			}
			if diff := cmp.Diff(test.want, got.Conditions); diff != "" || got.ObservedGeneration != 4 {
				t.Errorf("observedGeneration %d, conditions (-want +got):\n%s", got.ObservedGeneration, diff)
			}
			if diff := cmp.Diff(before, g); diff != "" {
				t.Errorf("ComputeStatus changed its input (-before +after):\n%s", diff)
			}
		})
	}
}

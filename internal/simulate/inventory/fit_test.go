package inventory_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/simulate/fleet"
	"github.com/windlass-dev/windlass/internal/simulate/inventory"
	"github.com/windlass-dev/windlass/internal/simulate/scenario"
	"github.com/windlass-dev/windlass/internal/snapshot"
	"github.com/windlass-dev/windlass/pkg/version"
)

var (
	began  = time.Date(2026, time.March, 1, 8, 0, 0, 0, time.UTC)
	target = version.MustParse("v1.31.1")
)

// machine is a new one of a group; the control plane's is empty.
func machine(name, group string, created, ready time.Duration) *clusterv1.Machine {
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(began.Add(created)), Labels: map[string]string{}}}
	m.Spec.Version = target.String()
	m.Labels[clusterv1.ClusterTopologyMachineDeploymentNameLabel] = group
	if group == "" {
		m.Labels = map[string]string{clusterv1.MachineControlPlaneLabel: ""}
	}
	if ready > 0 {
		for i, kind := range []string{clusterv1.MachineNodeReadyCondition, clusterv1.MachineNodeHealthyCondition, clusterv1.MachineReadyCondition} {
			// The later ones were lost and came back.
			at := metav1.NewTime(began.Add(ready + time.Duration(i)*100*time.Hour))
			m.Status.Conditions = append(m.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, LastTransitionTime: at})
		}
	}
	return m
}

// updated is a machine that was updated in place for so long.
func updated(t *testing.T, name, group string, took time.Duration, done ...inplace.Finished) *clusterv1.Machine {
	t.Helper()
	m := machine(name, group, -1000*time.Hour, 0)
	text, err := json.Marshal(inplace.Summary{To: target, Began: began, Ended: began.Add(took), Done: done})
	if err != nil {
		t.Fatal(err)
	}
	m.Annotations = map[string]string{v1alpha1.LastUpdateAnnotation: string(text)}
	return m
}

func objects(machines ...*clusterv1.Machine) inventory.FitObjects {
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "old"}}
	cluster.Spec.Topology.ClassRef.Name = "class"
	cluster.Spec.Topology.Version = target.String()
	cluster.Spec.Topology.Workers.MachineDeployments = []clusterv1.MachineDeploymentTopology{{Name: "md"}, {Name: "fast"}}
	policy := v1alpha1.UpdatePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "p"}}
	policy.Spec = v1alpha1.UpdatePolicySpec{
		Targets: []v1alpha1.UpdateTarget{{MachineDeployments: []v1alpha1.MachineDeploymentName{"md"}}}, Strategy: v1alpha1.ExternalUpdate, Drain: true, SoakSeconds: 30,
	}
	return inventory.FitObjects{Objects: snapshot.Objects{Cluster: cluster, Machines: machines}, Policies: []v1alpha1.UpdatePolicy{policy}}
}

func TestReplacedMachines(t *testing.T) {
	t.Parallel()
	old := machine("w0", "md", -time.Hour, 0)
	old.Spec.Version = "v1.30.0"
	coming := machine("w9", "md", 50*time.Minute, 0)
	got, err := inventory.Fit(objects(
		machine("c2", "", 10*time.Minute, 14*time.Minute), machine("c1", "", 0, 5*time.Minute), machine("c3", "", 15*time.Minute, 21*time.Minute),
		// These were not made one after another, so that nothing shows between them; those of the other group were.
		machine("w1", "md", 0, 3*time.Minute), machine("w2", "md", time.Minute, 8*time.Minute), machine("w3", "md", 20*time.Minute, 25*time.Minute),
		machine("f1", "fast", 0, 2*time.Minute), machine("f2", "fast", 4*time.Minute+4*time.Second, 7*time.Minute+4*time.Second),
		machine("flapping", "md", 0, 7*time.Hour), old, coming,
	))
	if err != nil {
		t.Fatal(err)
	}
	want := inventory.Fitted{
		// KubeadmControlPlane's controller noticed twice, in a second each; so did a MachineDeployment's, and a MachineSet's after it.
		Durations:    scenario.Durations{Create: "[2m,3m,3m,5m,7m]", Delete: "[2m]"},
		ControlPlane: scenario.Durations{Create: "[4m,5m,6m]", Delete: "[58s,4m58s]"},
		Notes: []string{
			"measured: creating a machine, 2m0s to 7m0s, from 5 machines (workers of cluster old)",
			"measured: deleting a machine, 2m0s to 2m0s, from 1 machine (workers of cluster old)",
			"measured: creating a machine, 4m0s to 6m0s, from 3 machines (the control plane of cluster old)",
			"measured: deleting a machine, 58s to 4m58s, from 2 machines (the control plane of cluster old)",
			"left out: 1 duration that cannot be of one machine's update, or cannot be read",
			"left out: 1 machine of cluster old not at v1.31.1",
		},
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("another fit (-want +got):\n%s", diff)
	}
}

// TestOnlyMachineOfAGroup: nothing comes after it, but its group says when the one before was gone.
func TestOnlyMachineOfAGroup(t *testing.T) {
	t.Parallel()
	condition := func(kind string, status metav1.ConditionStatus, at time.Duration) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, LastTransitionTime: metav1.NewTime(began.Add(at))}
	}
	md := func(name string, status metav1.ConditionStatus, at time.Duration) *clusterv1.MachineDeployment {
		md := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{clusterv1.ClusterTopologyMachineDeploymentNameLabel: name}}}
		md.Status.Conditions = []metav1.Condition{condition(clusterv1.RollingOutCondition, status, at)}
		return md
	}
	o := objects(machine("c", "", 0, 5*time.Minute), machine("w", "md", 10*time.Minute, 13*time.Minute), machine("f", "fast", 20*time.Minute, 23*time.Minute))
	// Of the second group the old machine went first; and one that is not a part of the topology is not measured.
	o.Objects.MachineDeployments = []*clusterv1.MachineDeployment{
		md("md", metav1.ConditionFalse, 14*time.Minute+2*time.Second), md("fast", metav1.ConditionFalse, 21*time.Minute), md("", metav1.ConditionFalse, 40*time.Minute),
	}
	conditions := []any{map[string]any{
		"type": clusterv1.RollingOutCondition, "status": "False", "lastTransitionTime": began.Add(7*time.Minute + time.Second).Format(time.RFC3339),
	}}
	o.Objects.ControlPlane = &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": conditions}}}
	got, err := inventory.Fit(o)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(scenario.Durations{Create: "[3m,3m]", Delete: "[1m]"}, got.Durations, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("workers (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(scenario.Durations{Create: "[5m]", Delete: "[2m]"}, got.ControlPlane, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("control plane (-want +got):\n%s", diff)
	}

	// A rollout that is not over tells nothing, nor does what is no condition.
	o.Objects.MachineDeployments = []*clusterv1.MachineDeployment{md("md", metav1.ConditionTrue, 14*time.Minute)}
	for _, strange := range []any{"none", []any{"none"}, nil} {
		o.Objects.ControlPlane.Object["status"] = map[string]any{"conditions": strange}
		if got, err := inventory.Fit(o); err != nil || got.Durations.Delete+got.ControlPlane.Delete != "" {
			t.Errorf("conditions %v: %+v, %v", strange, got, err)
		}
	}
}

func TestMachinesUpdatedInPlace(t *testing.T) {
	t.Parallel()
	garbage := updated(t, "garbage", "md", time.Minute)
	garbage.Annotations[v1alpha1.LastUpdateAnnotation] = "{"
	unchanged := updated(t, "unchanged", "md", time.Minute, inplace.Finished{Updater: "k8s", Attempts: 1, Seconds: 9})
	unchanged.Annotations[v1alpha1.LastUpdateAnnotation] = strings.Replace(unchanged.Annotations[v1alpha1.LastUpdateAnnotation], `"to"`, `"from":"v1.31.1","to"`, 1)
	got, err := inventory.Fit(objects(
		unchanged,
		// 5 minutes, of which updaters take 3, the soak takes half of one, and the drain the rest. The second updater was asked a second after the first had
		// ended.
		updated(t, "a", "md", 5*time.Minute, inplace.Finished{Updater: "os", Attempts: 1, Seconds: 120}, inplace.Finished{Updater: "k8s", Attempts: 1, Seconds: 60}),
		updated(t, "b", "md", 10*time.Minute, inplace.Finished{Updater: "os", Attempts: 2, Seconds: 400}, inplace.Finished{Updater: "k8s", Attempts: 1, Seconds: 80}),
		// Nodes of this group are not drained.
		updated(t, "c", "fast", 2*time.Minute, inplace.Finished{Updater: "k8s", Attempts: 1, Seconds: 100}),
		updated(t, "d", "", time.Minute, inplace.Finished{Updater: "cp", Attempts: 1, Seconds: 50}),
		garbage,
	))
	if err != nil {
		t.Fatal(err)
	}
	want := inventory.Fitted{
		Durations: scenario.Durations{
			Drain: "[1m30s,1m30s]", Settle: "0s", Updaters: map[string]string{"os": "[2m]", "k8s": "[59s,1m19s,1m40s]", "cp": "[50s]"},
		},
		Notes: []string{
			"measured: draining a node, 1m30s to 1m30s, from 2 machines (workers of cluster old)",
			"measured: updater \"k8s\" until the node is Ready, 59s to 1m40s, from 3 machines (workers of cluster old)",
			"measured: updater \"os\" until the node is Ready, 2m0s to 2m0s, from 1 machine (workers of cluster old)",
			"measured: updater \"cp\" until the node is Ready, 50s to 50s, from 1 machine (the control plane of cluster old)",
			"how long deleting a machine takes could not be measured: no group that made its new machines one after another says when an old one was gone",
			"left out: 1 time of updaters that took more than one attempt; see failures.updateFails",
			"left out: 1 duration that cannot be of one machine's update, or cannot be read",
			"left out: 1 machine of cluster old whose last update in place changed no version",
		},
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("another fit (-want +got):\n%s", diff)
	}
}

// TestOnlyTheLastUpgradeCounts: what a machine took to an older version says nothing about this one.
func TestOnlyTheLastUpgradeCounts(t *testing.T) {
	t.Parallel()
	before := updated(t, "a", "md", time.Minute, inplace.Finished{Updater: "k8s", Attempts: 1, Seconds: 50})
	before.Annotations[v1alpha1.LastUpdateAnnotation] = strings.Replace(before.Annotations[v1alpha1.LastUpdateAnnotation], "v1.31.1", "v1.30.0", 1)
	for name, o := range map[string]inventory.FitObjects{"none": objects(), "an older update": objects(before), "not Ready yet": objects(machine("w", "md", 0, 0))} {
		if f, err := inventory.Fit(o); err == nil || !strings.Contains(err.Error(), "name a cluster that was upgraded") {
			t.Errorf("%s: fitted %+v, %v", name, f, err)
		}
	}
	broken := objects()
	broken.Objects.Cluster.Spec.Topology.Version = "new"
	if _, err := inventory.Fit(broken); err == nil {
		t.Error("a cluster without a version is fitted")
	}
}

// TestApply: what a scenario says counts, and what it does not know is left out.
func TestApply(t *testing.T) {
	t.Parallel()
	f := inventory.Fitted{
		Durations:    scenario.Durations{Create: "[3m]", Drain: "[1m]", Updaters: map[string]string{"k8s": "[2m]", "gone": "[9m]"}},
		ControlPlane: scenario.Durations{Create: "[5m]", Drain: "[4m]", Updaters: map[string]string{"k8s": "[7m]"}},
		Notes:        []string{"measured"},
	}
	file := scenario.File{
		Clusters:  []scenario.Cluster{{Name: "c", From: "v1.29.0", To: "v1.30.0"}},
		Policies:  []scenario.Policy{{Name: "p", Strategy: scenario.StrategyInPlace, Updaters: []scenario.Updater{{Name: "k8s"}}}},
		Durations: scenario.Durations{Drain: "8m"},
	}
	before := fmt.Sprintf("%+v", file)
	got, notes := f.Apply(file)
	want := file
	want.Durations = scenario.Durations{Create: "[3m]", Drain: "8m", Updaters: map[string]string{"k8s": "[2m]"}}
	want.Clusters = []scenario.Cluster{{
		Name: "c", From: "v1.29.0", To: "v1.30.0",
		ControlPlane: scenario.ControlPlane{Machines: scenario.Machines{Durations: scenario.Durations{Create: "[5m]", Updaters: map[string]string{"k8s": "[7m]"}}}},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("another scenario (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"measured", "measured, and not used, because no policy here has such updaters: [\"gone\"]"}, notes); diff != "" {
		t.Errorf("other notes (-want +got):\n%s", diff)
	}
	if after := fmt.Sprintf("%+v", file); after != before {
		t.Errorf("the argument was changed to %s", after)
	}
	if _, err := scenario.Translate(got, scenario.Options{}); err != nil {
		t.Error(err)
	}
}

// TestWhatCannotBeIsLeftOut: whoever may write annotations may write anything.
func TestWhatCannotBeIsLeftOut(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		seconds, took := rapid.Int64().Draw(t, "seconds"), rapid.Int64().Draw(t, "took")
		text, err := json.Marshal(inplace.Summary{
			To: target, Began: began, Ended: began.Add(time.Duration(took)),
			Done: []inplace.Finished{{Updater: rapid.String().Draw(t, "updater"), Attempts: rapid.Int().Draw(t, "attempts"), Seconds: seconds}},
		})
		if err != nil {
			t.Fatal(err)
		}
		m := machine("a", "md", 0, 0)
		m.Annotations = map[string]string{v1alpha1.LastUpdateAnnotation: string(text)}
		got, err := inventory.Fit(objects(m, machine("b", "md", 0, time.Minute)))
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range append(slices.Collect(maps.Values(got.Durations.Updaters)), got.Durations.Create) {
			d, err := fleet.ParseDistribution(word)
			if err != nil || d.At(1) > 6*time.Hour {
				t.Fatalf("%s: %v", word, err)
			}
		}
	})
}

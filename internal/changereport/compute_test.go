package changereport_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/chain"
	"github.com/windlass-dev/windlass/internal/changereport"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/snapshot"
	"github.com/windlass-dev/windlass/internal/status"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

var update = flag.Bool("update", false, "write the golden files anew")

var start = time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)

func after(d time.Duration) time.Time   { return start.Add(d) }
func stamp(d time.Duration) metav1.Time { return metav1.NewTime(after(d)) }
func v(s string) version.Version        { return version.MustParse(s) }
func list(s ...string) (l plan.VersionList) { // in order
	for _, each := range s {
		l = append(l, v(each))
	}
	return l
}

func encode(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// newFacts are those of a Cluster whose control plane and machines are at a version.
func newFacts(target, controlPlane, reported string) changereport.Facts {
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "prod", Namespace: "team-a", UID: "u1", Annotations: map[string]string{}}}
	cluster.Spec.Topology = clusterv1.Topology{ClassRef: clusterv1.ClusterClassRef{Name: "class"}, Version: target}
	cluster.Spec.Topology.Workers.MachineDeployments = []clusterv1.MachineDeploymentTopology{{Name: "md-0"}}
	cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{Kind: "KubeadmControlPlane", Name: "prod-cp", APIGroup: "controlplane.cluster.x-k8s.io"}
	md := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{
		Name: "prod-md-0", Namespace: "team-a", Labels: map[string]string{clusterv1.ClusterTopologyMachineDeploymentNameLabel: "md-0"},
	}}
	md.Spec.Template.Spec.Version = reported
	f := changereport.Facts{}
	f.Objects = snapshot.Objects{
		Cluster: cluster, MachineDeployments: []*clusterv1.MachineDeployment{md},
		ControlPlane: &unstructured.Unstructured{Object: map[string]any{
			"kind":     "KubeadmControlPlane",
			"metadata": map[string]any{"name": "prod-cp", "namespace": "team-a", "annotations": map[string]any{v1alpha1.ChainStepAnnotation: controlPlane}},
			"spec":     map[string]any{"version": controlPlane, "replicas": int64(1)},
			"status":   map[string]any{"version": reported},
		}},
	}
	f.Upgrade = &status.UpgradeFacts{Source: list("v1.30.2", "v1.31.4", "v1.32.1")}
	return f
}

func addMachine(f *changereport.Facts, name, at string, created time.Time, change func(*clusterv1.Machine)) {
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: "team-a", CreationTimestamp: metav1.NewTime(created), Annotations: map[string]string{},
		Labels: map[string]string{clusterv1.MachineDeploymentNameLabel: "prod-md-0"},
	}}
	if strings.HasPrefix(name, "cp") {
		m.Labels = map[string]string{clusterv1.MachineControlPlaneLabel: ""}
	}
	m.Spec.Version, m.Status.NodeInfo = at, &corev1.NodeSystemInfo{KubeletVersion: at}
	if change != nil {
		change(m)
	}
	f.Machines = append(f.Machines, m)
}

func ready(d time.Duration) func(*clusterv1.Machine) {
	return func(m *clusterv1.Machine) {
		m.Status.Conditions = []metav1.Condition{{Type: clusterv1.MachineReadyCondition, Status: metav1.ConditionTrue, LastTransitionTime: stamp(d)}}
	}
}

func updated(t *testing.T, from, to time.Duration, attempts int) func(*clusterv1.Machine) {
	t.Helper()
	s := inplace.Summary{ID: "1", From: v("v1.31.4"), To: v("v1.32.1"), Began: after(from), Ended: after(to), Done: []inplace.Finished{{
		Updater: "apt", Attempts: attempts, Seconds: int64((to - from).Seconds()),
	}}}
	return func(m *clusterv1.Machine) { m.Annotations[v1alpha1.LastUpdateAnnotation] = encode(t, s) }
}

func newGate(name string, change func(*v1alpha1.UpgradeGateStatus)) v1alpha1.UpgradeGate {
	g := v1alpha1.UpgradeGate{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "team-a", Generation: 2}}
	g.Spec.Requires.Approval = &v1alpha1.GateApproval{}
	change(&g.Status)
	return g
}

func way() chain.Progress {
	return chain.Progress{
		From: v("v1.30.2"), Target: v("v1.32.1"), At: v("v1.30.2"), Began: start,
		Planned: &chain.Planned{Made: start, ControlPlane: list("v1.31.4", "v1.32.1"), Workers: list("v1.32.1")},
		Steps:   []chain.Step{{To: v("v1.31.4"), Began: after(time.Minute), ControlPlane: after(10 * time.Minute)}},
	}
}

// ended is an upgrade that has ended, with machines of each kind and a gate that held it.
func ended(t *testing.T) changereport.Facts {
	t.Helper()
	f := newFacts("v1.32.1", "v1.32.1", "v1.32.1")
	past := chain.Past{Progress: way(), Ended: after(2 * time.Hour)}
	past.Steps = append(past.Steps, chain.Step{To: v("v1.32.1"), Began: after(11 * time.Minute), ControlPlane: after(time.Hour), Workers: after(119 * time.Minute)})
	f.Cluster.Annotations[v1alpha1.LastUpgradeAnnotation] = encode(t, past)
	addMachine(&f, "cp-1", "v1.32.1", after(12*time.Minute), ready(14*time.Minute))
	addMachine(&f, "w-1", "v1.32.1", after(-time.Hour), updated(t, 61*time.Minute, 65*time.Minute, 1))
	addMachine(&f, "w-2", "v1.32.1", after(-time.Hour), updated(t, 66*time.Minute, 80*time.Minute, 3))
	addMachine(&f, "w-3-after", "v1.32.1", after(-time.Hour), updated(t, 3*time.Hour, 4*time.Hour, 1))
	addMachine(&f, "w-4-scaled", "v1.32.1", after(5*time.Hour), ready(6*time.Hour))
	addMachine(&f, "w-5-new", "v1.32.1", after(90*time.Minute), nil)
	f.Upgrade.Gates = []v1alpha1.UpgradeGate{
		newGate("owner", func(s *v1alpha1.UpgradeGateStatus) {
			s.Passed = []v1alpha1.GatePassed{
				{Cluster: "prod", ClusterUID: "u1", At: "BeforeWorkersUpgrade", Version: "v1.32.1", Since: stamp(50 * time.Minute), Time: stamp(time.Hour), ApprovedBy: "jane", ApprovedTime: stamp(59 * time.Minute)},
				{Cluster: "prod", ClusterUID: "u1", At: "AfterControlPlaneUpgrade", Version: "v1.31.4", ApprovedBy: "<b>joe</b>\x1b[31m", ApprovedTime: stamp(-time.Hour)},
				{Cluster: "prod", ClusterUID: "u1", At: "BeforeWorkersUpgrade", Version: "v1.30.2", ApprovedBy: "of the upgrade before", ApprovedTime: stamp(-50 * time.Hour)},
				{Cluster: "prod", ClusterUID: "u0", At: "BeforeWorkersUpgrade", Version: "v1.32.1", ApprovedBy: "of another Cluster of the name", ApprovedTime: stamp(time.Hour)},
			}
			s.Approvals = []v1alpha1.GateApprovalRecord{
				{Cluster: "prod", ClusterUID: "u1", At: "AfterClusterUpgrade", Version: "v1.32.1", Generation: 1, By: "ann", Time: stamp(100 * time.Minute)},
				{Cluster: "prod", ClusterUID: "u1", At: "BeforeWorkersUpgrade", Version: "v1.33.0", Generation: 2, By: "for the next upgrade", Time: stamp(time.Hour)},
			}
		}),
	}
	warning := func(kind, name string, at time.Duration, message string) corev1.Event {
		return corev1.Event{
			InvolvedObject: corev1.ObjectReference{Kind: kind, Name: name}, Type: corev1.EventTypeWarning, Reason: "Failed", Message: message,
			FirstTimestamp: stamp(at), LastTimestamp: stamp(at + time.Minute), Count: 3,
		}
	}
	f.Warnings = []corev1.Event{
		warning("Machine", "w-1", 62*time.Minute, "w-1: no room"), warning("Machine", "w-2", 67*time.Minute, "w-2: no room"),
		warning("Machine", "w-2", 5*time.Hour, "after the upgrade"), warning("Machine", "elsewhere", 67*time.Minute, "of another Cluster"),
	}
	f.Unread = []string{"something: forbidden"}
	return f
}

// running is the same upgrade while the control plane goes to the last version, and a machine fails.
func running(t *testing.T) changereport.Facts {
	t.Helper()
	f := newFacts("v1.32.1", "v1.32.1", "v1.31.4")
	p := way()
	p.Steps = append(p.Steps, chain.Step{To: v("v1.32.1"), Began: after(11 * time.Minute)})
	f.Cluster.Annotations[v1alpha1.ChainProgressAnnotation] = encode(t, p)
	f.Cluster.Annotations[runtimev1.PendingHooksAnnotation] = "AfterClusterUpgrade,AfterControlPlaneUpgrade,AfterWorkersUpgrade,BeforeWorkersUpgrade"
	f.Cluster.Annotations[clusterv1.ClusterTopologyUpgradeStepAnnotation] = "v1.32.1"
	addMachine(&f, "cp-1", "v1.32.1", after(-time.Hour), func(m *clusterv1.Machine) {
		m.Annotations[v1alpha1.UpdateProgressAnnotation] = encode(t, inplace.Progress{
			ID: "2", From: v("v1.31.4"), To: v("v1.32.1"), Phase: inplace.Failed, Attempt: 3, Operations: 3, Began: after(12 * time.Minute),
			StepBegan: after(12 * time.Minute), Started: after(20 * time.Minute), LastError: "cp-1: apt is locked", Steps: []inplace.Step{{Updater: "apt"}},
		})
	})
	addMachine(&f, "w-1", "v1.30.2", after(-time.Hour), nil)
	f.MachineDeployments[0].Spec.Template.Spec.Version = "v1.30.2"
	f.Upgrade.Gates = []v1alpha1.UpgradeGate{newGate("owner", func(s *v1alpha1.UpgradeGateStatus) {
		s.Waiting = []v1alpha1.GateWaiting{{Cluster: "prod", ClusterUID: "u1", At: "BeforeControlPlaneUpgrade", Version: "v1.32.1", Since: stamp(10 * time.Minute), Message: "needs approval"}}
		s.Approvals = []v1alpha1.GateApprovalRecord{
			{Cluster: "prod", ClusterUID: "u1", At: "BeforeControlPlaneUpgrade", Version: "v1.32.1", Generation: 1, By: "jane", Time: stamp(9 * time.Minute)},
			{Cluster: "prod", ClusterUID: "u1", At: "BeforeWorkersUpgrade", Version: "v1.32.1", Generation: 2, Time: stamp(9 * time.Minute)},
		}
	})}
	return f
}

// TestCompute compares whole reports with golden files.
func TestCompute(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]changereport.Facts{"ended": ended(t), "running": running(t), "none": newFacts("v1.32.1", "v1.32.1", "v1.32.1")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := json.MarshalIndent(changereport.Compute(f, after(30*time.Minute+500*time.Millisecond)), "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join("testdata", name+".json")
			if *update {
				if err := os.WriteFile(path, append(got, '\n'), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)+"\n"); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestPlanAndReality holds what is said of steps whose plan, or whose making, is not recorded.
func TestPlanAndReality(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(*chain.Past)
		want   []string
		// missing is a part of what is not recorded.
		missing string
	}{
		"no plan is recorded": {
			change: func(p *chain.Past) { p.Planned = nil }, missing: "the plan that the upgrade began with",
			want: []string{"ControlPlaneUpgrade v1.31.4 NotRecorded Done", "ControlPlaneUpgrade v1.32.1 NotRecorded Done", "WorkersUpgrade v1.32.1 NotRecorded Done"},
		},
		"a step that nobody planned": {
			change: func(p *chain.Past) { p.Planned.ControlPlane = list("v1.32.1") },
			want:   []string{"ControlPlaneUpgrade v1.31.4 Unplanned Done", "ControlPlaneUpgrade v1.32.1 Planned Done", "WorkersUpgrade v1.32.1 Planned Done"},
		},
		"a step that nobody made": {
			change: func(p *chain.Past) { p.Planned.Workers = list("v1.31.4", "v1.32.1") },
			want: []string{
				"ControlPlaneUpgrade v1.31.4 Planned Done", "WorkersUpgrade v1.31.4 Planned NotMade", "ControlPlaneUpgrade v1.32.1 Planned Done",
				"WorkersUpgrade v1.32.1 Planned Done",
			},
		},
		"a plan from after the first step": {
			change: func(p *chain.Past) {
				p.Planned = &chain.Planned{Made: after(10 * time.Minute), ControlPlane: list("v1.32.1"), Workers: list("v1.32.1")}
			},
			want:    []string{"ControlPlaneUpgrade v1.31.4 NotRecorded Done", "ControlPlaneUpgrade v1.32.1 Planned Done", "WorkersUpgrade v1.32.1 Planned Done"},
			missing: "the plan before 2026-11-23T09:10:00Z",
		},
		"an upgrade of another engine since": {
			change: func(p *chain.Past) { p.Target, p.Steps, p.Planned = v("v1.31.4"), p.Steps[:1], nil },
			want:   []string{"ControlPlaneUpgrade v1.31.4 NotRecorded Done"}, missing: "how the Cluster came from v1.31.4 to v1.32.1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := ended(t)
			var past chain.Past
			if err := json.Unmarshal([]byte(f.Cluster.Annotations[v1alpha1.LastUpgradeAnnotation]), &past); err != nil {
				t.Fatal(err)
			}
			tt.change(&past)
			f.Cluster.Annotations[v1alpha1.LastUpgradeAnnotation] = encode(t, past)
			r := changereport.Compute(f, after(3*time.Hour))
			var got []string
			for _, s := range r.Steps {
				got = append(got, fmt.Sprintf("%s %s %s %s", s.Operation, s.To, s.Plan, s.State))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if !strings.Contains(strings.Join(r.NotRecorded, "\n"), tt.missing) {
				t.Errorf("not recorded: %q, want %q", r.NotRecorded, tt.missing)
			}
		})
	}
}

// TestNothingCanBeRead holds that records which people have broken are named, and change nothing else.
func TestNothingCanBeRead(t *testing.T) {
	t.Parallel()
	for annotation, f := range map[string]changereport.Facts{
		v1alpha1.LastUpgradeAnnotation: ended(t), v1alpha1.ChainProgressAnnotation: running(t),
	} {
		f.Cluster.Annotations[annotation] = "{"
		r := changereport.Compute(f, start)
		if r.Upgrade != nil || len(r.Machines) == 0 || !slices.ContainsFunc(r.NotRecorded, func(s string) bool { return strings.Contains(s, annotation) }) {
			t.Errorf("%s: upgrade %+v, %d machines, not recorded: %q", annotation, r.Upgrade, len(r.Machines), r.NotRecorded)
		}
	}
}

// TestFailuresAreCollected holds that thousands of machines with one failure are one row, and all are counted.
func TestFailuresAreCollected(t *testing.T) {
	t.Parallel()
	const machines = 3000
	f := running(t)
	progress := f.Machines[0].Annotations[v1alpha1.UpdateProgressAnnotation]
	for i := range machines {
		name := fmt.Sprintf("w-%d-x", i)
		addMachine(&f, name, "v1.30.2", start, func(m *clusterv1.Machine) {
			m.Annotations[v1alpha1.UpdateProgressAnnotation] = strings.ReplaceAll(progress, "cp-1", name)
		})
	}
	r := changereport.Compute(f, start)
	if len(r.Failures) != 1 || r.Failures[0].Count != machines+1 || len(r.Failures[0].Objects) != 10 {
		t.Errorf("%d failures, the first %+v", len(r.Failures), r.Failures[0])
	}
}

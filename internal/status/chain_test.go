package status

import (
	"encoding/json"
	"fmt"
	"maps"
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
	"github.com/windlass-dev/windlass/internal/snapshot"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// upgrade is a Cluster on its way, in the words of a test. The zero value of a field means what is usual.
type upgrade struct {
	target string
	// controlPlane is the version of its spec, machines of its members' kubelets.
	controlPlane string
	members      []string
	// stamp is the version that our engine has left on the control plane.
	stamp    string
	groups   []testGroup
	progress *chain.Progress
	pending  string
	// condition is TopologyReconciled: its reason and message. An empty reason means that there is none.
	reason, message string
	observed        int64
	events          []corev1.Event
	gates           []v1alpha1.UpgradeGate
	annotations     map[string]string
	source          plan.Source
	problem         string
	change          func(*clusterv1.Cluster)
}

type testGroup struct {
	name     string
	template string
	// kubelets are the versions of its machines.
	kubelets    []string
	annotations map[string]string
	// missing is how many machines the group lacks; scaling is what its MachineSet says of that.
	missing int
	scaling string
	// unlabeled says that its machines have lost the label of the topology.
	unlabeled bool
}

func versions(texts ...string) plan.VersionList {
	var list plan.VersionList
	for _, text := range texts {
		list = append(list, version.MustParse(text))
	}
	return list
}

var fourMinors = versions("v1.30.0", "v1.31.0", "v1.32.0", "v1.33.0", "v1.34.0")

func (u upgrade) facts(t *testing.T) Facts {
	t.Helper()
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{
		Name: "prod", Namespace: "team-a", UID: "uid-prod", Generation: 7, Annotations: map[string]string{},
	}}
	cluster.Spec.Topology = clusterv1.Topology{ClassRef: clusterv1.ClusterClassRef{Name: "class"}, Version: u.target}
	cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{Kind: "KubeadmControlPlane", Name: "prod-cp", APIGroup: "controlplane.cluster.x-k8s.io"}
	maps.Copy(cluster.Annotations, u.annotations)
	if u.pending != "" {
		cluster.Annotations[runtimev1.PendingHooksAnnotation] = u.pending
	}
	if u.progress != nil {
		text, err := json.Marshal(u.progress)
		if err != nil {
			t.Fatal(err)
		}
		cluster.Annotations[v1alpha1.ChainProgressAnnotation] = string(text)
	}
	if u.reason != "" {
		state := metav1.ConditionFalse
		if u.reason == chain.ReconcileSucceeded {
			state = metav1.ConditionTrue
		}
		cluster.Status.Conditions = []metav1.Condition{{
			Type: clusterv1.ClusterTopologyReconciledCondition, Status: state, Reason: u.reason, Message: u.message,
			LastTransitionTime: metav1.NewTime(start), ObservedGeneration: u.observed,
		}}
	}
	f := Facts{Objects: snapshot.Objects{Cluster: cluster}, Upgrade: &UpgradeFacts{Source: u.source, SourceProblem: u.problem, Gates: u.gates, Events: u.events}}
	if u.source == nil && u.problem == "" {
		f.Upgrade.Source = fourMinors
	}
	u.addControlPlane(&f)
	for i, g := range u.groups {
		u.addGroup(&f, i, g)
	}
	if u.change != nil {
		u.change(cluster)
	}
	return f
}

func (u upgrade) addControlPlane(f *Facts) {
	if u.controlPlane == "" {
		return
	}
	reported := u.controlPlane
	for i, kubelet := range u.members {
		m := machine(fmt.Sprintf("cp-%d", i), controlPlaneMachine)
		m.Spec.Version, m.Status.NodeInfo = kubelet, &corev1.NodeSystemInfo{KubeletVersion: kubelet}
		f.Machines = append(f.Machines, m)
		if kubelet != u.controlPlane {
			reported = kubelet
		}
	}
	f.ControlPlane = &unstructured.Unstructured{Object: map[string]any{
		"kind":     "KubeadmControlPlane",
		"metadata": map[string]any{"name": "prod-cp", "namespace": "team-a"},
		"spec":     map[string]any{"version": u.controlPlane, "replicas": int64(len(u.members))},
		"status":   map[string]any{"version": reported},
	}}
	if u.stamp != "" {
		f.ControlPlane.SetAnnotations(map[string]string{v1alpha1.ChainStepAnnotation: u.stamp})
	}
}

func (u upgrade) addGroup(f *Facts, index int, g testGroup) {
	f.Cluster.Spec.Topology.Workers.MachineDeployments = append(f.Cluster.Spec.Topology.Workers.MachineDeployments, clusterv1.MachineDeploymentTopology{
		Name: g.name, Metadata: clusterv1.ObjectMeta{Annotations: g.annotations},
	})
	md := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{
		Name: "prod-" + g.name, Namespace: "team-a", Labels: map[string]string{clusterv1.ClusterTopologyMachineDeploymentNameLabel: g.name},
	}}
	md.Spec.Template.Spec.Version, md.Spec.Replicas = g.template, new(int32(len(g.kubelets)+g.missing))
	if g.scaling != "" {
		ms := &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Name: md.Name + "-x", Namespace: md.Namespace, Labels: md.Labels}}
		ms.Status.Conditions = []metav1.Condition{{
			Type: clusterv1.ScalingUpCondition, Status: metav1.ConditionTrue, Message: g.scaling, LastTransitionTime: metav1.NewTime(after(time.Minute)),
		}}
		f.Rollouts.MachineSets = append(f.Rollouts.MachineSets, ms)
	}
	f.MachineDeployments = append(f.MachineDeployments, md)
	for i, kubelet := range g.kubelets {
		m := machine(fmt.Sprintf("%s-%d-%d", g.name, index, i))
		m.Labels[clusterv1.MachineDeploymentNameLabel] = md.Name
		if !g.unlabeled {
			m.Labels[clusterv1.ClusterTopologyMachineDeploymentNameLabel] = g.name
		}
		m.Spec.Version, m.Status.NodeInfo = kubelet, &corev1.NodeSystemInfo{KubeletVersion: kubelet}
		m.Status.NodeRef.Name = m.Name
		f.Machines = append(f.Machines, m)
	}
}

func repeat(n int, text string) []string { return slices.Repeat([]string{text}, n) }

// way is the recorded way of an upgrade from v1.30.0 to v1.33.0: the first step took 3 minutes, and 4 machines of workers took 8.
func way(more ...chain.Step) *chain.Progress {
	first := chain.Step{To: version.MustParse("v1.31.0"), Began: start, ControlPlane: after(3 * time.Minute), Workers: after(11 * time.Minute)}
	return &chain.Progress{
		From: version.MustParse("v1.30.0"), Target: version.MustParse("v1.33.0"), Began: start, Steps: append([]chain.Step{first}, more...),
	}
}

// midChain is a Cluster whose control plane has done its second step, while the first of two groups goes to it.
func midChain() upgrade {
	return upgrade{
		target: "v1.33.0", controlPlane: "v1.32.0", members: repeat(3, "v1.32.0"), stamp: "v1.32.0", pending: "AfterClusterUpgrade,AfterWorkersUpgrade",
		groups: []testGroup{
			{name: "md-0", template: "v1.32.0", kubelets: []string{"v1.32.0", "v1.31.0"}},
			{name: "md-1", template: "v1.31.0", kubelets: repeat(2, "v1.31.0"), annotations: nil},
		},
		source:   plan.Response{ControlPlane: versions("v1.33.0"), Workers: versions("v1.32.0", "v1.33.0")},
		progress: way(chain.Step{To: version.MustParse("v1.32.0"), Began: after(12 * time.Minute), ControlPlane: after(16 * time.Minute)}),
		reason:   chain.ClusterUpgrading, message: "Cluster is upgrading to v1.33.0\n  * control plane pending upgrade to version v1.33.0",
	}
}

// texts puts what a test looks at into a few lines.
func texts(c Chain) []string {
	lines := []string{fmt.Sprintf("%s by %s: %s", c.State, c.Engine, c.Now)}
	for _, s := range c.Steps {
		text := fmt.Sprintf("%s %s %s->%s %v", s.State, s.Kind, s.From, s.To, s.Groups)
		if s.State != StepDone {
			text += fmt.Sprintf(" %d/%d", s.Updated, s.Machines)
		}
		if !s.Began.IsZero() {
			text += fmt.Sprintf(" +%s", s.Began.Sub(start))
		}
		if !s.Ended.IsZero() {
			text += fmt.Sprintf(" +%s", s.Ended.Sub(start))
		}
		lines = append(lines, text)
	}
	for _, h := range c.Holds {
		text := fmt.Sprintf("held by %s %s: %s", h.Kind, h.By, h.Message)
		if !h.Since.IsZero() {
			text += fmt.Sprintf(" +%s %t", h.Since.Sub(start), h.AtEarliest)
		}
		lines = append(lines, text)
	}
	if c.ETA != (Estimate{}) {
		lines = append(lines, fmt.Sprintf("eta %s %s..%s..%s", c.ETA.Unknown, c.ETA.Least, c.ETA.Likely, c.ETA.Most))
	}
	for _, n := range c.NotKnown {
		lines = append(lines, "not known: "+n)
	}
	if c.Disagreement != "" {
		lines = append(lines, "disagreement: "+c.Disagreement)
	}
	if c.Problem != "" {
		lines = append(lines, "problem: "+c.Problem)
	}
	return lines
}

func topologyEvent(at time.Duration, message string) corev1.Event {
	return corev1.Event{Message: message, Reason: "TopologyUpdate", FirstTimestamp: metav1.NewTime(after(at))}
}

const (
	notRecorded = "steps that are done and whose Events have expired: Cluster API does not record steps"
	toldByPlan  = "the plan is the one in the Cluster's status: the extension is not asked"
)

func TestChain(t *testing.T) {
	for _, test := range chainTests() {
		t.Run(test.name, func(t *testing.T) {
			f := test.upgrade.facts(t)
			before := f.Cluster.DeepCopy()
			r := Compute(f, after(time.Hour))
			if r.Chain == nil {
				t.Fatal("a Cluster with a topology has no report on its upgrade")
			}
			if diff := cmp.Diff(test.want, texts(*r.Chain)); diff != "" {
				t.Errorf("the upgrade (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, f.Cluster); diff != "" {
				t.Errorf("the Cluster was changed:\n%s", diff)
			}
			if diff := cmp.Diff(*r.Chain, *Compute(f, after(100*time.Hour)).Chain); diff != "" {
				t.Errorf("time alone changes the report:\n%s", diff)
			}
		})
	}
}

// TestChainEngine checks that the annotation names the engine before anything else does, and that a switch back to windlass manager in mid-upgrade
// is told from records that another engine has outdated.
func TestChainEngine(t *testing.T) {
	waiting := upgrade{target: "v1.32.0", controlPlane: "v1.31.0", members: repeat(1, "v1.31.0"), reason: chain.ClusterUpgrading}
	overtaken := midChain()
	overtaken.stamp = ""
	for name, tt := range map[string]struct {
		upgrade    upgrade
		annotation string
		want       Engine
		eta        string
	}{
		"no annotation":                     {upgrade: waiting, want: ClusterAPI, eta: etaNotRecorded},
		"of another engine":                 {upgrade: waiting, annotation: "other", want: ClusterAPI, eta: etaNotRecorded},
		"ours":                              {upgrade: waiting, annotation: v1alpha1.EngineManager, want: Windlass, eta: etaNoControlPlane},
		"no annotation, a stamp":            {upgrade: midChain(), want: Windlass},
		"another took the last step":        {upgrade: overtaken, want: ClusterAPI, eta: etaNotRecorded},
		"it did, and ours is in charge now": {upgrade: overtaken, annotation: v1alpha1.EngineManager, want: Windlass, eta: etaNotRecorded},
	} {
		t.Run(name, func(t *testing.T) {
			f := tt.upgrade.facts(t)
			f.Rollouts.Engine = tt.annotation
			if got := Compute(f, start).Chain; got.Engine != tt.want || got.ETA.Unknown != tt.eta {
				t.Errorf("the engine is %s, and the ETA unknown because %q, want %s and %q", got.Engine, got.ETA.Unknown, tt.want, tt.eta)
			}
		})
	}
}

// TestChainNotAskedFor checks who gets no report on an upgrade.
func TestChainNotAskedFor(t *testing.T) {
	f := facts()
	f.Upgrade = &UpgradeFacts{}
	if got := Compute(f, start).Chain; got != nil {
		t.Errorf("a Cluster without a topology: %v", got)
	}
	f = midChain().facts(t)
	f.Upgrade = nil
	if got := Compute(f, start).Chain; got != nil {
		t.Errorf("not asked for: %v", got)
	}
}

func TestChainChanges(t *testing.T) {
	before := Compute(midChain().facts(t), start)
	u := midChain()
	u.groups[0].kubelets = repeat(2, "v1.32.0")
	moved := Compute(u.facts(t), start)
	want := []string{
		"MachineDeployment md-0, md-1 to v1.32.0: 2 of 4 machines",
	}
	got := slices.DeleteFunc(Changes(before, moved), func(line string) bool { return strings.HasPrefix(line, "Machine ") })
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
}

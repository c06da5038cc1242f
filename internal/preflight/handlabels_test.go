package preflight_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windlass-dev/windlass/internal/preflight"
)

// labelled is a Node with labels that a manager has set.
func labelled(name, manager string, keys ...string) corev1.Node {
	node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	fields := ""
	for _, key := range keys {
		node.Labels[key] = "x"
		fields += fmt.Sprintf(`,"f:%s":{}`, key)
	}
	raw := fmt.Sprintf(`{"f:metadata":{"f:labels":{".":{}%s}}}`, fields)
	node.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: manager, FieldsV1: metav1.NewFieldsV1(raw)}}
	return node
}

func TestHandLabels(t *testing.T) {
	t.Parallel()
	keys := []string{"example.com/pool", "pool", "topology.kubernetes.io/zone", "node.cluster.x-k8s.io/pool", "kubernetes.io/os"}
	many := make([]string, 101)
	for i := range many {
		many[i] = fmt.Sprintf("example.com/%d", i)
	}
	crowded := labelled("n", "kubectl-label", many...)
	if got := preflight.HandLabels(&crowded); got != nil {
		t.Errorf("of a Node with %d labels: %q", len(many), got)
	}
	delete(crowded.Labels, many[0])
	if got := preflight.HandLabels(&crowded); len(got) != 100 {
		t.Errorf("of a Node with 100 labels: %d", len(got))
	}
	for manager, want := range map[string][]string{
		"kubectl-label": {"example.com/pool", "pool"}, "kubectl-client-side-apply": {"example.com/pool", "pool"},
		"nfd-master": nil, "kubelet": nil,
	} {
		node := labelled("n", manager, keys...)
		if diff := cmp.Diff(want, preflight.HandLabels(&node)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", manager, diff)
		}
	}
}

// TestCheckHandLabels: labels that a person has set on Nodes go with their machines, and Pods that need them
// find no Node (Azure/AKS#468, kubernetes-sigs/cluster-api#493).
func TestCheckHandLabels(t *testing.T) {
	t.Parallel()
	const key, config = "example.com/pool", `{"joinConfiguration":{}}`
	const passed = "Passed : no Pod needs a label that only the present Nodes have"
	const warned = "Warned MachineDeployment db: its Nodes have the label example.com/pool by hand, so the machines that replace them do not, " +
		"and these need it: erp/postgres-0"
	pod := func(name string, change func(*corev1.Pod)) preflight.Workload {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "erp", Name: name}}
		p.Spec.NodeName, p.Spec.NodeSelector = "db-0", map[string]string{key: "x"}
		if change != nil {
			change(p)
		}
		w, _ := preflight.NewWorkload(p)
		return w
	}
	affinity := func(p *corev1.Pod) {
		p.Spec.NodeSelector = nil
		term := corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpExists}}}
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{term}},
		}}
	}
	for name, tt := range map[string]struct {
		pool    preflight.Pool
		manager string
		pod     preflight.Workload
		want    string
	}{
		"a node selector":             {preflight.Pool{Config: config}, "kubectl-label", pod("postgres-0", nil), warned},
		"node affinity":               {preflight.Pool{Config: config}, "kubectl-label", pod("postgres-0", affinity), warned},
		"nobody needs it":             {preflight.Pool{Config: config}, "kubectl-label", pod("web", func(p *corev1.Pod) { p.Spec.NodeSelector = nil }), passed},
		"a controller sets it":        {preflight.Pool{Config: config}, "nfd-master", pod("postgres-0", nil), passed},
		"the bootstrap config has it": {preflight.Pool{Config: `{"node-labels":"example.com/pool=x"}`}, "kubectl-label", pod("postgres-0", nil), passed},
		"a config that is not known":  {preflight.Pool{}, "kubectl-label", pod("postgres-0", nil), passed},
		"machines that are kept":      {preflight.Pool{Config: config, Kept: true}, "kubectl-label", pod("postgres-0", nil), passed},
	} {
		tt.pool.Name, tt.pool.Nodes = "MachineDeployment db", []string{"db-0"}
		node := labelled("db-0", tt.manager, key, "other")
		hand := map[string][]string{"db-0": preflight.HandLabels(&node)}
		got := preflight.CheckHandLabels([]preflight.Pool{tt.pool}, []corev1.Node{node}, []preflight.Workload{tt.pod}, hand)
		if len(got) != 1 {
			t.Fatalf("%s: %v", name, got)
		}
		if diff := cmp.Diff(tt.want, fmt.Sprintf("%s %s: %s", got[0].Outcome, got[0].Subject, got[0].Message)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

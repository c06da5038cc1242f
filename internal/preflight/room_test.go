package preflight_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/windlass-dev/windlass/internal/clustercheck"
	"github.com/windlass-dev/windlass/internal/gate"
	"github.com/windlass-dev/windlass/internal/preflight"
)

func amount(cpu, memory string) corev1.ResourceList {
	list := make(corev1.ResourceList)
	list[corev1.ResourceCPU], list[corev1.ResourceMemory] = resource.MustParse(cpu), resource.MustParse(memory)
	return list
}

// machine is a Node with room for 10 Pods.
func machine(name string, edit func(*corev1.Node)) corev1.Node {
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"zone": name}}}
	n.Status.Allocatable = amount("4", "8Gi")
	n.Status.Allocatable[corev1.ResourcePods] = resource.MustParse("10")
	if edit != nil {
		edit(&n)
	}
	return n
}

func pod(t *testing.T, name, node, cpu, memory string, edit func(*corev1.Pod)) preflight.Workload {
	t.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Spec: corev1.PodSpec{
		NodeName: node, Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: amount(cpu, memory)}}},
	}}
	if edit != nil {
		edit(p)
	}
	w, ok := preflight.NewWorkload(p)
	if !ok {
		t.Fatalf("Pod %s does not count", name)
	}
	return w
}

func TestCheckRoom(t *testing.T) {
	t.Parallel()
	pool := []preflight.Pool{{Name: "MachineDeployment md", Nodes: []string{"a", "b"}}}
	const fits = "Passed: estimate: the Pods of each Node that was judged (2, the fullest of each pool) fit elsewhere"
	left := func(n int, words string) string {
		verb := map[bool]string{true: "1 Pod fits", false: fmt.Sprintf("%d Pods fit", n)}[n == 1]
		return "Warned: Node a: estimate: if this Node of MachineDeployment md is drained, " + verb + " on no other Node: " + words
	}
	owned := func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Controller: new(true)}}
	}
	cordon := func(n *corev1.Node) {
		n.Spec.Unschedulable = true
		n.Spec.Taints = []corev1.Taint{
			{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule},
		}
	}
	numeric := func(value string) corev1.Node {
		return machine("b", func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "k", Value: value, Effect: corev1.TaintEffectNoSchedule}}
		})
	}
	below := func(n int) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Tolerations = []corev1.Toleration{
				{Key: "k", Operator: corev1.TolerationOpLt, Value: fmt.Sprint(n)},
			}
		}
	}
	tests := map[string]struct {
		nodes []corev1.Node
		pods  []preflight.Workload
		surge bool
		want  string
	}{
		"room":      {pods: []preflight.Workload{pod(t, "p", "a", "3", "1Gi", nil), pod(t, "q", "b", "1", "1Gi", nil)}, want: fits},
		"no CPU":    {pods: []preflight.Workload{pod(t, "p", "a", "3", "2Gi", nil), pod(t, "q", "b", "2", "1Gi", nil)}, want: left(1, "ns/p")},
		"no memory": {pods: []preflight.Workload{pod(t, "p", "a", "1", "6Gi", nil), pod(t, "q", "b", "1", "3Gi", nil)}, want: left(1, "ns/p")},
		"of several the largest is placed first": {
			pods: []preflight.Workload{pod(t, "small", "a", "1", "1Gi", nil), pod(t, "large", "a", "3", "5Gi", nil), pod(t, "q", "b", "1", "1Gi", nil)},
			want: left(1, "ns/small"),
		},
		"a new machine first": {pods: []preflight.Workload{pod(t, "p", "a", "3", "2Gi", nil), pod(t, "q", "b", "2", "1Gi", nil)}, surge: true, want: fits},
		"what stays": {pods: []preflight.Workload{
			pod(t, "d", "a", "3", "5Gi", owned), pod(t, "q", "b", "2", "1Gi", nil),
			pod(t, "m", "a", "1", "1Gi", func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} }),
		}, want: "Warned: Node b: estimate: if this Node of MachineDeployment md is drained, 1 Pod fits on no other Node: ns/q"},
		"a taint": {nodes: []corev1.Node{machine("a", nil), machine("b", func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "k", Value: "v", Effect: corev1.TaintEffectNoSchedule}}
		})}, pods: []preflight.Workload{pod(t, "p", "a", "1", "1Gi", nil)}, want: left(1, "ns/p")},
		"a taint that is tolerated": {nodes: []corev1.Node{machine("a", nil), machine("b", func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "k", Value: "v", Effect: corev1.TaintEffectNoSchedule}, {Key: "soft", Effect: corev1.TaintEffectPreferNoSchedule}}
		})}, pods: []preflight.Workload{pod(t, "p", "a", "1", "1Gi", func(p *corev1.Pod) {
			p.Spec.Tolerations = []corev1.Toleration{{Key: "k", Operator: corev1.TolerationOpEqual, Value: "v"}}
		})}, want: fits},
		"a new machine for a cordoned one": {
			nodes: []corev1.Node{machine("a", cordon), machine("b", nil)},
			pods:  []preflight.Workload{pod(t, "p", "a", "3", "2Gi", nil), pod(t, "q", "b", "2", "1Gi", nil)},
			surge: true, want: fits,
		},
		"a numeric taint that is tolerated": {
			nodes: []corev1.Node{machine("a", nil), numeric("5")},
			pods:  []preflight.Workload{pod(t, "p", "a", "1", "1Gi", below(6))}, want: fits,
		},
		"a numeric taint that is not tolerated": {
			nodes: []corev1.Node{machine("a", nil), numeric("5")},
			pods:  []preflight.Workload{pod(t, "p", "a", "1", "1Gi", below(5))}, want: left(1, "ns/p"),
		},
		"a node selector": {pods: []preflight.Workload{pod(t, "p", "a", "1", "1Gi", func(p *corev1.Pod) {
			p.Spec.NodeSelector = map[string]string{"zone": "a"}
		})}, want: left(1, "ns/p")},
		"a cordoned Node": {nodes: []corev1.Node{machine("a", nil), machine("b", func(n *corev1.Node) { n.Spec.Unschedulable = true })},
			pods: []preflight.Workload{pod(t, "p", "a", "1", "1Gi", nil)}, want: left(1, "ns/p")},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nodes := tt.nodes
			if nodes == nil {
				nodes = []corev1.Node{machine("a", nil), machine("b", nil)}
			}
			pools := []preflight.Pool{pool[0]}
			pools[0].Surge = tt.surge
			expect(t, []string{tt.want}, sayBriefly(preflight.CheckRoom(pools, nodes, tt.pods)))
		})
	}
	expect(t, []string{"Passed: there are no worker Nodes to drain"}, sayBriefly(preflight.CheckRoom(nil, nil, nil)))
}

// TestHostileRequests holds that quantities beyond all machines neither overflow nor fit.
func TestHostileRequests(t *testing.T) {
	t.Parallel()
	pods := []preflight.Workload{pod(t, "p", "a", "9e18", "9E", nil), pod(t, "q", "a", "9e18", "9E", nil)}
	found := preflight.CheckRoom([]preflight.Pool{{Name: "p", Nodes: []string{"a"}}}, []corev1.Node{machine("a", nil), machine("b", nil)}, pods)
	expect(t, []string{"Warned: Node a: estimate: if this Node of p is drained, 2 Pods fit on no other Node: ns/p, ns/q"}, sayBriefly(found))
}

func TestEndedPods(t *testing.T) {
	t.Parallel()
	for phase, counts := range map[corev1.PodPhase]bool{corev1.PodSucceeded: false, corev1.PodFailed: false, corev1.PodRunning: true, corev1.PodPending: true, corev1.PodUnknown: true} {
		if _, ok := preflight.NewWorkload(&corev1.Pod{Status: corev1.PodStatus{Phase: phase}}); ok != counts {
			t.Errorf("a Pod that is %s counts: %t, want %t", phase, ok, counts)
		}
	}
}

func budget(name string, of gate.Budget, selector string, allowed int32) preflight.Budget {
	of.Namespace, of.Name = "ns", name
	parsed, err := labels.Parse(selector)
	if err != nil {
		panic(err)
	}
	return preflight.Budget{Budget: of, Selector: parsed, Allowed: allowed, Healthy: 1}
}

func TestCheckBudgets(t *testing.T) {
	t.Parallel()
	budgets := []preflight.Budget{
		budget("fine", gate.Budget{ExpectedPods: 3, DesiredHealthy: 2}, "a=b", 1),
		budget("empty", gate.Budget{}, "a=b", 0),
		budget("never", gate.Budget{ExpectedPods: 2, DesiredHealthy: 2}, "a=b", 0),
		budget("waits", gate.Budget{ExpectedPods: 3, DesiredHealthy: 2}, "a=b", 0),
		budget("unknown", gate.Budget{Problem: "its pods cannot be counted: SyncFailed"}, "a=b", 0),
	}
	of := func(budgets ...preflight.Budget) preflight.Disruptions {
		return preflight.Disruptions{Budgets: budgets}
	}
	const never = "Failed: PodDisruptionBudget ns/never: it requires 2 healthy Pods and selects 2, so that it allows no eviction; "
	expect(t, []string{
		never + "a drain waits until its timeout (nodeDrainTimeoutSeconds), indefinitely without one",
		"Failed: PodDisruptionBudget ns/unknown: its pods cannot be counted: SyncFailed; until then no Pod of it is evicted",
		"Warned: PodDisruptionBudget ns/waits: it allows no eviction now: 1 Pod is healthy, and 2 must be",
	}, sayBriefly(preflight.CheckBudgets(of(budgets...))))
	expect(t, []string{"Passed: 2 PodDisruptionBudgets checked: each allows evictions"}, sayBriefly(preflight.CheckBudgets(of(budgets[:2]...))))

	accepted := of(budgets[2])
	accepted.Accepted = []string{"budget/ns/never"}
	expect(t, []string{"Passed: 1 PodDisruptionBudget checked: each allows evictions"}, sayBriefly(preflight.CheckBudgets(accepted)))

	own := preflight.Workload{Namespace: "ns", Labels: labels.Set{"a": "b"}, Node: "n"}
	foreign, other := own, own
	foreign.Foreign = true
	other.Namespace = "other"
	for name, tt := range map[string]struct {
		pods     []preflight.Workload
		timeouts map[string]int32
		wait     string
		operator bool
	}{
		"no timeout":       {[]preflight.Workload{own, other}, map[string]int32{"n": 0}, "a drain of its Nodes waits indefinitely, because nodeDrainTimeoutSeconds of a machine of them is not set, or 0, which is no limit", false},
		"a timeout":        {[]preflight.Workload{own}, map[string]int32{"n": 600}, "a drain of its Nodes waits until nodeDrainTimeoutSeconds, at most 600s, and then ends with its Pods still there", false},
		"an unknown Node":  {[]preflight.Workload{own}, map[string]int32{"m": 600}, "a drain waits until its timeout (nodeDrainTimeoutSeconds), indefinitely without one", false},
		"of an operator":   {[]preflight.Workload{foreign}, map[string]int32{"n": 600}, "a drain of its Nodes waits until nodeDrainTimeoutSeconds, at most 600s, and then ends with its Pods still there", true},
		"of both":          {[]preflight.Workload{foreign, own}, map[string]int32{"n": 600}, "a drain of its Nodes waits until nodeDrainTimeoutSeconds, at most 600s, and then ends with its Pods still there", false},
		"of another space": {[]preflight.Workload{other}, map[string]int32{"n": 0}, "a drain waits until its timeout (nodeDrainTimeoutSeconds), indefinitely without one", false},
	} {
		d := of(budgets[2])
		d.Pods, d.DrainTimeouts = tt.pods, tt.timeouts
		found := preflight.CheckBudgets(d)
		want := never + tt.wait
		ends := strings.Contains(tt.wait, "then ends")
		if ends {
			want = strings.Replace(want, "Failed", "Warned", 1)
		}
		if diff := cmp.Diff([]string{want}, sayBriefly(found)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if strings.Contains(found[0].Fix, "operator") != tt.operator || !strings.HasSuffix(found[0].Fix, "accept it by the name budget/ns/never") {
			t.Errorf("%s: Fix: %s", name, found[0].Fix)
		}
		if ends && strings.Contains(found[0].Fix, "nodeDrainTimeoutSeconds") {
			t.Errorf("%s: it asks for the timeout that is set: %s", name, found[0].Fix)
		}
	}
}

// TestForeignPods: a Pod is foreign if none of Kubernetes' own controllers would make it anew.
func TestForeignPods(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]bool{
		"": true, "ReplicaSet": false, "StatefulSet": false, "Job": false, "InstanceManager": true, "Node": true,
	} {
		pod := &corev1.Pod{}
		if kind != "" {
			pod.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Controller: new(true)}}
		}
		if w, _ := preflight.NewWorkload(pod); w.Foreign != want {
			t.Errorf("a Pod of kind %q is foreign: %t, want %t", kind, w.Foreign, want)
		}
	}
}

func TestCheckOverlap(t *testing.T) {
	t.Parallel()
	budgets := []preflight.Budget{
		budget("web", gate.Budget{}, "app=web", 0), budget("all", gate.Budget{}, "", 0), budget("none", gate.Budget{}, "app=other", 0),
	}
	of := func(namespace, name, app string, edit func(*corev1.Pod)) preflight.Workload {
		return pod(t, name, "node", "1", "1Gi", func(p *corev1.Pod) {
			p.Namespace, p.Labels, p.Status.Phase = namespace, map[string]string{"app": app}, corev1.PodRunning
			if edit != nil {
				edit(p)
			}
		})
	}
	pods := []preflight.Workload{
		of("ns", "b", "web", nil), of("ns", "a", "web", nil), of("ns", "c", "db", nil), of("other", "d", "web", nil),
	}
	expect(t, []string{
		"Failed: PodDisruptionBudgets ns/all, web: they select the same 2 Pods (a, b), and the API server answers evictions of a Pod with two budgets with an error (500)",
	}, sayBriefly(preflight.CheckOverlap(budgets, pods)))
	expect(t, []string{"Passed: no Pod that a drain evicts has more than one PodDisruptionBudget"},
		sayBriefly(preflight.CheckOverlap(budgets[:1], pods)))
	for name, edit := range map[string]func(*corev1.Pod){
		"of a DaemonSet": func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Controller: new(true)}}
		},
		"static":        func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} },
		"pending":       func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending },
		"being deleted": func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.Now()) },
	} {
		found := preflight.CheckOverlap(budgets, []preflight.Workload{of("ns", "a", "web", edit)})
		if found[0].Outcome != clustercheck.Passed {
			t.Errorf("a Pod that is %s: %+v", name, found)
		}
	}
}

// TestOverlapOfMany bounds what is kept of a Pod that many budgets select.
func TestOverlapOfMany(t *testing.T) {
	t.Parallel()
	budgets := make([]preflight.Budget, 0, 300)
	for i := range cap(budgets) {
		budgets = append(budgets, budget(fmt.Sprintf("budget-%03d", i), gate.Budget{}, "", 0))
	}
	running := pod(t, "a", "node", "1", "1Gi", func(p *corev1.Pod) {
		p.Namespace, p.Status.Phase = "ns", corev1.PodRunning
	})
	found := preflight.CheckOverlap(budgets, []preflight.Workload{running})
	if want := "PodDisruptionBudgets ns/budget-000, budget-001, budget-002 and 297 more"; found[0].Subject != want {
		t.Errorf("the subject is %q, want %q", found[0].Subject, want)
	}
}

package preflight

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/resource"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/windlass-dev/windlass/internal/clustercheck"
	"github.com/windlass-dev/windlass/internal/text"
)

// Amount is what a Pod requests or a Node offers, by resource, in thousandths.
type Amount map[corev1.ResourceName]int64

// add returns the sum of two amounts.
func (a Amount) add(b Amount) Amount {
	sum := maps.Clone(a)
	if sum == nil {
		sum = make(Amount, len(b))
	}
	for name, n := range b {
		sum[name] = saturate(float64(sum[name]) + float64(n))
	}
	return sum
}

func (a Amount) fits(request Amount) bool {
	for name, n := range request {
		if n > 0 && n > a[name] {
			return false
		}
	}
	return true
}

func (a Amount) minus(b Amount) Amount {
	rest := maps.Clone(a)
	for name, n := range b {
		rest[name] = saturate(float64(rest[name]) - float64(n))
	}
	return rest
}

// saturate keeps sums of hostile quantities within an int64.
func saturate(n float64) int64 { return int64(max(min(n, math.MaxInt64/2), math.MinInt64/2)) }

// newAmount converts a list of quantities. Larger ones than an int64 saturate.
func newAmount(list corev1.ResourceList) Amount {
	amount := make(Amount, len(list))
	for name, quantity := range list {
		amount[name] = saturate(quantity.AsApproximateFloat64() * 1000)
	}
	return amount
}

// Workload is what counts of a Pod that runs or is pending.
type Workload struct {
	Namespace, Name string
	Labels          labels.Set
	// Node is where it runs; empty if it is pending.
	Node string
	// Requests includes one Pod.
	Requests Amount
	// Foreign reports that no workload controller of Kubernetes would replace it, such as a Pod that an
	// operator makes by itself.
	Foreign bool
	// Stays reports that a drain leaves it: it is of a DaemonSet, or static.
	Stays bool
	// Pending reports that no container runs yet, and Ending that it is being deleted.
	Pending, Ending bool
	// Crash is why it does not become Ready; nil if it is, or if nothing has ended in it.
	Crash *Crash
	// Tolerations and Affinity limit where it may run.
	Tolerations []corev1.Toleration
	Affinity    nodeaffinity.RequiredNodeAffinity
}

// NewWorkload returns what counts of a Pod; ok is false for one that has ended.
func NewWorkload(pod *corev1.Pod) (w Workload, ok bool) {
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return Workload{}, false
	}
	w = Workload{
		Namespace: pod.Namespace, Name: pod.Name, Labels: pod.Labels, Node: pod.Spec.NodeName,
		Tolerations: pod.Spec.Tolerations, Affinity: nodeaffinity.GetRequiredNodeAffinity(pod),
		Requests: newAmount(resource.PodRequests(pod, resource.PodResourcesOptions{})),
		Stays:    pod.Annotations[corev1.MirrorPodAnnotationKey] != "",
		Pending:  pod.Status.Phase == corev1.PodPending, Ending: pod.DeletionTimestamp != nil,
		Foreign: true, Crash: crashOf(pod),
	}
	w.Requests[corev1.ResourcePods] = 1000
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		w.Stays = w.Stays || owner.Kind == "DaemonSet"
		w.Foreign = !slices.Contains(workloadKinds, owner.Kind)
	}
	return w, true
}

// workloadKinds are those of controllers that make a Pod anew.
var workloadKinds = []string{"ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController", "Job"}

// Pool is a group of worker Nodes that are drained one after another.
type Pool struct {
	Name  string
	Nodes []string
	// Surge reports that a new machine joins before an old one is drained, and Kept that none is replaced.
	Surge, Kept bool
	// Config is the bootstrap config of new machines, as JSON; empty if it is not known.
	Config string
}

// maxDrained bounds how many Nodes of a pool are judged: those that request the most.
const maxDrained = 10

// CheckRoom estimates for each pool whether the Pods of a Node fit on the others, by requests,
// taints, node selectors and required node affinity. It knows no topology spread, Pod affinity,
// volumes, host ports or priorities, and no autoscaler.
func CheckRoom(pools []Pool, nodes []corev1.Node, pods []Workload) []clustercheck.Finding {
	r := report{id: RoomForDrains}
	byNode := map[string][]Workload{}
	for _, p := range pods {
		byNode[p.Node] = append(byNode[p.Node], p)
	}
	f := floor{nodes: nodes, pods: byNode, free: map[string]Amount{}}
	for i := range nodes {
		used := make(Amount)
		for _, p := range byNode[nodes[i].Name] {
			used = used.add(p.Requests)
		}
		f.free[nodes[i].Name] = newAmount(nodes[i].Status.Allocatable).minus(used)
	}
	drained := 0
	for _, pool := range pools {
		for _, name := range f.largest(pool.Nodes) {
			drained++
			if left := f.drain(name, pool.Surge); len(left) > 0 {
				r.warn(named("Node", "", name),
					"add a Node, let its MachineDeployment surge, or lower requests",
					"estimate: if this Node of %s is drained, %s on no other Node: %s",
					pool.Name, fit(len(left)), text.JoinSome(left, shown, ", "))
				break
			}
		}
	}
	if drained == 0 && len(pools) == 0 {
		r.add(clustercheck.Passed, "", "", "there are no worker Nodes to drain")
	}
	return r.finish("estimate: the Pods of each Node that was judged "+
		"(%d, the fullest of each pool) fit elsewhere", drained)
}

// fit is "1 Pod fits" or "2 Pods fit".
func fit(n int) string {
	if n == 1 {
		return "1 Pod fits"
	}
	return text.Count(n, "Pod") + " fit"
}

// floor is where Pods run.
type floor struct {
	nodes []corev1.Node
	pods  map[string][]Workload
	free  map[string]Amount
}

// moving are the Pods of a Node that a drain evicts, the largest first.
func (f floor) moving(node string) []Workload {
	pods := slices.DeleteFunc(slices.Clone(f.pods[node]), func(p Workload) bool { return p.Stays })
	slices.SortFunc(pods, func(a, b Workload) int {
		return cmp.Or(cmp.Compare(b.Requests[corev1.ResourceMemory], a.Requests[corev1.ResourceMemory]),
			cmp.Compare(b.Requests[corev1.ResourceCPU], a.Requests[corev1.ResourceCPU]),
			strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name))
	})
	return pods
}

// largest returns the Nodes whose drains move the most memory, at most maxDrained.
func (f floor) largest(names []string) []string {
	weight := func(name string) (sum int64) {
		for _, p := range f.moving(name) {
			sum = saturate(float64(sum) + float64(p.Requests[corev1.ResourceMemory]))
		}
		return sum
	}
	weights := make(map[string]int64, len(names))
	for _, name := range names {
		weights[name] = weight(name)
	}
	sorted := slices.SortedFunc(slices.Values(names), func(a, b string) int {
		return cmp.Or(cmp.Compare(weights[b], weights[a]), strings.Compare(a, b))
	})
	return sorted[:min(len(sorted), maxDrained)]
}

// drain returns the Pods of a Node that no other Node can take, sorted.
func (f floor) drain(name string, surge bool) []string {
	free := maps.Clone(f.free)
	var left []string
	targets := make([]target, 0, len(f.nodes))
	for i := range f.nodes {
		n := &f.nodes[i]
		switch {
		case n.Name != name && !n.Spec.Unschedulable && n.DeletionTimestamp == nil:
			targets = append(targets, target{n, n.Name})
		case n.Name == name && surge:
			// A new machine is like the old one, with nothing on it but what stays. It is not cordoned.
			targets = append(targets, target{uncordoned(n), ""})
			free[""] = free[name]
			for _, p := range f.moving(name) {
				free[""] = free[""].add(p.Requests)
			}
		}
	}
	for _, p := range f.moving(name) {
		at := slices.IndexFunc(targets, func(t target) bool {
			return free[t.free].fits(p.Requests) && mayRun(p, t.node)
		})
		if at < 0 {
			left = append(left, text.Bound(p.Namespace+"/"+p.Name, maxNameBytes))
			continue
		}
		free[targets[at].free] = free[targets[at].free].minus(p.Requests)
	}
	slices.Sort(left)
	return left
}

// target is a Node that takes Pods; free is its key in the table of free amounts.
type target struct {
	node *corev1.Node
	free string
}

// uncordoned returns a copy of a Node without the taint of a cordon.
func uncordoned(node *corev1.Node) *corev1.Node {
	n := node.DeepCopy()
	n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key == corev1.TaintNodeUnschedulable
	})
	return n
}

// mayRun reports whether a Pod may run on a Node, whatever room it has.
func mayRun(p Workload, node *corev1.Node) bool {
	if matches, err := p.Affinity.Match(node); err != nil || !matches {
		return false
	}
	return !slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
		tolerated := func(o corev1.Toleration) bool { return o.ToleratesTaint(logr.Discard(), &t, true) }
		return t.Effect != corev1.TaintEffectPreferNoSchedule &&
			!slices.ContainsFunc(p.Tolerations, tolerated)
	})
}

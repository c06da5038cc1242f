package workload

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/noderefutil"
	"sigs.k8s.io/cluster-api/core/reconcilers/machine/drain"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/windlass-dev/windlass/internal/labelselector"
	"github.com/windlass-dev/windlass/internal/port"
	"github.com/windlass-dev/windlass/internal/text"
)

const (
	// drainTimeout bounds one call of Drain, which is made during a hook; what it does not get to, the next call does.
	drainTimeout = 8 * time.Second
	// drainLogLevel is where Cluster API's lines about a drain go: it writes some at every call.
	drainLogLevel = 4
	// maxBlockers is how many pods without a reason are explained, and how many budgets of one are named.
	maxBlockers = 5
	// maxBudgets is how many PodDisruptionBudgets of a namespace are looked at.
	maxBudgets = 500
	// maxDrainLines bounds the lines of a message. Cluster API writes one for each kind of pod and each error.
	maxDrainLines = 30
)

// Drain implements port.Nodes. What is evicted, in which order, and how that is worded, is Cluster API's when it deletes a Machine.
func (n *Nodes) Drain(ctx context.Context, cluster, machine types.NamespacedName, name string) (port.DrainStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	remote, node, err := n.read(ctx, cluster, name)
	if isMissingNode(err) {
		return port.DrainStatus{Done: true}, nil
	}
	if err != nil {
		return port.DrainStatus{}, fmt.Errorf("draining: %w", err)
	}
	status, err := n.drain(log.IntoContext(ctx, log.FromContext(ctx).V(drainLogLevel)), remote, node, cluster, machine)
	if err != nil {
		n.clients.Failed(ctx, cluster, remote, err)
		return port.DrainStatus{}, fmt.Errorf("draining Node %s of Cluster %s: %s", name, cluster, describe(err))
	}
	return status, nil
}

func (n *Nodes) drain(ctx context.Context, remote client.Client, node *corev1.Node, clusterName, machineName types.NamespacedName) (port.DrainStatus, error) {
	var cluster clusterv1.Cluster
	if err := n.management.Get(ctx, clusterName, &cluster); err != nil {
		return port.DrainStatus{}, fmt.Errorf("reading Cluster %s: %w", clusterName, err)
	}
	var machine clusterv1.Machine
	if err := n.management.Get(ctx, machineName, &machine); err != nil {
		return port.DrainStatus{}, fmt.Errorf("reading Machine %s: %w", machineName, err)
	}
	return evict(ctx, n.management, remote, node, &cluster, &machine)
}

// evict cordons a node and evicts its pods, as far as one call gets. management has the MachineDrainRules, remote the node.
func evict(ctx context.Context, management, remote client.Client, node *corev1.Node, cluster *clusterv1.Cluster, machine *clusterv1.Machine) (port.DrainStatus, error) {
	helper := newHelper(management, remote, node)
	if err := helper.CordonNode(ctx, node); err != nil {
		return port.DrainStatus{}, fmt.Errorf("cordoning it: %w", err)
	}
	pods, err := helper.GetPodsForEviction(ctx, cluster, machine, node.Name)
	if err != nil {
		return port.DrainStatus{}, fmt.Errorf("finding its pods: %w", err)
	}
	if len(pods.Pods()) == 0 {
		return port.DrainStatus{Done: true}, nil
	}
	result := helper.EvictPods(ctx, pods)
	if !result.DrainCompleted() {
		return port.DrainStatus{Message: drainMessage(result, blockers(ctx, remote, result))}, nil
	}
	if len(result.PodsNotFound) > 0 {
		// The API server returns "not found" for a pod that is gone, and so does a proxy that knows no evictions. The next
		// call lists the pods again, and sees which it was.
		return port.DrainStatus{Message: "Drain not completed yet:\n* Making sure that these are gone: " + drain.PodListToString(result.PodsNotFound, maxBlockers)}, nil
	}
	return port.DrainStatus{Done: true}, nil
}

// newHelper is Cluster API's helper, set up as its Machine controller does.
func newHelper(management, remote client.Client, node *corev1.Node) *drain.Helper {
	helper := &drain.Helper{Client: management, RemoteClient: remote, GracePeriodSeconds: -1}
	if noderefutil.IsNodeUnreachable(node) {
		// No kubelet ends the pods: they stay for ever, with a deletion timestamp. That must not keep the node from being updated,
		// which may be what fixes it.
		helper.GracePeriodSeconds, helper.SkipWaitForDeleteTimeoutSeconds = 1, 1
	}
	return helper
}

// drainMessage is Cluster API's message without the time when the drain began, which is not known here.
func drainMessage(result drain.EvictionResult, blockers []string) string {
	var never metav1.Time
	message := strings.Replace(result.ConditionMessage(never), fmt.Sprintf(" (started at %s)", never.Format(time.RFC3339)), "", 1)
	lines := strings.Split(strings.Join(append([]string{message}, blockers...), "\n"), "\n")
	for i := range lines {
		// Pods have names that the workload cluster chose. Cluster API's own spaces at the ends stay.
		if bounded := text.Bound(lines[i], maxShownBytes); bounded != strings.TrimSpace(lines[i]) {
			lines[i] = bounded
		}
	}
	return strings.Join(lines[:min(len(lines), maxDrainLines)], "\n")
}

// namesBudget is in the API server's words for an eviction that one PodDisruptionBudget refuses, just before its name.
const namesBudget = "The disruption budget "

// blockers names the PodDisruptionBudgets of the first maxBlockers pods whose eviction failed with words
// that name none, as when a pod has two. It only helps the reader: it leaves out what cannot be read,
// and returns what it has once ctx ends. It holds the budgets of one namespace at a time.
func blockers(ctx context.Context, remote client.Client, result drain.EvictionResult) []string {
	var lines []string
	for pods := unexplained(result); len(pods) > 0 && ctx.Err() == nil; {
		n := 1
		for n < len(pods) && pods[n].Namespace == pods[0].Namespace {
			n++
		}
		lines = append(lines, explain(ctx, remote, pods[:n])...)
		pods = pods[n:]
	}
	slices.Sort(lines)
	return lines
}

// explain names the budgets of pods of one namespace.
func explain(ctx context.Context, remote client.Client, pods []*corev1.Pod) (lines []string) {
	budgets := listBudgets(ctx, remote, pods[0].Namespace)
	for _, pod := range pods {
		if ctx.Err() != nil {
			break
		}
		if names := selectBudgets(pod, budgets); len(names) > 0 {
			lines = append(lines, fmt.Sprintf("* Pod %s/%s: PodDisruptionBudget %s",
				pod.Namespace, pod.Name, text.JoinSome(names, maxBlockers, ", ")))
		}
	}
	return lines
}

// unexplained returns the first maxBlockers of the pods that blockers is about, in the order of their
// namespaces and names.
func unexplained(result drain.EvictionResult) []*corev1.Pod {
	var pods []*corev1.Pod
	for message, failed := range result.PodsFailedEviction {
		if !strings.Contains(message, namesBudget) {
			pods = append(pods, failed...)
		}
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return pods[:min(len(pods), maxBlockers)]
}

// budget is what blockers needs of a PodDisruptionBudget.
type budget struct {
	name     string
	selector labelselector.Selector
	blocks   bool
}

// listBudgets returns the first maxBudgets budgets of a namespace whose selectors can be used, parsed
// once. It returns those that it has read once ctx ends.
func listBudgets(ctx context.Context, remote client.Client, namespace string) []budget {
	var list policyv1.PodDisruptionBudgetList
	if err := remote.List(ctx, &list, client.InNamespace(namespace), client.Limit(maxBudgets)); err != nil {
		log.FromContext(ctx).Info("PodDisruptionBudgets cannot be listed",
			"namespace", text.Bound(namespace, maxNameBytes), "reason", describe(err))
	}
	var budgets []budget
	// A server need not obey the limit.
	for i := range list.Items[:min(len(list.Items), maxBudgets)] {
		if ctx.Err() != nil {
			break
		}
		b := &list.Items[i]
		// One without a selector selects nothing, and one with an empty selector everything.
		if b.Spec.Selector == nil {
			continue
		}
		if selector := labelselector.Parse(b.Spec.Selector); selector.Err() == nil {
			budgets = append(budgets, budget{
				name: text.Bound(b.Name, maxNameBytes), selector: selector, blocks: b.Status.DisruptionsAllowed == 0,
			})
		}
	}
	return budgets
}

// selectBudgets names the budgets that keep a pod: those that allow no disruption; or all, where there are several, since the
// API server then evicts no pod.
func selectBudgets(pod *corev1.Pod, budgets []budget) []string {
	var all, blocking []string
	for _, b := range budgets {
		if !b.selector.MayMatch(pod.Labels) {
			continue
		}
		all = append(all, b.name)
		if b.blocks {
			blocking = append(blocking, b.name)
		}
	}
	if len(all) > 1 {
		blocking = all
	}
	slices.Sort(blocking)
	return blocking
}

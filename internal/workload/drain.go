package workload

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/noderefutil"
	"sigs.k8s.io/cluster-api/core/reconcilers/machine/drain"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/windlass-dev/windlass/internal/port"
	"github.com/windlass-dev/windlass/internal/text"
)

const (
	// drainTimeout bounds one call of Drain, which is made during a hook; what it does not get to, the next call does.
	drainTimeout = 8 * time.Second
	// drainLogLevel is where Cluster API's lines about a drain go: it writes some at every call.
	drainLogLevel = 4
	// maxBlockers is how many pods without a reason are explained.
	maxBlockers = 5
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

// blockers names the PodDisruptionBudgets of pods whose eviction failed with words that name none, as when a pod has two. It
// is a help for the reader: where budgets cannot be read, it has nothing to say.
func blockers(ctx context.Context, remote client.Client, result drain.EvictionResult) []string {
	budgets := map[string][]policyv1.PodDisruptionBudget{}
	var lines []string
	for message, pods := range result.PodsFailedEviction {
		if strings.Contains(message, namesBudget) {
			continue
		}
		for _, pod := range pods {
			if _, ok := budgets[pod.Namespace]; !ok {
				var list policyv1.PodDisruptionBudgetList
				if err := remote.List(ctx, &list, client.InNamespace(pod.Namespace)); err != nil {
					log.FromContext(ctx).Info("PodDisruptionBudgets cannot be listed", "namespace", pod.Namespace, "reason", describe(err))
				}
				budgets[pod.Namespace] = list.Items
			}
			if names := selectBudgets(pod, budgets[pod.Namespace]); len(names) > 0 {
				lines = append(lines, fmt.Sprintf("* Pod %s/%s: PodDisruptionBudget %s", pod.Namespace, pod.Name, strings.Join(names, ", ")))
			}
		}
	}
	slices.Sort(lines)
	return lines[:min(len(lines), maxBlockers)]
}

// selectBudgets names the budgets that keep a pod: those that allow no disruption; or all, where there are several, since the
// API server then evicts no pod.
func selectBudgets(pod *corev1.Pod, budgets []policyv1.PodDisruptionBudget) []string {
	var all, blocking []string
	for i := range budgets {
		selector, err := metav1.LabelSelectorAsSelector(budgets[i].Spec.Selector)
		if err != nil || !selector.Matches(labels.Set(pod.Labels)) {
			continue
		}
		all = append(all, budgets[i].Name)
		if budgets[i].Status.DisruptionsAllowed == 0 {
			blocking = append(blocking, budgets[i].Name)
		}
	}
	if len(all) > 1 {
		blocking = all
	}
	slices.Sort(blocking)
	return blocking
}

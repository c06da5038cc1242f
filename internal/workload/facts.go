package workload

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/internal/gate"
	"github.com/windlass-dev/windlass/internal/text"
)

// Facts reads what gates look at in whole workload clusters. It is safe for concurrent use.
//
// Errors are in words that stay the same while the cause does, since they end up in conditions.
type Facts struct{ clients clients }

// NewFacts returns Facts. management reads kubeconfig Secrets; it should read live, since a cached one would keep all Secrets. now is
// the clock by which connections grow old.
func NewFacts(management client.Reader, now func() time.Time) *Facts {
	return &Facts{clients: newKubeconfigClients(management, now)}
}

const (
	// pageSize is how many objects one answer of an API server should have, and maxPages how many answers a list may have.
	pageSize, maxPages = 200, 500
	// maxListed bounds the objects of a whole list, because a server need not obey pageSize.
	maxListed = pageSize * maxPages
	// listTimeout bounds reading a whole list.
	listTimeout = 30 * time.Second
	// maxNameBytes bounds a name, as API servers do.
	maxNameBytes = 253
)

// Nodes returns the Nodes of a cluster.
func (f *Facts) Nodes(ctx context.Context, cluster types.NamespacedName) ([]gate.Node, error) {
	var nodes []gate.Node
	var page corev1.NodeList
	err := f.list(ctx, cluster, "Nodes", &page, func() {
		for i := range page.Items {
			nodes = append(nodes, gate.Node{Name: text.Bound(page.Items[i].Name, maxNameBytes), NotReady: computeNotReady(&page.Items[i])})
		}
	})
	return nodes, err
}

// ControlPlaneNodes returns the names of the Nodes that kubeadm, K3s or RKE2 has marked as the control plane's.
func (f *Facts) ControlPlaneNodes(ctx context.Context, cluster types.NamespacedName) ([]string, error) {
	var names []string
	var page corev1.NodeList
	marked := client.HasLabels{"node-role.kubernetes.io/control-plane"}
	err := f.list(ctx, cluster, "Nodes", &page, func() {
		for i := range page.Items {
			names = append(names, text.Bound(page.Items[i].Name, maxNameBytes))
		}
	}, marked)
	return names, err
}

// computeNotReady says why a Node is not Ready. The words of the condition's message are left out: they count seconds.
func computeNotReady(node *corev1.Node) string {
	for _, condition := range node.Status.Conditions {
		switch {
		case condition.Type != corev1.NodeReady:
		case condition.Status == corev1.ConditionTrue:
			return ""
		case condition.Reason != "":
			return text.Bound(fmt.Sprintf("Ready is %s: %s", condition.Status, condition.Reason), maxShownBytes)
		default:
			return text.Bound(fmt.Sprintf("Ready is %s", condition.Status), maxShownBytes)
		}
	}
	return "it has no Ready condition"
}

// Budgets returns the PodDisruptionBudgets of a cluster.
func (f *Facts) Budgets(ctx context.Context, cluster types.NamespacedName) ([]gate.Budget, error) {
	var budgets []gate.Budget
	var page policyv1.PodDisruptionBudgetList
	err := f.list(ctx, cluster, "PodDisruptionBudgets", &page, func() {
		for i := range page.Items {
			budgets = append(budgets, NewBudget(&page.Items[i]))
		}
	})
	return budgets, err
}

// NewBudget returns what counts of a PodDisruptionBudget.
func NewBudget(b *policyv1.PodDisruptionBudget) gate.Budget {
	return gate.Budget{
		Namespace: text.Bound(b.Namespace, maxNameBytes), Name: text.Bound(b.Name, maxNameBytes), Problem: computeBudgetProblem(b),
		ExpectedPods: b.Status.ExpectedPods, DesiredHealthy: b.Status.DesiredHealthy,
	}
}

// computeBudgetProblem says why the status of a budget cannot be relied on. While it is so, the API server evicts no pod of it.
func computeBudgetProblem(b *policyv1.PodDisruptionBudget) string {
	for _, condition := range b.Status.Conditions {
		if condition.Type == policyv1.DisruptionAllowedCondition && condition.Reason == policyv1.SyncFailedReason {
			return "its pods cannot be counted: " + policyv1.SyncFailedReason
		}
	}
	if b.Status.ObservedGeneration < b.Generation {
		return "the disruption controller has not looked at it"
	}
	return ""
}

// list reads all pages of a list, and calls each after every one.
func (f *Facts) list(
	ctx context.Context, cluster types.NamespacedName, what string, page client.ObjectList, each func(),
	options ...client.ListOption,
) error {
	remote, err := f.clients.Client(ctx, cluster)
	if err != nil {
		return newUnreachable(cluster, err)
	}
	err = listPages(ctx, remote, page, each, options...)
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("the API server of Cluster %s serves no %s", cluster, what)
	}
	if err != nil {
		return f.failed(ctx, cluster, remote, what, err)
	}
	return nil
}

// listPages reads all pages of a list within its bounds, and calls each after every one.
func listPages(
	ctx context.Context, remote client.Client, page client.ObjectList, each func(),
	options ...client.ListOption,
) error {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	listed, next := 0, ""
	for range maxPages {
		paged := append(slices.Clone(options), client.Limit(pageSize), client.Continue(next))
		if err := remote.List(ctx, page, paged...); err != nil {
			return err
		}
		if listed += meta.LenList(page); listed > maxListed {
			break
		}
		each()
		if next = page.GetContinue(); next == "" {
			return nil
		}
	}
	return &garbledError{problem: fmt.Sprintf("the list has more than %d pages or %d objects", maxPages, maxListed)}
}

// failed tells of a request that failed. That there was no answer has nothing to do with what was asked for, and is said in the same
// words for all: which of several requests notices it first must not change a condition.
func (f *Facts) failed(ctx context.Context, cluster types.NamespacedName, remote *connection, what string, err error) error {
	f.clients.Failed(ctx, cluster, remote, err)
	if isAnswer(err) {
		return &unreachableError{
			cluster: cluster, reason: fmt.Sprintf("reading its %s: %s", what, describe(err)), cause: err,
		}
	}
	return newUnreachable(cluster, err)
}

package preflight

import (
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/windlass-dev/windlass/internal/clustercheck"
	"github.com/windlass-dev/windlass/internal/gate"
	"github.com/windlass-dev/windlass/internal/text"
)

// Budget is what counts of a PodDisruptionBudget.
type Budget struct {
	gate.Budget

	// Selector selects its Pods.
	Selector labels.Selector
	// Allowed is how many Pods may be evicted now, and Healthy how many are healthy.
	Allowed, Healthy int32
}

// CheckBudgets finds budgets that forbid evictions, indefinitely or now.
func CheckBudgets(budgets []Budget) []clustercheck.Finding {
	r := report{id: BudgetsCanBeSatisfied}
	for _, b := range budgets {
		subject := named("PodDisruptionBudget", b.Namespace, b.Name)
		switch {
		case b.Problem != "":
			r.fail(subject, "look at the kube-controller-manager and at what its Pods belong to",
				"%s; until then no Pod of it is evicted", b.Problem)
		case b.NeverSatisfied():
			r.fail(subject,
				"allow one disruption: maxUnavailable 1, or a smaller minAvailable, or one more replica",
				"it requires %d healthy Pods and selects %d, so that no eviction is ever allowed; "+
					"a drain waits until its timeout (nodeDrainTimeoutSeconds), indefinitely without one",
				b.DesiredHealthy, b.ExpectedPods)
		case b.ExpectedPods > 0 && b.Allowed == 0:
			r.warn(subject, "wait until its Pods are healthy, or look why they are not",
				"it allows no eviction now: %s healthy, and %d must be",
				text.CountAre(int(b.Healthy), "Pod"), b.DesiredHealthy)
		}
	}
	return r.finish("%s checked: each allows evictions",
		text.Count(len(budgets), "PodDisruptionBudget"))
}

// CheckOverlap finds Pods that drains evict and that more than one budget selects. The API server
// asks no budget about a Pod that is pending or already being deleted.
func CheckOverlap(budgets []Budget, pods []Workload) []clustercheck.Finding {
	inSpace := map[string][]Budget{}
	for _, b := range budgets {
		inSpace[b.Namespace] = append(inSpace[b.Namespace], b)
	}
	r := report{id: BudgetsOverlap}
	together := map[string][]string{}
	for _, p := range pods {
		if p.Stays || p.Pending || p.Ending {
			continue
		}
		var of []string
		for _, b := range inSpace[p.Namespace] {
			if b.Selector.Matches(p.Labels) {
				of = append(of, text.Bound(b.Name, maxNameBytes))
			}
		}
		if len(of) > 1 {
			slices.Sort(of)
			// A cluster that is not trusted may have any number of them.
			key := named("PodDisruptionBudgets", p.Namespace, text.JoinSome(of, shown, ", "))
			together[key] = append(together[key], text.Bound(p.Name, maxNameBytes))
		}
	}
	for subject, names := range together {
		slices.Sort(names)
		r.fail(subject, "change their selectors, or delete all but one",
			"they select the same %s (%s), and the API server answers evictions of a Pod with two budgets "+
				"with an error (500)",
			text.Count(len(names), "Pod"), text.JoinSome(names, shown, ", "))
	}
	return r.finish("no Pod that a drain evicts has more than one PodDisruptionBudget")
}

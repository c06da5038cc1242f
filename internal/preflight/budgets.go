package preflight

import (
	"fmt"
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

// Disruptions is what the check of budgets is about.
type Disruptions struct {
	Budgets []Budget
	// Pods are all; none if they are not known.
	Pods []Workload
	// DrainTimeouts are the nodeDrainTimeoutSeconds of Nodes' machines by Node; 0 for none. A Node that is
	// not there is not known.
	DrainTimeouts map[string]int32
	// Accepted are names of findings that are left out: budget/NAMESPACE/NAME.
	Accepted []string
}

// CheckBudgets finds budgets that forbid evictions, indefinitely or now.
func CheckBudgets(d Disruptions) []clustercheck.Finding {
	r := report{id: BudgetsCanBeSatisfied}
	for _, b := range d.Budgets {
		subject, name := named("PodDisruptionBudget", b.Namespace, b.Name), "budget/"+b.Namespace+"/"+b.Name
		if slices.Contains(d.Accepted, name) {
			continue
		}
		switch {
		case b.Problem != "":
			r.fail(subject, "look at the kube-controller-manager and at what its Pods belong to",
				"%s; until then no Pod of it is evicted", b.Problem)
		case b.NeverSatisfied():
			of := d.podsOf(b)
			words, ends := d.describeWait(of)
			add := r.fail
			if ends {
				add = r.warn
			}
			add(subject, fixNever(of, ends)+"; accept it by the name "+text.Bound(name, maxNameBytes),
				"it requires %d healthy Pods and selects %d, so that it allows no eviction; %s",
				b.DesiredHealthy, b.ExpectedPods, words)
		case b.ExpectedPods > 0 && b.Allowed == 0:
			r.warn(subject, "wait until its Pods are healthy, or look why they are not",
				"it allows no eviction now: %s healthy, and %d must be",
				text.CountAre(int(b.Healthy), "Pod"), b.DesiredHealthy)
		}
	}
	return r.finish("%s checked: each allows evictions",
		text.Count(len(d.Budgets), "PodDisruptionBudget"))
}

// podsOf returns the Pods of a budget that drains evict.
func (d Disruptions) podsOf(b Budget) []Workload {
	return slices.DeleteFunc(slices.Clone(d.Pods), func(p Workload) bool {
		return p.Stays || p.Namespace != b.Namespace || !b.Selector.Matches(p.Labels)
	})
}

// isForeign reports whether there are Pods, and all of them are foreign.
func isForeign(pods []Workload) bool {
	return len(pods) > 0 && !slices.ContainsFunc(pods, func(p Workload) bool { return !p.Foreign })
}

// fixNever is the way out of a budget that allows no eviction. ends says that a drain ends without one.
func fixNever(pods []Workload, ends bool) string {
	switch {
	case !isForeign(pods):
		return "allow one disruption: maxUnavailable 1, or a smaller minAvailable, or one more replica"
	case ends:
		return foreignBudget
	}
	return foreignBudget + "; or set nodeDrainTimeoutSeconds"
}

const foreignBudget = "its Pods are of no workload controller, so an operator has made them and " +
	"this budget: follow its documentation for drains"

// describeWait says how long a drain waits for Pods, and whether it is known to end by itself.
func (d Disruptions) describeWait(pods []Workload) (words string, ends bool) {
	longest := int32(0)
	for _, p := range pods {
		timeout, known := d.DrainTimeouts[p.Node]
		switch {
		case !known:
			longest = -1
		case timeout == 0:
			return "a drain of its Nodes waits indefinitely, because nodeDrainTimeoutSeconds of a " +
				"machine of them is not set, or 0, which is no limit", false
		case longest >= 0:
			longest = max(longest, timeout)
		}
	}
	if longest > 0 {
		return fmt.Sprintf("a drain of its Nodes waits until nodeDrainTimeoutSeconds, at most %ds, "+
			"and then ends with its Pods still there", longest), true
	}
	return "a drain waits until its timeout (nodeDrainTimeoutSeconds), indefinitely without one", false
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

package preflight

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
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
	// AlwaysAllow reports that Pods which are not healthy are evicted in any case.
	AlwaysAllow bool
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
	Now      time.Time
}

// CheckBudgets finds budgets that forbid evictions, indefinitely or now.
func CheckBudgets(d Disruptions) []clustercheck.Finding {
	r := report{id: BudgetsCanBeSatisfied}
	for _, b := range d.Budgets {
		subject, name := named("PodDisruptionBudget", b.Namespace, b.Name), "budget/"+b.Namespace+"/"+b.Name
		if slices.Contains(d.Accepted, name) {
			continue
		}
		d.check(&r, b, subject, name)
	}
	return r.finish("%s checked: each allows evictions",
		text.Count(len(d.Budgets), "PodDisruptionBudget"))
}

// check judges one budget. Nothing keeps Pods that are not healthy if the budget always allows their
// eviction.
func (d Disruptions) check(r *report, b Budget, subject, name string) {
	if b.Problem != "" {
		r.fail(subject, "look at the kube-controller-manager and at what its Pods belong to",
			"%s; until then no Pod of it is evicted", b.Problem)
		return
	}
	of := d.podsOf(b)
	words, ends := d.describeWait(of)
	crashing := d.describeCrashes(of)
	switch {
	case b.NeverSatisfied():
		add, fix := r.fail, fixNever(of, ends)
		if ends {
			add = r.warn
		}
		if crashing != "" && !b.AlwaysAllow {
			fix = fixCrashes + ", and allow one disruption: maxUnavailable 1, or a smaller minAvailable"
			words += "; " + crashing
		}
		add(subject, fix+"; accept it by the name "+text.Bound(name, maxNameBytes),
			"it requires %d healthy Pods and selects %d, so that it allows no eviction; %s",
			b.DesiredHealthy, b.ExpectedPods, words)
	case b.ExpectedPods == 0 || b.Allowed > 0 || b.AlwaysAllow && b.Healthy == 0:
	case crashing == "":
		r.warn(subject, "wait until its Pods are healthy, or look why they are not",
			"it allows no eviction now: %s", b.describeHealth())
	default:
		r.warn(subject, b.fixCrashes(ends), "it allows no eviction now: %s; %s; %s",
			b.describeHealth(), crashing, words)
	}
}

func (b Budget) describeHealth() string {
	return fmt.Sprintf("%s healthy, and %d must be", text.CountAre(int(b.Healthy), "Pod"), b.DesiredHealthy)
}

const fixCrashes = "correct or scale down the application whose Pods crash"

// fixCrashes is the way out of a budget whose Pods do not become healthy by themselves. While a budget
// is met, the API server evicts those that are not healthy, and keeps the others. ends says that a
// drain ends without it.
func (b Budget) fixCrashes(ends bool) string {
	fix := fixCrashes
	if !b.AlwaysAllow && (b.Healthy < b.DesiredHealthy || b.DesiredHealthy == 0) {
		fix += "; or set unhealthyPodEvictionPolicy: AlwaysAllow in the budget, " +
			"so that Pods which are not healthy are evicted"
	} else {
		fix += "; or let the budget require fewer healthy Pods"
	}
	if !ends {
		fix += "; nodeDrainTimeoutSeconds limits each drain"
	}
	return fix
}

// Crash is why a Pod that has started is not Ready: its containers end again and again.
type Crash struct {
	// Loops reports that a container waits for its next start (CrashLoopBackOff).
	Loops    bool
	Restarts int32
	// Since is when the Pod was last Ready; zero if it is not known.
	Since time.Time
}

// crashOf returns why a Pod is not Ready; nil if it is, or if nothing has ended in it.
func crashOf(pod *corev1.Pod) *Crash {
	c := &Crash{}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			if condition.Status == corev1.ConditionTrue {
				return nil
			}
			c.Since = condition.LastTransitionTime.Time
		}
	}
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		c.Loops = c.Loops || s.State.Waiting != nil && s.State.Waiting.Reason == "CrashLoopBackOff"
		if !s.Ready {
			c.Restarts = max(c.Restarts, s.RestartCount)
		}
	}
	if !c.Loops && c.Restarts <= 0 {
		return nil
	}
	return c
}

// longUnready is how long a Pod with restarts is not Ready before it counts as one that crashes.
const longUnready = 2 * time.Hour

// describeCrashes names the Pods that crash, of those that ask a budget before their eviction; empty if
// there are none. The API server asks none about a Pod that is pending or already being deleted.
func (d Disruptions) describeCrashes(pods []Workload) string {
	var crashing []string
	for _, p := range pods {
		c := p.Crash
		if c == nil || p.Pending || p.Ending {
			continue
		}
		state, since := "not Ready", ""
		if c.Loops {
			state = "CrashLoopBackOff"
		}
		if !c.Since.IsZero() {
			since = ", not Ready since " + c.Since.UTC().Format(time.RFC3339)
		}
		if !c.Loops && (c.Since.IsZero() || d.Now.Sub(c.Since) < longUnready) {
			continue
		}
		crashing = append(crashing, fmt.Sprintf("%s on Node %s (%s, %s)", text.Bound(p.Name, maxNameBytes),
			text.Bound(p.Node, maxNameBytes), strings.TrimPrefix(state+since, "not Ready, "),
			text.Count(int(c.Restarts), "restart")))
	}
	if len(crashing) == 0 {
		return ""
	}
	slices.Sort(crashing)
	return fmt.Sprintf("%s, so that waiting does not help: %s",
		crashWords(len(crashing)), text.JoinSome(crashing, shown, ", "))
}

func crashWords(n int) string {
	if n == 1 {
		return "1 Pod crashes"
	}
	return fmt.Sprintf("%d Pods crash", n)
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

package gate

import (
	"fmt"
	"slices"

	"github.com/windlass-dev/windlass/internal/text"
	"github.com/windlass-dev/windlass/pkg/version"
)

// Facts are what was found out about a cluster.
type Facts struct {
	// Unknown holds, for a check whose facts could not be found out, why.
	Unknown map[Check]string
	// Nodes are those of the cluster.
	Nodes []Node
	// EtcdProblem says why etcd is not healthy, as the control plane object tells it; empty means that it is.
	EtcdProblem string
	// DeprecatedAPIs are those that the API server has seen requests for since it started.
	DeprecatedAPIs []API
	// Budgets are the PodDisruptionBudgets of the cluster.
	Budgets []Budget
}

// Node is what counts of a Node. That it is cordoned does not count: upgrades and maintenance cordon Nodes.
type Node struct {
	Name string
	// NotReady says why the Node is not Ready; empty means that it is.
	NotReady string
}

// API is an API that a later minor removes.
type API struct {
	// Group is empty for the core group. Subresource is empty for the resource itself.
	Group, Version, Resource, Subresource string
	// Removed is the first minor without it.
	Removed version.Minor
}

// String names the API, such as flowschemas.v1beta3.flowcontrol.apiserver.k8s.io (removed in v1.32).
func (a API) String() string {
	name := a.Resource
	if a.Subresource != "" {
		name += "/" + a.Subresource
	}
	name += "." + a.Version
	if a.Group != "" {
		name += "." + a.Group
	}
	return fmt.Sprintf("%s (removed in %s)", name, a.Removed)
}

// Budget is what counts of a PodDisruptionBudget.
type Budget struct {
	Namespace, Name string
	// ExpectedPods is how many pods it counts, and DesiredHealthy how many of them must be healthy.
	ExpectedPods, DesiredHealthy int32
	// Problem says why its status says nothing; empty means that it does.
	Problem string
}

// shown is how many items a message names.
const shown = 5

// rule finds one kind of fault, after which its reason is named.
type rule struct {
	check  Check
	reason Reason
	prefix string
	faults func(Step, Facts) []string
}

// rules are in the order in which a person would look.
var rules = []rule{
	{NodesReady, NodesNotReady, "Nodes that are not Ready: ", nodesNotReady},
	{EtcdHealthy, EtcdNotHealthy, "etcd is not healthy: ", etcdNotHealthy},
	{NoDeprecatedAPIs, DeprecatedAPIsInUse, "APIs in use that are removed, as reported by the metric apiserver_requested_deprecated_apis: ", deprecatedAPIsInUse},
	{BudgetsCanBeSatisfied, BudgetsNeverSatisfied, "PodDisruptionBudgets that allow no eviction ever: ", budgetsNeverSatisfied},
}

// decideChecks finds what the cluster itself does not meet.
func decideChecks(g Gate, step Step, facts Facts) []Finding {
	var findings []Finding
	for _, rule := range rules {
		if !slices.Contains(g.Checks, rule.check) {
			continue
		}
		if why, ok := facts.Unknown[rule.check]; ok {
			findings = append(findings, Finding{Gate: g.Name, Reason: CheckUnknown, Message: fmt.Sprintf(
				"cannot check %s: %s. Fix: if it can never be checked here, remove the check from the gate", rule.check, why)})
			continue
		}
		if faults := rule.faults(step, facts); len(faults) > 0 {
			findings = append(findings, Finding{Gate: g.Name, Reason: rule.reason, Message: rule.prefix + list(faults)})
		}
	}
	for _, check := range g.Checks {
		if !isKnown(check) {
			findings = append(findings, Finding{Gate: g.Name, Reason: GateInvalid, Message: describeUnknown(check)})
		}
	}
	return findings
}

// list names the first faults, sorted, and counts the others.
func list(faults []string) string {
	return text.JoinSome(slices.Sorted(slices.Values(faults)), shown, ", ")
}

func nodesNotReady(_ Step, facts Facts) []string {
	var faults []string
	for _, n := range facts.Nodes {
		if n.NotReady != "" {
			faults = append(faults, fmt.Sprintf("%s (%s)", n.Name, n.NotReady))
		}
	}
	return faults
}

func etcdNotHealthy(_ Step, facts Facts) []string {
	if facts.EtcdProblem == "" {
		return nil
	}
	return []string{facts.EtcdProblem}
}

func deprecatedAPIsInUse(step Step, facts Facts) []string {
	var faults []string
	for _, a := range RemovedBy(step.Version.Minor(), facts.DeprecatedAPIs) {
		faults = append(faults, a.String())
	}
	return faults
}

// RemovedBy returns the APIs that a minor does not serve. It omits those that only a later one removes.
func RemovedBy(minor version.Minor, apis []API) []API {
	return slices.DeleteFunc(slices.Clone(apis), func(a API) bool { return minor.Before(a.Removed) })
}

// NeverSatisfied reports whether a budget requires all its pods to be healthy, whether these are or not: with
// maxUnavailable 0, or with minAvailable that is not less than the pods. A budget that waits for a pod to become healthy is not
// meant: it may well be satisfied soon. One without pods forbids nothing.
func (b Budget) NeverSatisfied() bool {
	return b.ExpectedPods > 0 && b.DesiredHealthy >= b.ExpectedPods
}

func budgetsNeverSatisfied(_ Step, facts Facts) []string {
	var faults []string
	for _, b := range facts.Budgets {
		name := b.Namespace + "/" + b.Name
		switch {
		case b.Problem != "":
			faults = append(faults, fmt.Sprintf("%s (%s)", name, b.Problem))
		case b.NeverSatisfied():
			// How many pods there are is not said: it may change all the time.
			faults = append(faults, name)
		}
	}
	return faults
}

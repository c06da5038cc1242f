package differential

import (
	"slices"

	"github.com/windlass-dev/windlass/pkg/plan"
)

// shape says who refuses an input that the planners disagree about.
type shape int

const (
	// upstreamRefuses: there is a legal plan, and upstream gives an error.
	upstreamRefuses shape = iota
	// weRefuse: there is no legal plan, and upstream gives one, or answers "nothing to do" without an error.
	weRefuse
	// plansDiffer: both give a plan, not the same.
	plansDiffer
)

func (s shape) String() string {
	return [...]string{"upstream refuses", "we refuse", "plans differ"}[s]
}

func shapeOf(our, their outcome) shape {
	switch {
	case our.err != nil:
		return weRefuse
	case their.err != nil:
		return upstreamRefuses
	default:
		return plansDiffer
	}
}

// class is one known reason for disagreement. Whether it applies is decided by the input alone (in normal form), never by
// what the planners answered; the shape then must be one that the reason can explain.
type class struct {
	name    string
	applies func(in input) bool
	shapes  []shape
	// rules, when set, are those that our planner may refuse with.
	rules []plan.Rule
}

// The first class that fits counts. The numbers are those of the list of known differences: "we get it right".
var classes = []class{
	{
		// The major version takes part in every comparison: v1.35 to v2.36 is not one minor step.
		name: "5 the major version is ignored",
		applies: func(in input) bool {
			return slices.ContainsFunc(in.versions(), func(k kver) bool { return k.major != in.controlPlane.major })
		},
		shapes: []shape{weRefuse},
	},
	{
		// "equal to fromControlPlaneKubernetesVersion or to one of the versions in the control plane upgrade plan":
		// reference of the GenerateUpgradePlan hook. Upstream checks it only while the control plane has steps to go.
		name: "4 control plane done, and workers are sent to a version that it never had",
		applies: func(in input) bool {
			return in.controlPlane == in.target && slices.ContainsFunc(in.workers, func(k kver) bool { return k != in.controlPlane })
		},
		shapes: []shape{weRefuse},
		rules:  []plan.Rule{plan.RuleNotOnRoute, plan.RuleBeyondTarget, plan.RuleSkew, plan.RuleKubeletNewer},
	},
	{
		// No control plane version is known for a minor at which the workers would have to stop: upstream then wraps a
		// nil error, and so answers with an empty plan as if there were nothing to do.
		name: "3 inference finds a minor missing: an empty plan and no error",
		applies: func(in input) bool {
			slowest, ok := in.slowest()
			return ok && len(in.workers) == 0 && (slowest.lag(in.controlPlane) > 3 || slowest.lag(in.target) < 0)
		},
		shapes: []shape{weRefuse},
		rules:  []plan.Rule{plan.RuleSkew, plan.RuleKubeletNewer},
	},
	{
		// https://kubernetes.io/releases/version-skew-policy/: kubelet is never newer than kube-apiserver.
		// Upstream looks at the slowest group only, and not at where the control plane is.
		name: "- a group is newer than the control plane",
		applies: func(in input) bool {
			return slices.ContainsFunc(in.groups, func(g group) bool { return g.at.lag(in.controlPlane) < 0 })
		},
		shapes: []shape{weRefuse},
		rules:  []plan.Rule{plan.RuleKubeletNewer},
	},
	{
		// A downgrade, which nothing in Kubernetes allows; upstream does not see it while another group is slower.
		name: "- a group that is not the slowest is newer than the target",
		applies: func(in input) bool {
			w := judge(in).way
			return len(w.route) > 0 && slices.ContainsFunc(in.groups, func(g group) bool { return g.at != in.target && !w.behind(g.at, w.last()) })
		},
		shapes: []shape{weRefuse},
		rules:  []plan.Rule{plan.RuleDowngrade},
	},
	{
		// "each version must be greater than fromControlPlaneKubernetesVersion", "less or equal to toKubernetesVersion": all
		// items, says the reference of the hook. Upstream compares neighbours only, and among builds without an order of
		// their own a list can so come back to where it was, or go beyond its target.
		name: "- builds without an order lead the control plane back",
		applies: func(in input) bool {
			return in.source == fromResponse && goesBack(in)
		},
		shapes: []shape{weRefuse},
		rules:  []plan.Rule{plan.RuleOrder, plan.RuleBeyondTarget, plan.RuleDowngrade},
	},
	{
		// kubelet before v1.25 may lag two minors only: version skew policy, KEP-3935.
		name: "6 a skew of 3 minors is allowed for kubelet v1.24 and older",
		applies: func(in input) bool {
			return slices.ContainsFunc(in.groups, func(g group) bool { return g.at.minor < 25 && g.at.lag(in.target) >= 3 })
		},
		shapes: []shape{weRefuse, plansDiffer},
		rules:  []plan.Rule{plan.RuleSkew},
	},
	{
		name: "2 a build-only upgrade through kubernetesVersions finds no step",
		applies: func(in input) bool {
			return in.source == fromList && in.controlPlane != in.target && in.controlPlane.release() == in.target.release()
		},
		shapes: []shape{upstreamRefuses},
	},
	{
		// Upstream stops reading at the first version beyond the target. Where builds without an order stand between, such
		// a version can precede the target in a list whose neighbours are all in order: +a.2, +b, +a.
		name: "- kubernetesVersions holds a newer build of the target before the target",
		applies: func(in input) bool {
			at := slices.Index(in.list, in.target)
			return in.source == fromList && at > 0 &&
				slices.ContainsFunc(in.list[:at], func(k kver) bool { return compare(k, in.target) == newer })
		},
		shapes: []shape{upstreamRefuses},
	},
	{
		name: "1 workers at a build that cannot be ordered against the control plane's",
		applies: func(in input) bool {
			route := judge(in).route
			return slices.ContainsFunc(in.groups, func(g group) bool {
				return !slices.Contains(route, g.at) &&
					slices.ContainsFunc(route, func(k kver) bool { return compare(k, g.at) == unordered })
			})
		},
		shapes: []shape{upstreamRefuses},
	},
	{
		// Upstream takes any group whose build differs from the control plane's for an older one, also one that has moved on.
		name: "1 of groups at builds without an order, the wrong one is taken for the slowest",
		applies: func(in input) bool {
			return slices.ContainsFunc(in.groups, func(g group) bool {
				return slices.ContainsFunc(in.groups, func(h group) bool { return compare(g.at, h.at) == unordered })
			})
		},
		shapes: []shape{upstreamRefuses, plansDiffer},
	},
	{
		// RKE2 and K3s count their builds within a word: +rke2r10 is newer than +rke2r2, whatever a list says.
		name: "- numbered builds that upstream does not order",
		applies: func(in input) bool {
			versions := in.versions()
			return slices.ContainsFunc(versions, func(a kver) bool {
				return slices.ContainsFunc(versions, func(b kver) bool {
					return compareWords(a, b) == unordered && compare(a, b) != unordered
				})
			})
		},
		shapes: []shape{weRefuse, upstreamRefuses, plansDiffer},
	},
	{
		name: "9 an update method that cannot jump far",
		applies: func(in input) bool {
			return slices.ContainsFunc(in.groups, func(g group) bool { return g.limit > 0 && g.limit < g.at.lag(in.target) })
		},
		shapes: []shape{weRefuse, plansDiffer},
		rules:  []plan.Rule{plan.RuleTransition},
	},
}

// These classes are told apart by another form of the same input rather than by a predicate: written in the other form,
// upstream answers as we do (or differs for one of the reasons above, which then counts).
const (
	classSpelling  = "7 a version without its v"
	classListOrder = "- kubernetesVersions out of order (the webhook refuses such lists; the planner takes the latest of each minor)"
	// classOwnPlans is counted beside the others: the shared lists are equal, and a group needs less than the list.
	classOwnPlans = "8 a group that is ahead of the slowest stops at all the slowest's stops"
)

func goesBack(in input) bool {
	for i, k := range in.list {
		if !after(k, in.controlPlane) || compare(k, in.target) == newer ||
			slices.ContainsFunc(in.list[:i], func(earlier kver) bool { return !after(k, earlier) }) {
			return true
		}
	}
	return false
}

func (in input) versions() []kver {
	all := append([]kver{in.controlPlane, in.target}, in.list...)
	all = append(all, in.workers...)
	for _, g := range in.groups {
		all = append(all, g.at)
	}
	return all
}

// slowest is the oldest version of the groups, by minors.
func (in input) slowest() (slowest kver, ok bool) {
	for _, g := range in.groups {
		if !ok || g.at.minor < slowest.minor {
			slowest, ok = g.at, true
		}
	}
	return slowest, ok
}

func (in input) hasBare() bool {
	return slices.ContainsFunc(in.versions(), func(k kver) bool { return k.bare })
}

func (in input) outOfOrder() bool {
	return in.source == fromList && !slices.Equal(canons(in.list), in.normal().list)
}

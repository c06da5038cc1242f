package updatepolicy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/pool"
)

// The values of fields that an UpdatePolicy leaves open. The API server fills in the same; policies that are read from
// files have not passed it.
const (
	defaultMaxInFlight    = 1
	defaultCanary         = 1
	defaultMaxAttempts    = 3
	defaultAttemptTimeout = 30 * time.Minute
)

// Selected is the policy that counts for a group.
type Selected struct {
	// Name is the name of the UpdatePolicy; empty for the default.
	Name string
	// InPlace says that updaters change running machines, where they cover the change.
	InPlace bool
	// FallbackReplace says that machines are replaced where updaters do not cover the change.
	FallbackReplace bool
	// Guarded says that nothing but a person may have machines replaced: InPlace without FallbackReplace.
	Guarded bool
	Policy  inplace.Policy
	// Limits bound the rollouts of a MachineDeployment. They count only if Name is not empty.
	Limits pool.Limits
	// UpdateOnDelete says that groups with the strategy OnDelete are updated in place.
	UpdateOnDelete bool
	// Ignore are the fields that need not be applied to a running machine, sorted.
	Ignore []cover.Ignore
	// Generation is the UpdatePolicy's.
	Generation int64
}

// Default returns the policy of groups that no UpdatePolicy selects: machines are replaced, as Cluster API does by itself. Its
// Policy is for updates that began under an UpdatePolicy which was deleted since.
func Default() Selected {
	return Selected{
		FallbackReplace: true,
		Policy: inplace.Policy{
			MaxInFlight: defaultMaxInFlight, Canary: defaultCanary, MaxAttempts: defaultMaxAttempts, AttemptTimeout: defaultAttemptTimeout,
		},
	}
}

// Keeps reports whether no rollout of windlass manager may create or delete a Machine of a group: as the
// policy says, and if it has a group with the strategy OnDelete updated in place.
func (s Selected) Keeps(md *clusterv1.MachineDeployment) bool {
	return s.Guarded || s.UpdateOnDelete && pool.IsOnDelete(md)
}

// Limited reports whether windlass manager applies the Limits to a group: a policy selects it, and
// people do not delete its Machines.
func (s Selected) Limited(md *clusterv1.MachineDeployment) bool {
	return s.Name != "" && (!pool.IsOnDelete(md) || s.UpdateOnDelete)
}

// ConflictError says that several UpdatePolicies select a group with the same precision.
type ConflictError struct {
	Group Group
	// Policies are their names, at least two, sorted.
	Policies []string
	by       precision
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("UpdatePolicies %s select the %s with the same precision (%s); let only one of them select it, or let one name it more precisely",
		quoteAll(e.Policies), e.Group, e.by)
}

// Select returns the policy that counts for a group, or Default where none selects it. Policies of other namespaces do not
// count. The one that names the group most precisely counts: by its name, by its labels, or not at all; where that is equal,
// the one that names the cluster most precisely, in the same steps. A selector that is empty names nothing.
//
// The error is a *ConflictError where two are equally precise: nobody can know which was meant, and the wrong one may have
// machines replaced. It is an *InvalidError where a policy does not parse that might be the one that counts, whatever its
// faulty selectors were meant to say.
func Select(policies []v1alpha1.UpdatePolicy, g Group) (Selected, error) {
	var best precision
	var candidates []*v1alpha1.UpdatePolicy
	for i := range policies {
		p := &policies[i]
		if p.Namespace != g.Namespace {
			continue
		}
		by, ok := match(p.Spec.Targets, g)
		if !ok {
			continue
		}
		switch order := by.compare(best); {
		case len(candidates) == 0 || order > 0:
			best, candidates = by, []*v1alpha1.UpdatePolicy{p}
		case order == 0:
			candidates = append(candidates, p)
		}
	}
	if len(candidates) == 0 {
		return Default(), nil
	}
	slices.SortFunc(candidates, func(a, b *v1alpha1.UpdatePolicy) int { return strings.Compare(a.Name, b.Name) })
	for _, p := range candidates {
		if err := Check(p); err != nil {
			return Selected{}, err
		}
	}
	if len(candidates) > 1 {
		names := make([]string, 0, len(candidates))
		for _, p := range candidates {
			names = append(names, p.Name)
		}
		return Selected{}, &ConflictError{Group: g, Policies: names, by: best}
	}
	return translate(candidates[0]), nil
}

// translate fills in what a policy leaves open. The policy has been checked.
func translate(p *v1alpha1.UpdatePolicy) Selected {
	s := Default()
	s.Name, s.Generation = p.Name, p.Generation
	s.InPlace = p.Spec.Strategy == v1alpha1.ExternalUpdate
	s.FallbackReplace = !s.InPlace || p.Spec.Fallback == v1alpha1.FallbackRollingUpdate
	s.Guarded = MayGuard(p)
	s.Policy = inplace.Policy{
		MaxInFlight:    cmp.Or(int(p.Spec.MaxInFlight), s.Policy.MaxInFlight),
		Canary:         s.Policy.Canary,
		Drain:          p.Spec.Drain,
		Soak:           time.Duration(p.Spec.SoakSeconds) * time.Second,
		MaxAttempts:    cmp.Or(int(p.Spec.MaxAttempts), s.Policy.MaxAttempts),
		AttemptTimeout: cmp.Or(time.Duration(p.Spec.AttemptTimeoutSeconds)*time.Second, s.Policy.AttemptTimeout),
		Remediate:      p.Spec.OnFailure == v1alpha1.FailureRemediate,
	}
	s.Limits = Limits(p.Spec, s.Policy)
	s.UpdateOnDelete = s.InPlace && p.Spec.OnDelete == v1alpha1.OnDeleteInPlace
	s.Policy.Canary = min(defaultCanary, s.Limits.Canary.IntValue())
	if s.Limits.Canary.Type == intstr.String && s.Limits.Canary.StrVal != "0%" {
		s.Policy.Canary = defaultCanary
	}
	for _, i := range p.Spec.IgnorePaths {
		s.Ignore = append(s.Ignore, cover.Ignore{Part: cover.Part(i.Object), Path: i.Path})
	}
	slices.SortFunc(s.Ignore, func(a, b cover.Ignore) int {
		return cmp.Or(cmp.Compare(a.Part, b.Part), strings.Compare(a.Path, b.Path))
	})
	return s
}

// Limits returns what bounds the rollouts of a MachineDeployment. p has what spec leaves open. The
// spec has been checked.
func Limits(spec v1alpha1.UpdatePolicySpec, p inplace.Policy) pool.Limits {
	seconds := func(n int32) time.Duration { return time.Duration(n) * time.Second }
	l := pool.Limits{
		MaxInFlight: int32(p.MaxInFlight), // #nosec G115 -- it was an int32
		Canary:      intstr.FromInt32(defaultCanary), Batches: slices.Clone(spec.Batches), Soak: p.Soak,
		MachineDeadline: seconds(spec.MachineDeadlineSeconds), GroupDeadline: seconds(spec.GroupDeadlineSeconds),
	}
	if spec.Canary != nil {
		l.Canary = *spec.Canary
	}
	if spec.Partition != nil {
		l.Partition = *spec.Partition
	}
	l.Order = pool.Order{
		Labels: slices.Clone(spec.Order.Labels), OneAtATime: spec.Order.OneAtATime,
	}
	if spec.Order.Last != nil {
		// The policy has been checked: the selector parses.
		l.Order.Last, _ = metav1.LabelSelectorAsSelector(spec.Order.Last)
	}
	if spec.OnFailure == v1alpha1.FailurePause {
		l.MaxFailures = max(spec.MaxFailures, 1)
	}
	return l
}

// precision is how precisely a target names a group, first by itself, then by its cluster.
type precision struct {
	group, cluster level
}

type level int

const (
	anyOne level = iota
	byLabels
	byName
)

func (p precision) compare(q precision) int {
	return cmp.Or(cmp.Compare(p.group, q.group), cmp.Compare(p.cluster, q.cluster))
}

func (p precision) String() string {
	var parts []string
	for _, part := range []struct {
		what string
		by   level
	}{{"group", p.group}, {"cluster", p.cluster}} {
		switch part.by {
		case byName:
			parts = append(parts, "by name of the "+part.what)
		case byLabels:
			parts = append(parts, "by labels of the "+part.what)
		case anyOne:
		}
	}
	if len(parts) == 0 {
		return "any group of the namespace"
	}
	return strings.Join(parts, " and ")
}

// match returns the precision of the most precise target that selects the group, and whether one does. A selector that does
// not parse counts as one that matches: what was meant is not known.
func match(targets []v1alpha1.UpdateTarget, g Group) (best precision, ok bool) {
	for _, t := range targets {
		by, matches := matchTarget(t, g)
		if matches && (!ok || by.compare(best) > 0) {
			best, ok = by, true
		}
	}
	return best, ok
}

func matchTarget(t v1alpha1.UpdateTarget, g Group) (by precision, ok bool) {
	if t.ControlPlane || len(t.MachineDeployments) > 0 {
		if !named(t, g) {
			return precision{}, false
		}
		by.group = byName
	}
	if !isEmpty(t.Selector) {
		if !mayMatch(t.Selector, g.Labels) {
			return precision{}, false
		}
		by.group = max(by.group, byLabels)
	}
	if t.ClusterName != "" {
		if t.ClusterName != g.Cluster {
			return precision{}, false
		}
		by.cluster = byName
	}
	if !isEmpty(t.ClusterSelector) {
		if !mayMatch(t.ClusterSelector, g.ClusterLabels) {
			return precision{}, false
		}
		by.cluster = max(by.cluster, byLabels)
	}
	return by, true
}

func named(t v1alpha1.UpdateTarget, g Group) bool {
	if g.ControlPlane {
		return t.ControlPlane
	}
	return slices.Contains(t.MachineDeployments, v1alpha1.MachineDeploymentName(g.Topology))
}

func quoteAll(names []string) string {
	quoted := make([]string, 0, len(names))
	for _, n := range names {
		quoted = append(quoted, fmt.Sprintf("%q", n))
	}
	return strings.Join(quoted, ", ")
}

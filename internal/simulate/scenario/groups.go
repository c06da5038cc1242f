package scenario

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/windlass-dev/windlass/internal/gate"
	"github.com/windlass-dev/windlass/internal/simulate/fleet"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// namePattern is wider than Kubernetes' own: a MachinePool that has the name of a MachineDeployment is called MachinePool/NAME.
var namePattern = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_./]*[A-Za-z0-9])?$`)

const maxNameBytes = 253

func (t *translation) checkName(path *field.Path, name string) {
	switch {
	case name == "":
		t.problem(field.Required(path, "give it a name"))
	case len(name) > maxNameBytes || !namePattern.MatchString(name):
		t.problem(field.Invalid(path, name, "must be letters, digits, hyphens, periods and slashes, and begin and end with a letter or digit"))
	}
}

// countAll bounds what a scenario expands to, before it is expanded, and reports whether it is within the bounds.
func (t *translation) countAll() bool {
	path := field.NewPath("clusters")
	if len(t.file.Clusters) == 0 {
		t.problem(field.Required(path, "say which clusters are upgraded"))
		return false
	}
	before := len(t.problems)
	machines, groups := 0, 0
	for i, c := range t.file.Clusters {
		inCluster, pools := t.countOne(path.Index(i), c)
		t.bounded(path.Index(i).Child("count"), c.Count, MaxGroups)
		if len(t.problems) > before || inCluster > MaxMachines {
			machines, groups = max(machines, inCluster), max(groups, pools)
			continue
		}
		machines, groups = machines+max(c.Count, 1)*inCluster, groups+max(c.Count, 1)*pools
	}
	if len(t.problems) == before && machines > MaxMachines {
		t.problem(field.Invalid(path, machines, fmt.Sprintf("there are more than %d machines; simulate them in parts", MaxMachines)))
	}
	if len(t.problems) == before && groups > MaxGroups {
		t.problem(field.Invalid(path, groups, fmt.Sprintf("there are more than %d control planes and pools; simulate them in parts", MaxGroups)))
	}
	return len(t.problems) == before
}

// countOne returns how many machines and groups one cluster has.
func (t *translation) countOne(path *field.Path, c Cluster) (machines, groups int) {
	before := len(t.problems)
	machines, pools := *cmp.Or(c.ControlPlane.Replicas, new(defaultReplicas)), 0
	t.bounded(path.Child("controlPlane", "replicas"), machines, MaxMachines)
	for j, p := range c.Pools {
		at := path.Child("pools").Index(j)
		t.bounded(at.Child("count"), p.Count, MaxGroups)
		t.bounded(at.Child("replicas"), p.Replicas, MaxMachines)
		// What is out of bounds has been reported; the sums stay far from an overflow.
		pools += min(max(p.Count, 1), MaxGroups)
		machines += min(max(p.Count, 1), MaxGroups) * min(p.Replicas, MaxMachines)
	}
	if len(t.problems) == before && pools > MaxPools {
		t.problem(field.Invalid(path.Child("pools"), pools,
			fmt.Sprintf("a cluster has at most %d of them. Fix: make larger pools of those that are alike, or more clusters of this one", MaxPools)))
	}
	return machines, pools + 1
}

func (t *translation) bounded(path *field.Path, n, most int) {
	if n < 0 || n > most {
		t.problem(field.Invalid(path, n, fmt.Sprintf("must be from 0 to %d", most)))
	}
}

// expand calls for one name, or for NAME-1 to NAME-count. A name that is seen already is a problem.
func (t *translation) expand(path *field.Path, name string, count int, seen sets.Set[string], each func(name string)) {
	for i := range max(count, 1) {
		expanded := name
		if count > 1 {
			expanded += "-" + strconv.Itoa(i+1)
		}
		if seen.Has(expanded) {
			t.problem(field.Duplicate(path.Child("name"), expanded))
		}
		seen.Insert(expanded)
		each(expanded)
	}
}

// clusters translates clusters, those that are alike once.
func (t *translation) clusters(gates []parsedGate) []fleet.Cluster {
	var all []fleet.Cluster
	seen := sets.New[string]()
	for i, c := range t.file.Clusters {
		path := field.NewPath("clusters").Index(i)
		t.checkName(path.Child("name"), c.Name)
		one := t.cluster(path, c)
		one.Gates = gatesOf(gates, c.Name)
		t.expand(path, c.Name, c.Count, seen, func(name string) {
			one.Name = name
			all = append(all, one)
		})
	}
	return all
}

func (t *translation) cluster(path *field.Path, c Cluster) fleet.Cluster {
	into := fleet.Cluster{Target: t.version(path.Child("to"), c.To), PoolsAtOnce: t.count(path.Child("poolsAtOnce"), c.PoolsAtOnce), Skew: version.KubernetesSkew()}
	from := t.version(path.Child("from"), c.From)
	if c.SkewPolicy != "" {
		skew, err := version.FindSkewPolicy(c.SkewPolicy)
		if err != nil {
			t.problem(field.Invalid(path.Child("skewPolicy"), c.SkewPolicy, err.Error()))
		}
		into.Skew = skew
	}
	into.Source = t.source(path, c, from, into.Target)
	into.ControlPlane = t.controlPlane(path.Child("controlPlane"), c.ControlPlane, from)
	into.Pools = t.pools(path.Child("pools"), c.Pools, from)
	return into
}

func (t *translation) version(path *field.Path, text string) version.Version {
	if text == "" {
		t.problem(field.Required(path, "give a version such as v1.31.2"))
		return version.Version{}
	}
	v, err := version.Parse(text)
	if err != nil {
		t.problem(field.Invalid(path, text, err.Error()))
	}
	return v
}

func (t *translation) source(path *field.Path, c Cluster, from, to version.Version) plan.Source {
	if source := t.options.Sources[c.Name]; source != nil {
		return source
	}
	if len(c.Versions) > 0 {
		list := make(plan.VersionList, 0, len(c.Versions))
		for i, text := range c.Versions {
			list = append(list, t.version(path.Child("versions").Index(i), text))
		}
		return list
	}
	lag, ok := from.Minor().Lag(to.Minor())
	if ok && lag > maxMinors {
		t.problem(field.Required(path.Child("versions"), fmt.Sprintf("there are %d minors between %s and %s", lag, from, to)))
		return plan.NextMinor{}
	}
	list := plan.VersionList{}
	for minor := from.Minor().Next(); ok && minor.Before(to.Minor()); minor = minor.Next() {
		// It is made of numbers, so it is a version.
		v, err := version.Parse(minor.String() + ".0")
		if err == nil {
			list = append(list, v)
		}
	}
	t.synthesised = t.synthesised || len(list) > 0
	return append(list, to)
}

func (t *translation) controlPlane(path *field.Path, c ControlPlane, from version.Version) fleet.ControlPlane {
	into := fleet.ControlPlane{Version: from, Replicas: *cmp.Or(c.Replicas, new(defaultReplicas))}
	if into.Replicas == 0 {
		t.problem(field.Invalid(path.Child("replicas"), 0, "must be at least 1"))
	}
	if c.MaxSurge != nil && (*c.MaxSurge < 0 || *c.MaxSurge > 1) {
		t.problem(field.Invalid(path.Child("maxSurge"), *c.MaxSurge, "must be 0 or 1, as in a KubeadmControlPlane"))
	}
	inPlaceSurge := *cmp.Or(c.MaxSurge, new(surgeOf(into.Replicas >= MinSurgelessReplicas)))
	into.Update, _ = t.update(path, c.Machines, inPlaceSurge > 0)
	into.MaxSurge = *cmp.Or(c.MaxSurge, new(defaultSurge))
	if into.Update.InPlace {
		into.MaxSurge = inPlaceSurge
	}
	t.checkControlPlane(path, into)
	return into
}

// checkControlPlane reports what a KubeadmControlPlane's webhook refuses, and what is never updated.
func (t *translation) checkControlPlane(path *field.Path, into fleet.ControlPlane) {
	few, surge := into.Replicas < MinSurgelessReplicas, path.Child("maxSurge")
	switch {
	case into.Replicas < 1 || into.MaxSurge < 0 || into.MaxSurge > 1:
		// That has been reported.
	case few && into.Update.Guarded:
		t.problem(field.Invalid(path.Child("policy"), into.Update.PolicyName, fmt.Sprintf("%s. Fix: give the control plane %d replicas, or the policy the fallback Replace",
			FewReplicas(into.Replicas), MinSurgelessReplicas)))
	case few && into.MaxSurge == 0:
		t.problem(field.Invalid(surge, 0, fmt.Sprintf("Cluster API refuses maxSurge 0 for a control plane of fewer than %d replicas. Fix: set it to 1, or have more replicas",
			MinSurgelessReplicas)))
	default:
		t.checkSurge(surge, into.MaxSurge, into.Update)
	}
}

// FewReplicas says why a guarded control plane of so few replicas never gets to another version.
func FewReplicas(replicas int) string {
	return fmt.Sprintf("a control plane of %d cannot be updated in place: Cluster API adds a machine before it asks, because it refuses maxSurge 0 below %d replicas; %s",
		replicas, MinSurgelessReplicas, guardRefuses)
}

// SurgeBlocks says why a guarded group with a surge never gets to another version.
func SurgeBlocks(maxSurge int) string {
	return fmt.Sprintf("maxSurge is %d: Cluster API creates a machine before it asks whether one can be updated in place, and deletes one in the end; %s", maxSurge, guardRefuses)
}

const guardRefuses = "the guard refuses that where the fallback is None, so that nothing is updated"

// surgeOf is the default of maxSurge.
func surgeOf(inPlace bool) int {
	if inPlace {
		return 0
	}
	return defaultSurge
}

// checkSurge reports a surge of a group whose policy forbids to replace machines.
func (t *translation) checkSurge(path *field.Path, maxSurge int, u fleet.Update) {
	if u.Guarded && maxSurge > 0 {
		t.problem(field.Invalid(path, maxSurge, SurgeBlocks(maxSurge)+"; leave it out, or set it to 0"))
	}
}

// pools translates pools, MachineDeployments first.
func (t *translation) pools(path *field.Path, pools []Pool, from version.Version) []fleet.Pool {
	var all []fleet.Pool
	seen := sets.New[string]()
	for i, p := range pools {
		t.checkName(path.Index(i).Child("name"), p.Name)
		one := t.pool(path.Index(i), p, from)
		t.expand(path.Index(i), p.Name, p.Count, seen, func(name string) {
			one.Name = name
			all = append(all, one)
		})
	}
	slices.SortStableFunc(all, func(a, b fleet.Pool) int { return cmp.Compare(rank(a.Kind), rank(b.Kind)) })
	return all
}

func rank(kind plan.GroupKind) int {
	if kind == plan.MachinePool {
		return 1
	}
	return 0
}

func (t *translation) pool(path *field.Path, p Pool, from version.Version) fleet.Pool {
	into := fleet.Pool{Kind: plan.GroupKind(cmp.Or(p.Kind, string(plan.MachineDeployment))), Version: from, Replicas: p.Replicas, Lagging: p.Lagging}
	kinds := []plan.GroupKind{plan.MachineDeployment, plan.MachinePool}
	if !slices.Contains(kinds, into.Kind) {
		t.problem(field.NotSupported(path.Child("kind"), into.Kind, kinds))
	}
	if into.Kind == plan.MachinePool && p.Policy != "" {
		t.problem(field.Forbidden(path.Child("policy"), "UpdatePolicies do not select MachinePools"))
	}
	if p.Version != "" {
		into.Version = t.version(path.Child("version"), p.Version)
	}
	if p.Oldest != "" {
		into.Oldest = t.version(path.Child("oldest"), p.Oldest)
	}
	if p.Lagging < 0 || p.Lagging > p.Replicas || (p.Lagging > 0) != (p.Oldest != "") {
		t.problem(field.Invalid(path.Child("lagging"), p.Lagging, "must be a number of the pool's machines, and stand together with oldest"))
	}
	if p.MaxMinorStep < 0 || p.MaxMinorStep > maxMinors {
		t.problem(field.Invalid(path.Child("maxMinorStep"), p.MaxMinorStep, fmt.Sprintf("must be from 1 to %d, or left out for any legal jump", maxMinors)))
	}
	// What cannot be resolved is reported below.
	surging, _ := intstr.GetScaledValueFromIntOrPercent(cmp.Or(p.MaxSurge, new(intstr.FromInt32(0))), p.Replicas, true)
	update, limit := t.update(path, p.Machines, surging > 0)
	into.Update = update
	t.checkLabels(path.Child("labels"), p.Labels)
	into.Update.Labels = slices.Clone(p.Labels)
	surge := surgeOf(update.InPlace)
	into.MaxSurge = t.machines(path.Child("maxSurge"), p.MaxSurge, intstr.FromInt(surge), p.Replicas, true)
	into.MaxUnavailable = t.machines(path.Child("maxUnavailable"), p.MaxUnavailable, intstr.FromInt(defaultSurge-surge), p.Replicas, false)
	t.checkSurge(path.Child("maxSurge"), into.MaxSurge, update)
	into.MaxMinorStep = uint32(cmp.Or(max(p.MaxMinorStep, 0), limit)) //nolint:gosec // What is out of bounds is never returned.
	return into
}

// checkLabels reports labels that no Machine can have.
func (t *translation) checkLabels(path *field.Path, all []map[string]string) {
	for i, set := range all {
		for _, key := range slices.Sorted(maps.Keys(set)) {
			for _, fault := range validation.IsQualifiedName(key) {
				t.problem(field.Invalid(path.Index(i), key, fault))
			}
			for _, fault := range validation.IsValidLabelValue(set[key]) {
				t.problem(field.Invalid(path.Index(i).Key(key), set[key], fault))
			}
		}
	}
}

// machines resolves a number of machines, or a part of them, as Kubernetes does.
func (t *translation) machines(path *field.Path, n *intstr.IntOrString, otherwise intstr.IntOrString, replicas int, up bool) int {
	if n == nil {
		n = &otherwise
	}
	resolved, err := intstr.GetScaledValueFromIntOrPercent(n, replicas, up)
	if err != nil || resolved < 0 || resolved > MaxMachines {
		t.problem(field.Invalid(path, n.String(), "must be a number of machines, such as 1, or a part of them, such as 10%"))
		return 0
	}
	return resolved
}

// gatesOf returns the gates of a cluster of the file, as the simulator asks for them; nil where there are none.
func gatesOf(all []parsedGate, cluster string) func(gate.Step) []gate.Gate {
	var own []parsedGate
	for _, g := range all {
		if len(g.clusters) == 0 || slices.Contains(g.clusters, cluster) {
			own = append(own, g)
		}
	}
	if len(own) == 0 {
		return nil
	}
	return func(step gate.Step) []gate.Gate {
		var at []gate.Gate
		for _, g := range own {
			if g.isAt(step) {
				at = append(at, g.gate)
			}
		}
		return at
	}
}

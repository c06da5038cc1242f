package inventory

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/gate"
	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/simulate/fleet"
	"github.com/windlass-dev/windlass/internal/simulate/scenario"
	"github.com/windlass-dev/windlass/internal/snapshot"
	"github.com/windlass-dev/windlass/internal/updatepolicy"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// Cluster is what is known of one.
type Cluster struct {
	// Objects has the Machines of all groups, as far as there are any.
	Objects snapshot.Objects
	// Class may be nil.
	Class *clusterv1.ClusterClass
	// ControlPlaneTemplate is the KubeadmControlPlaneTemplate of the class. It counts while there is no control plane object, and may be nil.
	ControlPlaneTemplate *unstructured.Unstructured
	// Engine is v1alpha1.EngineManager; empty with stock Cluster API, or if unknown.
	Engine string
	// Request and Plan are the upgrade.
	Request plan.Request
	Plan    plan.Plan
	// Updates say how the machines of each of snapshot.UpdateGroups are updated, in that order.
	Updates []cover.Update
	// Policies are those of the cluster's namespace.
	Policies []v1alpha1.UpdatePolicy
	// compiled are Policies; FromObjects sets them.
	compiled        policy.Set
	Updaters        []v1alpha1.Updater
	NamespaceLabels map[string]string
	// Gates are those of the cluster's namespace.
	Gates []v1alpha1.UpgradeGate
}

// Read is what was read.
type Read struct {
	File scenario.File
	// Sources are those that a file cannot hold, by the names of its clusters.
	Sources map[string]plan.Source
	// Notes say what objects do not tell, and what is taken for it.
	Notes []string
}

// BlockedError says that machines are not updated at all, so that the upgrade does not end.
type BlockedError struct {
	// Groups say of each such group why.
	Groups []string
}

func (e *BlockedError) Error() string {
	return "the upgrade does not end: " + strings.Join(e.Groups, "; ")
}

// FromObjects reads clusters into a scenario. The error is a *BlockedError, or about a field that cannot be understood.
func FromObjects(clusters []Cluster) (Read, error) {
	r := &reader{
		sources: map[string]plan.Source{}, policies: map[string]*usedPolicy{}, managed: sets.New[string](),
	}
	namespaces := sets.New[string]()
	for _, c := range clusters {
		namespaces.Insert(c.Objects.Cluster.Namespace)
		if c.Engine == v1alpha1.EngineManager {
			r.managed.Insert(c.Objects.Cluster.Namespace)
		}
	}
	r.qualify = namespaces.Len() > 1
	var failed []error
	for _, c := range clusters {
		c.compiled = policy.CompileAll(c.Policies)
		failed = append(failed, r.cluster(c))
	}
	if err := errors.Join(failed...); err != nil {
		return Read{}, err
	}
	if len(r.blocked) > 0 {
		return Read{}, &BlockedError{Groups: r.blocked}
	}
	r.file.Policies = r.usedPolicies()
	r.file.Gates = r.readGates(clusters)
	return Read{File: r.file, Sources: r.sources, Notes: r.notes}, nil
}

// reader gathers a scenario.
type reader struct {
	file    scenario.File
	sources map[string]plan.Source
	// policies are those that count for groups, by their names in the scenario.
	policies map[string]*usedPolicy
	// managed are the namespaces of Clusters that windlass manager drives.
	managed        sets.Set[string]
	notes, blocked []string
	// qualify says that names are not unique without their namespaces.
	qualify bool
}

// usedPolicy is an UpdatePolicy that counts for groups, and the updaters of these.
type usedPolicy struct {
	selected policy.Policy
	limits   v1alpha1.RolloutLimits
	updaters map[string]v1alpha1.Updater
	// manager says that windlass manager drives the Clusters, and replaced that the machines of the
	// groups are replaced.
	manager, replaced bool
}

func (r *reader) note(format string, args ...any) {
	if n := fmt.Sprintf(format, args...); !slices.Contains(r.notes, n) {
		r.notes = append(r.notes, n)
	}
}

// name names an object of a namespace.
func (r *reader) name(namespace, name string) string {
	if r.qualify && namespace != "" {
		return namespace + "/" + name
	}
	return name
}

func (r *reader) cluster(c Cluster) error {
	o := c.Objects
	into := scenario.Cluster{
		Name: r.name(o.Cluster.Namespace, o.Cluster.Name), From: c.Request.Inventory.ControlPlane.String(), To: c.Request.Target.String(),
		PoolsAtOnce: snapshot.Concurrency(o.Cluster),
	}
	if skew := c.Request.Policy.Skew.Name; skew != version.KubernetesSkew().Name {
		into.SkewPolicy = skew
	}
	r.source(&into, c)
	var err error
	if into.ControlPlane, err = readControlPlane(o, c.ControlPlaneTemplate); err != nil {
		return err
	}
	for i, g := range snapshot.UpdateGroups(o, c.Class) {
		var update cover.Update
		if i < len(c.Updates) {
			update = c.Updates[i]
		}
		switch {
		case g.ControlPlane:
			into.ControlPlane.Policy, into.ControlPlane.Updaters = r.update(c, g, update)
			r.keepControlPlaneSurge(c, g, &into.ControlPlane)
		case g.Name != "":
			pool := r.deployment(c, g)
			pool.Policy, pool.Updaters = r.update(c, g, update)
			pool.Labels = r.labels(c, g, pool)
			r.keepSurge(c, g, &pool)
			if limit := groupOf(c.Request.Inventory, g.Name).MaxMinorStep; limit > 0 {
				pool.MaxMinorStep = int(limit)
			}
			into.Pools = append(into.Pools, pool)
		}
	}
	into.Pools = append(into.Pools, r.machinePools(c)...)
	r.file.Clusters = append(r.file.Clusters, into)
	return nil
}

// source writes down the versions that there are. Of a source that is no list it is those that the plan goes through.
func (r *reader) source(into *scenario.Cluster, c Cluster) {
	list, isList := c.Request.Source.(plan.VersionList)
	if !isList {
		list = c.Plan.ControlPlane
	}
	for _, v := range list {
		into.Versions = append(into.Versions, v.String())
	}
	if len(list) == 0 {
		into.Versions = []string{into.To}
	}
	if graph, ok := c.Request.Source.(plan.Graph); ok {
		r.sources[into.Name] = graph
		r.note("the versions of cluster %s are those that its UpgradeGraph leads through", into.Name)
		if len(graph.Stops) > 0 {
			r.note("a scenario file has no place for spec.workers of the UpgradeGraph of cluster %s: simulated from the file, "+
				"its workers make fewer stops", into.Name)
		}
	}
}

// subject names a group to people.
func subject(c Cluster, g snapshot.UpdateGroup) string {
	return fmt.Sprintf("%s of cluster %s", g.Subject, c.Objects.Cluster.Name)
}

func groupOf(inventory plan.Inventory, name string) plan.Group {
	if i := slices.IndexFunc(inventory.Groups, func(g plan.Group) bool { return g.Name == name }); i >= 0 {
		return inventory.Groups[i]
	}
	return plan.Group{}
}

// update says by which policy and which of its updaters a group's machines are updated; no policy means that they are replaced.
func (r *reader) update(c Cluster, g snapshot.UpdateGroup, u cover.Update) (name string, updaters []string) {
	selected, err := c.compiled.Select(g.Group)
	if err != nil || u.Outcome == cover.Blocked {
		r.blocked = append(r.blocked, fmt.Sprintf("%s: %s", subject(c, g), cmp.Or(u.Message, fmt.Sprint(err))))
		return "", nil
	}
	if updatesOnDelete(c, g) {
		if u.Outcome == cover.Replace {
			r.block(c, g, u.Message)
			return "", nil
		}
		selected = keptOnDelete(selected)
	}
	if !selected.InPlace {
		return r.replaced(c, g, selected), nil
	}
	if u.Outcome == cover.Replace {
		r.note("%s: %s", subject(c, g), u.Message)
		return r.replaced(c, g, selected), nil
	}
	candidates, err := updatepolicy.SelectUpdaters(c.Updaters, c.NamespaceLabels, g.MachineLabels)
	if err != nil {
		r.blocked = append(r.blocked, fmt.Sprintf("%s: %v", subject(c, g), err))
		return "", nil
	}
	name, p := r.use(c, selected, false)
	for _, candidate := range candidates {
		if len(u.Updaters) == 0 || slices.Contains(u.Updaters, candidate.Name) {
			p.updaters[candidate.Name] = candidate
			updaters = append(updaters, candidate.Name)
		}
	}
	if u.Outcome != cover.InPlace {
		by := cmp.Or(strings.Join(updaters, ", then "), scenario.DefaultUpdater)
		r.note("%s is taken to be updated in place by %s, which is not certain: %s", subject(c, g), by, cmp.Or(u.Message, "nobody was asked"))
	}
	return name, updaters
}

// replaced returns the policy of a group whose machines are replaced: windlass manager applies its
// limits to MachineDeployments.
func (r *reader) replaced(
	c Cluster, g snapshot.UpdateGroup, selected policy.Policy,
) string {
	if c.Engine != v1alpha1.EngineManager || selected.Name == "" || g.ControlPlane {
		return ""
	}
	name, _ := r.use(c, selected, true)
	return name
}

// use notes that a policy counts for a group, and returns its name in the scenario. A policy of
// which a group's machines are replaced although the policy asks for updates in place, and one of a
// Cluster without windlass manager beside Clusters with it, are policies of their own there. No
// name of an object contains a slash.
func (r *reader) use(
	c Cluster, selected policy.Policy, replaced bool,
) (name string, p *usedPolicy) {
	namespace := c.Objects.Cluster.Namespace
	name = r.name(namespace, selected.Name)
	if replaced && selected.InPlace {
		name += "/replaced"
	}
	manager := c.Engine == v1alpha1.EngineManager
	if !manager && r.managed.Has(namespace) {
		name += "/stock"
	}
	p = r.policies[name]
	if p == nil {
		p = &usedPolicy{
			selected: selected, limits: c.limitsOf(selected),
			updaters: map[string]v1alpha1.Updater{},
			manager:  manager, replaced: replaced,
		}
		r.policies[name] = p
	}
	return name, p
}

// rollout are the limits that windlass manager applies; nil if it does not drive the clusters.
func (p *usedPolicy) rollout() *scenario.Rollout {
	if !p.manager {
		return nil
	}
	l := p.selected
	into := &scenario.Rollout{
		RolloutLimits: p.limits, MaxFailures: int(l.MaxFailures),
		MachineDeadline: durationOf(l.MachineDeadline), GroupDeadline: durationOf(l.GroupDeadline),
	}
	into.Canary = new(l.Canary) // The default is written, too.
	return into
}

// limitsOf returns the limits of a selected policy as its object has them.
func (c Cluster) limitsOf(selected policy.Policy) v1alpha1.RolloutLimits {
	name, _, _ := strings.Cut(selected.Name, "/") // keptOnDelete adds to it.
	for i := range c.Policies {
		if c.Policies[i].Name == name {
			return *c.Policies[i].Spec.RolloutLimits.DeepCopy()
		}
	}
	return v1alpha1.RolloutLimits{}
}

// durationOf writes a duration; empty for 0.
func durationOf(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return fleet.FixedDuration(d).String()
}

// usedPolicies are the policies that count for groups, with the updaters of all these groups, by name. Groups that have all of them need not name them.
func (r *reader) usedPolicies() []scenario.Policy {
	var used []scenario.Policy
	order := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(r.policies)) {
		p := r.policies[name]
		s := p.selected
		into := scenario.Policy{
			Name: name, Strategy: scenario.StrategyInPlace, Fallback: scenario.FallbackNone, MaxInFlight: int(s.MaxInFlight), Canary: new(s.Alone), Drain: new(s.Drain),
			Soak: fleet.FixedDuration(s.Soak).String(), MaxAttempts: s.MaxAttempts, AttemptTimeout: fleet.FixedDuration(s.AttemptTimeout).String(), Remediate: s.Remediate,
		}
		into.Rollout = p.rollout()
		switch {
		case p.replaced:
			into.Strategy, into.Fallback = scenario.StrategyReplace, ""
		case p.selected.FallbackReplace:
			into.Fallback = scenario.FallbackReplace
		}
		for _, u := range inOrder(p.updaters) {
			into.Updaters = append(into.Updaters, scenario.Updater{
				Name: u.Name, NeedsDrain: u.Spec.Transitions.NeedsDrain, MaxMinors: updatepolicy.MaxMinors(&u),
			})
			order[name] = append(order[name], u.Name)
		}
		used = append(used, into)
	}
	for i := range r.file.Clusters {
		c := &r.file.Clusters[i]
		unlessAll(&c.ControlPlane.Machines, order)
		for j := range c.Pools {
			unlessAll(&c.Pools[j].Machines, order)
		}
	}
	return used
}

func inOrder(updaters map[string]v1alpha1.Updater) []v1alpha1.Updater {
	return slices.SortedFunc(maps.Values(updaters), func(a, b v1alpha1.Updater) int {
		return cmp.Or(cmp.Compare(a.Spec.Order, b.Spec.Order), strings.Compare(a.Name, b.Name))
	})
}

// unlessAll names no updaters of machines that have all of their policy's.
func unlessAll(m *scenario.Machines, all map[string][]string) {
	if slices.Equal(m.Updaters, all[m.Policy]) {
		m.Updaters = nil
	}
}

// readGates reads the windows of gates. What a person or a look at the cluster decides is taken to be well.
func (r *reader) readGates(clusters []Cluster) []scenario.Gate {
	gates := map[string]*scenario.Gate{}
	var order, approvals, checks []string
	for _, c := range clusters {
		key := gate.Cluster{Namespace: c.Objects.Cluster.Namespace, Name: c.Objects.Cluster.Name, Labels: c.Objects.Cluster.Labels}
		for i := range c.Gates {
			g := &c.Gates[i]
			if selected, _ := gate.SelectsCluster(g, key); !selected {
				continue
			}
			name := r.name(g.Namespace, g.Name)
			if gates[name] == nil {
				gates[name] = &scenario.Gate{Name: name, Steps: g.Spec.Steps, Windows: g.Spec.Requires.Windows}
				order = append(order, name)
				if g.Spec.Requires.Approval != nil {
					approvals = append(approvals, name)
				}
				if len(g.Spec.Requires.Checks) > 0 {
					checks = append(checks, name)
				}
			}
			gates[name].Clusters = append(gates[name].Clusters, r.name(key.Namespace, key.Name))
		}
	}
	if len(approvals) > 0 {
		r.note("approvals are taken to be given at once, at the gates %s", strings.Join(approvals, ", "))
	}
	if len(checks) > 0 {
		r.note("checks are taken to pass, at the gates %s", strings.Join(checks, ", "))
	}
	var read []scenario.Gate
	for _, name := range order {
		if g := gates[name]; len(g.Windows) > 0 {
			if len(g.Clusters) == len(clusters) {
				g.Clusters = nil
			}
			read = append(read, *g)
		}
	}
	return read
}

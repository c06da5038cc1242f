package upgradegraph

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/pkg/plan"
)

// Workers are the groups of one cluster, as the rules of spec.workers select them.
type Workers struct {
	// Class is the ClusterClass; a zero Class matches only rules without classes.
	Class  types.NamespacedName
	Groups []Group
}

// Group is a MachineDeployment or MachinePool of a topology.
type Group struct {
	// Name is that in the plan's inventory; Topology is that in spec.topology.workers.
	Name, Topology string
	// Class is that in spec.topology.workers; an empty Class matches only rules without workerClasses.
	Class string
}

// WorkersOf returns the groups of a Cluster's topology.
func WorkersOf(cluster *clusterv1.Cluster) Workers {
	w := Workers{Class: classOf(cluster)}
	topology := cluster.Spec.Topology.Workers
	for _, md := range topology.MachineDeployments {
		w.Groups = append(w.Groups, Group{Name: md.Name, Topology: md.Name, Class: md.Class})
	}
	for _, mp := range topology.MachinePools {
		name := mp.Name
		if slices.ContainsFunc(topology.MachineDeployments, func(md clusterv1.MachineDeploymentTopology) bool { return md.Name == name }) {
			// In an inventory, names are unique.
			name = string(plan.MachinePool) + "/" + name
		}
		w.Groups = append(w.Groups, Group{Name: name, Topology: mp.Name, Class: mp.Class})
	}
	return w
}

func classOf(cluster *clusterv1.Cluster) types.NamespacedName {
	key := cluster.GetClassKey()
	if key.Name == "" {
		return types.NamespacedName{}
	}
	return types.NamespacedName{Namespace: key.Namespace, Name: key.Name}
}

// Stops returns the rules for a cluster's groups, each group in at most one. Parse must have accepted the spec.
func Stops(spec v1alpha1.UpgradeGraphSpec, w Workers) []plan.StopRule {
	groups := make([][]string, len(spec.Workers))
	for _, g := range w.Groups {
		i := slices.IndexFunc(spec.Workers, func(r v1alpha1.WorkersRule) bool { return selects(r, w.Class, g) })
		if i >= 0 {
			groups[i] = append(groups[i], g.Name)
		}
	}
	var rules []plan.StopRule
	for i, r := range spec.Workers {
		if len(groups[i]) == 0 || r.Stops == v1alpha1.WorkerStopsFewest {
			continue
		}
		rule := plan.StopRule{Groups: groups[i], EveryMinor: r.Stops == v1alpha1.WorkerStopsEveryMinor, Reason: r.Reason}
		for _, m := range r.Versions {
			p := parser{}
			e, _ := p.parseEnd(nil, m)
			rule.At = append(rule.At, e.match())
		}
		rules = append(rules, rule)
	}
	return rules
}

func selects(r v1alpha1.WorkersRule, class types.NamespacedName, g Group) bool {
	inClass := len(r.Classes) == 0 || serves(v1alpha1.UpgradeGraphSpec{Classes: r.Classes}, class)
	return inClass &&
		(len(r.WorkerClasses) == 0 || g.Class != "" && slices.Contains(r.WorkerClasses, g.Class)) &&
		(len(r.Groups) == 0 || slices.Contains(r.Groups, g.Topology))
}

func (p *parser) workersRule(path *field.Path, r v1alpha1.WorkersRule) {
	p.classes(path.Child("classes"), r.Classes)
	for i, m := range r.Versions {
		at := path.Child("versions").Index(i)
		if m == "" {
			p.report(field.Required(at, "name a version or a minor"))
			continue
		}
		p.end(at, m)
	}
	switch r.Stops {
	case v1alpha1.WorkerStopsVersions:
		if len(r.Versions) == 0 {
			p.report(field.Required(path.Child("versions"), "name the versions at which the groups stop"))
		}
	case v1alpha1.WorkerStopsFewest, v1alpha1.WorkerStopsEveryMinor:
		if len(r.Versions) > 0 {
			p.report(field.Invalid(path.Child("versions"), r.Versions, fmt.Sprintf("it needs stops: %s", v1alpha1.WorkerStopsVersions)))
		}
	default:
		p.report(field.NotSupported(path.Child("stops"), r.Stops,
			[]v1alpha1.WorkerStops{v1alpha1.WorkerStopsFewest, v1alpha1.WorkerStopsEveryMinor, v1alpha1.WorkerStopsVersions}))
	}
	if r.Reason == "" {
		p.report(field.Required(path.Child("reason"), "say why, to the people whose machines are updated once more, or not"))
	}
}

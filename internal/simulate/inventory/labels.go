package inventory

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/simulate/scenario"
	"github.com/windlass-dev/windlass/internal/snapshot"
	"github.com/windlass-dev/windlass/pkg/version"
)

// labels are those of the Machines of a group that the order of its policy reads, of Machines that
// lag behind first. They are one set if all Machines have those of the template.
func (r *reader) labels(
	c Cluster, g snapshot.UpdateGroup, into scenario.Pool,
) []map[string]string {
	p := r.policies[into.Policy]
	if p == nil || !p.manager || !p.selected.Order.IsSet() {
		return nil
	}
	keys := p.readKeys()
	domain := ""
	if md := g.MachineDeployment; md != nil {
		domain = md.Spec.Template.Spec.FailureDomain
	}
	template := keys.read(g.MachineLabels, domain)
	var all []map[string]string
	for _, m := range lagging(g, c.Objects.Machines) {
		all = append(all, keys.read(m.Labels, m.Spec.FailureDomain))
	}
	differs := func(set map[string]string) bool { return !maps.Equal(set, template) }
	switch {
	case slices.ContainsFunc(all, differs):
		return all
	case len(template) == 0:
		return nil
	}
	return []map[string]string{template}
}

// orderKeys are the labels that the order of a policy reads. byZone says that the failure domain of a
// Machine counts as its zone.
type orderKeys struct {
	labels []string
	byZone bool
}

// readKeys returns the labels that the order of a policy reads. The failure domain does not count for
// the Machines that go last.
func (p *usedPolicy) readKeys() orderKeys {
	order := &p.selected.Order
	keys := orderKeys{labels: slices.Clone(order.Labels)}
	keys.byZone = slices.Contains(keys.labels, corev1.LabelTopologyZone)
	if order.Last == nil {
		return keys
	}
	requirements, _ := order.Last.Requirements()
	for _, r := range requirements {
		keys.labels = append(keys.labels, r.Key())
		keys.byZone = keys.byZone && r.Key() != corev1.LabelTopologyZone
	}
	return keys
}

// read returns those of the labels in set that the order reads.
func (k orderKeys) read(set map[string]string, failureDomain string) map[string]string {
	into := map[string]string{}
	for _, key := range k.labels {
		if value, ok := set[key]; ok {
			into[key] = value
		}
	}
	if k.byZone && failureDomain != "" && into[corev1.LabelTopologyZone] == "" {
		into[corev1.LabelTopologyZone] = failureDomain
	}
	return into
}

// lagging returns the Machines of a group by name, those first that do not run what its template
// asks for.
func lagging(g snapshot.UpdateGroup, all []*clusterv1.Machine) []*clusterv1.Machine {
	machines := machinesOf(all, clusterv1.ClusterTopologyMachineDeploymentNameLabel, &g.Topology)
	rank := func(*clusterv1.Machine) int { return 0 }
	if md := g.MachineDeployment; md != nil {
		if wanted, err := version.Parse(md.Spec.Template.Spec.Version); err == nil {
			rank = func(m *clusterv1.Machine) int {
				if runs(m, wanted) {
					return 1
				}
				return 0
			}
		}
	}
	slices.SortFunc(machines, func(a, b *clusterv1.Machine) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), strings.Compare(a.Name, b.Name))
	})
	return machines
}

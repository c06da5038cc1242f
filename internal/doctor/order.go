package doctor

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/text"
)

// maxNamedMachines is how many machines a finding names.
const maxNamedMachines = 3

// checkOrder looks for labels of order.labels that none or only some of a group's machines have.
func checkOrder(g group, into *findings) {
	const fix = "set the label on the Machines, or correct order.labels of the UpdatePolicy"
	order := g.selected.Limits.Order
	if !order.IsSet() || len(g.machines) == 0 {
		return
	}
	for _, key := range order.Labels {
		var without []string
		for _, m := range g.machines {
			if orderValue(m, key) == "" {
				without = append(without, m.Name)
			}
		}
		switch len(without) {
		case 0:
		case len(g.machines):
			into.add(Warning, g.Subject, fix,
				"no Machine has the label %q, which order.labels of UpdatePolicy %q names: "+
					"it does not order them", key, g.selected.Name)
		default:
			into.add(Warning, g.Subject, fix,
				"%d of %s have no label %q, which order.labels of UpdatePolicy %q names: "+
					"rollouts take them first (%s)",
				len(without), text.Count(len(g.machines), "Machine"), key, g.selected.Name,
				text.JoinSome(without, maxNamedMachines, ", "))
		}
	}
}

// orderValue returns the value by which a rollout orders a Machine.
func orderValue(m *clusterv1.Machine, key string) string {
	if key == corev1.LabelTopologyZone {
		return cmp.Or(m.Labels[key], m.Spec.FailureDomain)
	}
	return m.Labels[key]
}

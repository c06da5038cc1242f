package doctor

import (
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/text"
)

// maxNamedMachines is how many machines a finding names.
const maxNamedMachines = 3

// checkOrder looks for labels of order.labels that none or only some of a group's machines have.
func checkOrder(g group, into *findings) {
	const fix = "set the label on the Machines, or correct order.labels of the UpdatePolicy"
	order := g.selected.Order
	if !order.IsSet() || len(g.machines) == 0 {
		return
	}
	for _, key := range order.Labels {
		var without []string
		for _, m := range g.machines {
			if policy.OrderValue(key, m.Labels, m.Spec.FailureDomain) == "" {
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

package demo

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/windlass-dev/windlass/lab/internal/history"
	"github.com/windlass-dev/windlass/pkg/plan"
)

// computeOperations returns changes of version as a plan has them: neighbours that do the same are one.
func computeOperations(changes []history.Change) []plan.Operation {
	var operations []plan.Operation
	for _, c := range changes {
		if c.Group == controlPlaneName {
			operations = append(operations, plan.Operation{Kind: plan.ControlPlaneUpgrade, From: c.From, To: c.To})
			continue
		}
		if n := len(operations); n > 0 {
			last := &operations[n-1]
			if last.Kind == plan.WorkersUpgrade && last.From == c.From && last.To == c.To {
				last.Groups = append(last.Groups, c.Group)
				continue
			}
		}
		operations = append(operations, plan.Operation{
			Kind: plan.WorkersUpgrade, Groups: []string{c.Group}, From: c.From, To: c.To,
		})
	}
	return operations
}

// census is the last version of each Machine that there ever was.
type census map[types.UID]history.Fact

// since returns the Machines that were created, and those whose deletion began, since another census.
func (c census) since(before census) (created, deleted []history.Fact) {
	for uid, f := range c {
		if _, known := before[uid]; !known {
			created = append(created, f)
		}
		if f.Deleting && !before[uid].Deleting {
			deleted = append(deleted, f)
		}
	}
	return created, deleted
}

// names returns the names of objects, sorted.
func names(facts []history.Fact) []string {
	var list []string
	for _, f := range facts {
		list = append(list, f.Name)
	}
	slices.Sort(list)
	return list
}

package pool

import (
	"fmt"
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
)

// shownAnnotations are those whose changes a log shows, in this order.
var shownAnnotations = []string{
	clusterv1.RevisionAnnotation,
	clusterv1.MachineSetMoveMachinesToMachineSetAnnotation,
	clusterv1.MachineSetReceiveMachinesFromMachineSetsAnnotation,
	clusterv1.AcknowledgedMoveAnnotation,
	v1alpha1.ReturnMachinesAnnotation,
	v1alpha1.NoUpdateAnnotation,
	clusterv1.DisableMachineCreateAnnotation,
}

// Change is what a plan changes on a MachineSet, for logs and Events.
type Change struct {
	// From and To are spec.replicas before and after. From is 0 if the MachineSet is created.
	From, To int32
	// Summary shows Machines, replicas and counters: "from 3/3 to 3/2 replicas, 3 available, 0
	// upToDate".
	Summary string
	// Details lists changes of replicas and of annotations that matter to the rollout; empty if
	// there is none, or if the MachineSet is created.
	Details string
}

// ChangeOf compares a MachineSet with what it is to become. before is nil if it is created.
func ChangeOf(before, after *clusterv1.MachineSet) Change {
	c := Change{To: deref(after.Spec.Replicas)}
	counts := StatusCounts(after)
	replicas := fmt.Sprintf("%d/%d", counts.Machines, c.To)
	if before != nil {
		c.From = deref(before.Spec.Replicas)
		c.Details = strings.Join(details(before, after), ",")
		if c.From != c.To {
			replicas = fmt.Sprintf("from %d/%d to %s", counts.Machines, c.From, replicas)
		}
	}
	c.Summary = fmt.Sprintf("%s replicas, %d available, %d upToDate",
		replicas, counts.Available, counts.UpToDate)
	return c
}

func details(before, after *clusterv1.MachineSet) []string {
	var list []string
	if from, to := deref(before.Spec.Replicas), deref(after.Spec.Replicas); from != to {
		list = append(list, fmt.Sprintf("replicas %d", to))
	}
	for _, key := range shownAnnotations {
		is, has := after.Annotations[key]
		switch {
		case before.Annotations[key] == is:
		case has:
			list = append(list, key+": "+is)
		case key != clusterv1.RevisionAnnotation:
			list = append(list, key+" removed")
		}
	}
	return list
}

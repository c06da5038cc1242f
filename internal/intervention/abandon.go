package intervention

import (
	"cmp"
	"fmt"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/status"
)

// decideAbandon ends updates as windlass extension or manager accept it: they ignore the annotation
// on a Machine whose owner asks for what the Machine's spec has, because the Machine would count as
// up to date.
func decideAbandon(f Facts) (Plan, *RefusalError) {
	var plan Plan
	report := f.report()
	group, all := f.group(report)
	machines := f.machines()
	blocked := map[string]bool{}
	for _, b := range report.Blocked {
		blocked[b.Name] = blocked[b.Name] || b.Kind == "Machine"
	}
	working, ended := []string{}, 0
	var first *RefusalError
	var skipped skips
	for _, u := range report.Updates {
		m := machines[u.Machine]
		if m == nil || !all && u.Group != group {
			continue
		}
		refused := refuseUpdate(f.Target, m, u, blocked[u.Machine])
		switch {
		case refused != nil:
			first = cmp.Or(first, refused)
			skipped.add(u.Machine, refused.Why)
			continue
		case has(m, v1alpha1.UpdateAbandonAnnotation):
			plan.Done = append(plan.Done, fmt.Sprintf("Machine %s/%s: its update is to be abandoned already",
				m.Namespace, m.Name))
			continue
		}
		plan.Changes = append(plan.Changes, annotate(machineKind, m, v1alpha1.UpdateAbandonAnnotation,
			"its update to "+u.To.String()+" is "+describeUpdate(u)))
		if u.Phase == inplace.Updating || u.Phase == inplace.Verifying {
			working = append(working, u.Machine)
		} else {
			ended++
		}
	}
	if len(plan.Changes)+len(plan.Done) == 0 {
		return Plan{}, cmp.Or(first, refuseAbandon(f.Target, report))
	}
	plan.Skipped = skipped.lines()
	plan.Next = nextOfAbandon(f, working, ended)
	return plan, nil
}

// refuseUpdate says why the annotation would have no effect on a Machine; nil if it has one.
func refuseUpdate(t Target, m *clusterv1.Machine, u status.Update, blocked bool) *RefusalError {
	what := "cannot abandon the update of Machine " + m.Namespace + "/" + m.Name
	switch {
	case u.State == status.Unreadable:
		return &RefusalError{
			what, "the record of how far it is cannot be read",
			"correct or remove the annotation " + v1alpha1.UpdateProgressAnnotation + "; " + t.status() +
				" shows the error",
		}
	case u.State == status.Finished:
		return &RefusalError{what, "it has ended well", "set the owner's spec to what you want instead"}
	case u.Phase == "" && !blocked:
		return &RefusalError{
			what, fmt.Sprintf("it is %s: no updater has begun", u.State),
			"hold it with windlass pause " + t.argument(Machine, m.Name) +
				"; or abandon it after it has begun",
		}
	case !capi.OwnerMovedOn(m):
		return &RefusalError{
			what, "its owner asks for just what the Machine's spec has, so it would count as up to date " +
				"although it is not",
			"first set the spec of " + ownerOf(m) + " back, or to another version; then abandon it. " +
				"To try again instead: windlass retry " + t.argument(Machine, m.Name),
		}
	}
	return nil
}

// ownerOf names what a person changes to have a Machine changed.
func ownerOf(m *clusterv1.Machine) string {
	owner, _ := capi.OwnerOf(m)
	switch {
	case capi.IsControlPlane(m):
		return "its control plane (or of the Cluster, if it has a topology)"
	case owner.IsMachineDeployment():
		return "MachineDeployment " + owner.Name + " (or of the Cluster, if it has a topology)"
	}
	return "its owner"
}

func refuseAbandon(t Target, report status.Report) *RefusalError {
	refused := &RefusalError{
		"nothing of " + t.String() + " can be abandoned", "no update in place is under way or has failed",
		"see what it waits for: " + t.status(),
	}
	if report.InPlace == nil {
		return refused
	}
	for _, m := range report.InPlace.Machines {
		if m.State.IsOpen() {
			refused.Why = "an annotation asks for its upgrade, which ends in another way"
			refused.Fix = fmt.Sprintf("windlass upgrade machine %s -n %s --cancel, or the same of its group",
				m.Machine, t.Object.GetNamespace())
			return refused
		}
	}
	return refused
}

func nextOfAbandon(f Facts, working []string, ended int) []string {
	var next []string
	if len(working) > 0 {
		next = append(next, "An updater is at work on "+shortNames(working)+". Windlass asks it to stop, "+
			"and ends the update when it answers, at the latest when the attempt's time is over")
	}
	if ended > 0 {
		next = append(next, "Windlass ends updates without an updater at work as soon as Cluster API asks "+
			"about the Machine, and makes nodes schedulable again that it had cordoned")
	}
	next = append(next, "What an update has changed on a host stays. The update to what the owner asks for "+
		"now follows by itself")
	if why := f.paused(); why != "" {
		next = append(next, "This waits, because "+why)
	}
	return next
}

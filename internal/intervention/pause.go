package intervention

import (
	"cmp"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/status"
)

// pauses is how an object is paused.
type pauses struct{ spec, annotation bool }

func (p pauses) any() bool { return p.spec || p.annotation }

func (p pauses) String() string {
	switch {
	case p.spec && p.annotation:
		return "spec.paused and the annotation " + clusterv1.PausedAnnotation
	case p.spec:
		return "spec.paused"
	}
	return "the annotation " + clusterv1.PausedAnnotation
}

// pausesOf reads how an object is paused.
func pausesOf(object any) pauses {
	switch o := object.(type) {
	case *clusterv1.Cluster:
		return pauses{o.Spec.Paused != nil && *o.Spec.Paused, has(o, clusterv1.PausedAnnotation)}
	case *clusterv1.MachineDeployment:
		return pauses{o.Spec.Paused != nil && *o.Spec.Paused, has(o, clusterv1.PausedAnnotation)}
	case *clusterv1.Machine:
		return pauses{annotation: has(o, clusterv1.PausedAnnotation)}
	case *unstructured.Unstructured:
		return pauses{annotation: has(o, clusterv1.PausedAnnotation)}
	}
	return pauses{}
}

// paused says what else than the target's own machines is paused; empty for nothing.
func (f Facts) paused() string {
	t := f.Target
	if f.Cluster != nil && pausesOf(f.Cluster).any() {
		return "the Cluster is paused: windlass resume " + t.argument(Cluster, f.Cluster.Name)
	}
	if t.Kind != Cluster && pausesOf(t.Object).any() {
		return "it is paused: windlass resume " + t.argument(t.Kind, t.Object.GetName())
	}
	return ""
}

func decidePause(f Facts) (Plan, *RefusalError) {
	t := f.Target
	if p := pausesOf(t.Object); p.any() {
		return Plan{}, &RefusalError{
			"cannot pause " + t.String(), "it is paused already, by " + p.String(),
			"nothing; to take the pause away: windlass resume " + t.argument(t.Kind, t.Object.GetName()),
		}
	}
	report := f.report()
	working := f.working(report)
	var plan Plan
	switch t.Kind {
	case Cluster:
		plan = f.pauseSpec("Cluster API and Windlass change nothing of the Cluster: no Machine and no step " +
			"of an upgrade begins, and nothing is scaled or repaired")
		if len(working) > 0 {
			plan.Next = append(plan.Next, "Windlass asks the updaters at work on "+shortNames(working)+
				" until they end")
		}
	case MachineDeployment:
		plan = f.pauseSpec("no further Machine of the group begins. It can still be scaled")
		if f.upgradesGroup(report) {
			plan.Changes[0].Annotations = map[string]*string{clusterv1.PausedAnnotation: new(string)}
			plan.Next[0] = "no further Machine of the group begins, also not by the annotation that asks for " +
				"its upgrade. Cluster API does not scale the group meanwhile"
		}
		plan.Next = appendWorking(plan.Next, working)
	case ControlPlane:
		plan = f.pauseAnnotation("no further Machine of the control plane begins. Nothing of it is scaled or repaired")
		plan.Next = appendWorking(plan.Next, working)
	case Machine:
		plan = f.pauseAnnotation("no update of the Machine begins")
		if len(working) > 0 {
			plan.Next = append(plan.Next, "An updater is at work. It is not stopped, and not asked before "+
				"the pause ends. Its attempt's time passes meanwhile")
		}
	}
	plan.Next[0] = "From now on " + plan.Next[0]
	plan.Next = append(plan.Next, "To continue: windlass resume "+t.argument(t.Kind, t.Object.GetName()))
	return plan, nil
}

func appendWorking(next []string, machines []string) []string {
	if len(machines) == 0 {
		return next
	}
	return append(next, "Updates under way continue to their end: "+shortNames(machines))
}

func (f Facts) pauseSpec(next string) Plan {
	c := change(f.Target.GVK, f.Target.Object, "it is not paused")
	c.Paused = new(true)
	return Plan{Changes: []Change{c}, Next: []string{next}}
}

func (f Facts) pauseAnnotation(next string) Plan {
	c := annotate(f.Target.GVK, f.Target.Object, clusterv1.PausedAnnotation, "it is not paused")
	return Plan{Changes: []Change{c}, Next: []string{next}}
}

// working returns the target's Machines that are under update.
func (f Facts) working(report status.Report) []string {
	group, all := f.group(report)
	names := map[string]bool{}
	for _, u := range report.Updates {
		begun := u.Phase != "" && u.Phase != inplace.Failed && u.Phase != inplace.BackingOff
		if begun && (all || u.Group == group) {
			names[u.Machine] = true
		}
	}
	if report.InPlace != nil {
		for _, m := range report.InPlace.Machines {
			if m.State == status.UpgradeRunning && (all || m.Group == group) {
				names[m.Machine] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// upgradesGroup reports whether an annotation asks for an upgrade of the target's machines, which
// spec.paused of a MachineDeployment does not hold.
func (f Facts) upgradesGroup(report status.Report) bool {
	if report.InPlace == nil {
		return false
	}
	group, _ := f.group(report)
	return slices.ContainsFunc(report.InPlace.Groups, func(g status.GroupUpgrade) bool {
		return g.Name == group && g.State.IsOpen()
	})
}

func decideResume(f Facts) (Plan, *RefusalError) {
	t := f.Target
	p := pausesOf(t.Object)
	cluster := ""
	if t.Kind != Cluster && f.Cluster != nil && pausesOf(f.Cluster).any() {
		cluster = "windlass resume " + t.argument(Cluster, f.Cluster.Name)
	}
	if !p.any() {
		refused := &RefusalError{
			"cannot resume " + t.String(), "it is not paused", "see what it waits for: " + t.status(),
		}
		if cluster != "" {
			refused.Why, refused.Fix = "it is not paused itself, but its Cluster is", cluster
		}
		return Plan{}, refused
	}
	c := change(t.GVK, t.Object, "it is paused by "+p.String())
	if p.spec {
		c.Paused = new(false)
	}
	if p.annotation {
		c.Annotations = map[string]*string{clusterv1.PausedAnnotation: nil}
	}
	next := map[Kind]string{
		Cluster: "Cluster API and Windlass see the change at once, and continue where they were. What a gate " +
			"had let pass more than two minutes ago is asked again",
		ControlPlane:      "the control plane's controller sees the change at once, and continues",
		MachineDeployment: "the MachineDeployment's controller sees the change at once, and continues",
		Machine:           "Cluster API sees the change at once, and its update continues or begins",
	}[t.Kind]
	plan := Plan{Changes: []Change{c}, Next: []string{cmp.Or(next, "it continues")}}
	if cluster != "" {
		plan.Next = []string{"It still waits, because its Cluster is paused: " + cluster}
	}
	return plan, nil
}

package intervention

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/status"
	"github.com/windlass-dev/windlass/internal/text"
)

// Verb is what a person wants.
type Verb string

// The verbs.
const (
	// Retry tries again what has failed finally.
	Retry Verb = "retry"
	// Abandon ends updates where they are, so that what their owner asks for now can begin.
	Abandon Verb = "abandon"
	// Pause holds what has not begun.
	Pause Verb = "pause"
	// Resume takes a pause away.
	Resume Verb = "resume"
)

// Kind is what a verb is about, as it is written on the command line.
type Kind string

// The kinds.
const (
	Cluster           Kind = "cluster"
	ControlPlane      Kind = "controlplane"
	MachineDeployment Kind = "machinedeployment"
	Machine           Kind = "machine"
)

// Target is the object that a verb is about.
type Target struct {
	Kind Kind
	// GVK, Object, and Cluster are the object as it was read, and the name of its Cluster.
	GVK     schema.GroupVersionKind
	Object  metav1.Object
	Cluster string
}

// String names the object for people.
func (t Target) String() string {
	return t.GVK.Kind + " " + t.Object.GetNamespace() + "/" + t.Object.GetName()
}

// argument is how a command names an object of the same namespace.
func (t Target) argument(kind Kind, name string) string {
	return fmt.Sprintf("%s %s -n %s", kind, name, t.Object.GetNamespace())
}

// status is the command that shows the Cluster.
func (t Target) status() string {
	return fmt.Sprintf("windlass status %s -n %s", t.Cluster, t.Object.GetNamespace())
}

// Change is a write to one object. It is valid for ResourceVersion only.
type Change struct {
	GVK                              schema.GroupVersionKind
	Namespace, Name, ResourceVersion string
	// Annotations are set; those that are nil are removed.
	Annotations map[string]*string
	// Paused is the new spec.paused; nil leaves it.
	Paused *bool
	// Why says what the object is like, for people.
	Why string
}

// String names the object for people.
func (c Change) String() string { return c.GVK.Kind + " " + c.Namespace + "/" + c.Name }

// Plan is what a verb does.
type Plan struct {
	// Changes are in the order in which they are written.
	Changes []Change
	// Done says of objects that the same was asked for before, and is still to be answered.
	Done []string
	// Skipped says why objects are left as they are.
	Skipped []string
	// Next says who acts when, after the changes.
	Next []string
}

// RefusalError says why a verb makes no sense for an object, and what to do.
type RefusalError struct{ What, Why, Fix string }

// Error is one sentence, and the fix.
func (r *RefusalError) Error() string { return r.What + ": " + r.Why + ". Fix: " + r.Fix }

// Facts are the objects that are known of the target's Cluster. For a Machine that Machine is
// enough. The Cluster may be unknown: it is nil then.
type Facts struct {
	status.Facts
	Target Target
	Now    time.Time
}

// Decide returns what a verb changes, or a *RefusalError.
func Decide(verb Verb, f Facts) (Plan, error) {
	if f.Target.Object.GetDeletionTimestamp() != nil && verb != Resume {
		return Plan{}, &RefusalError{
			fmt.Sprintf("cannot %s %s", verb, f.Target), "it is being deleted",
			"wait for the end of the deletion; " + f.Target.status() + " shows what it waits for",
		}
	}
	var plan Plan
	var refused *RefusalError
	switch verb {
	case Retry:
		plan, refused = decideRetry(f)
	case Abandon:
		plan, refused = decideAbandon(f)
	case Pause:
		plan, refused = decidePause(f)
	case Resume:
		plan, refused = decideResume(f)
	}
	if refused != nil {
		return Plan{}, refused
	}
	return plan, nil
}

// report returns how the updates of the target stand. A Cluster that is unknown has no name.
func (f Facts) report() status.Report {
	if f.Cluster == nil {
		f.Cluster = &clusterv1.Cluster{}
	}
	f.Upgrade = nil
	return status.Compute(f.Facts, f.Now)
}

// change returns a change of an object without a content.
func change(gvk schema.GroupVersionKind, o metav1.Object, why string) Change {
	return Change{
		GVK: gvk, Namespace: o.GetNamespace(), Name: o.GetName(),
		ResourceVersion: o.GetResourceVersion(), Why: why,
	}
}

// annotate returns a change that sets an annotation without a value.
func annotate(gvk schema.GroupVersionKind, o metav1.Object, key, why string) Change {
	c := change(gvk, o, why)
	c.Annotations = map[string]*string{key: new(string)}
	return c
}

func has(o metav1.Object, key string) bool {
	_, ok := o.GetAnnotations()[key]
	return ok
}

// group returns the name of the target's group in a report; all is true for a Cluster and a
// Machine, whose facts have no other machines than theirs.
func (f Facts) group(r status.Report) (name string, all bool) {
	if f.Target.Kind == Cluster || f.Target.Kind == Machine {
		return "", true
	}
	for _, g := range r.Groups {
		isControlPlane := g.Name == status.ControlPlaneGroup && g.Kind != "MachineDeployment"
		if g.Object == f.Target.Object.GetName() && isControlPlane == (f.Target.Kind == ControlPlane) {
			return g.Name, false
		}
	}
	return "", false
}

// machines returns the Machines by name.
func (f Facts) machines() map[string]*clusterv1.Machine {
	byName := make(map[string]*clusterv1.Machine, len(f.Machines))
	for _, m := range f.Machines {
		byName[m.Name] = m
	}
	return byName
}

var machineKind = clusterv1.GroupVersion.WithKind("Machine")

// shortNames names a few.
func shortNames(names []string) string { return text.JoinSome(names, 5, ", ") }

// skips are Machines that are left as they are, by the reason, in the order in which they were
// added.
type skips struct {
	reasons []string
	names   map[string][]string
}

func (s *skips) add(machine, reason string) {
	if s.names == nil {
		s.names = map[string][]string{}
	}
	if s.names[reason] == nil {
		s.reasons = append(s.reasons, reason)
	}
	s.names[reason] = append(s.names[reason], machine)
}

func (s *skips) lines() []string {
	var lines []string
	for _, reason := range s.reasons {
		lines = append(lines, "Machine "+shortNames(s.names[reason])+": "+reason)
	}
	return lines
}

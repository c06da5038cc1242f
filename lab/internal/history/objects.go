package history

import (
	"cmp"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// Objects are those of one Cluster at one time. Groups and Machines are by the name of their group; that
// of the control plane is empty.
type Objects struct {
	Cluster, ControlPlane Fact
	Groups                map[string]Fact
	// Machines are sorted by name.
	Machines map[string][]Fact
	// Others are of kinds that not every History follows, sorted by kind and name.
	Others []Fact
}

func newObjects(facts map[types.UID]Fact, cluster types.NamespacedName) Objects {
	o := Objects{Groups: map[string]Fact{}, Machines: map[string][]Fact{}}
	for _, f := range facts {
		if f.Gone || f.Cluster != cluster {
			continue
		}
		switch f.Kind {
		case KindCluster:
			o.Cluster = f
		case KindControlPlane:
			o.ControlPlane = f
		case KindGroup:
			o.Groups[f.Group] = f
		case KindMachine:
			o.Machines[f.Group] = append(o.Machines[f.Group], f)
		default:
			o.Others = append(o.Others, f)
		}
	}
	byName := func(a, b Fact) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	}
	for _, machines := range o.Machines {
		slices.SortFunc(machines, byName)
	}
	slices.SortFunc(o.Others, byName)
	return o
}

// Part is the control plane or a group, with its Machines.
type Part struct {
	Fact
	Machines []Fact
}

// Done counts the machines that are ready at the version in the part's spec.
func (p Part) Done() int {
	n := 0
	for _, m := range p.Machines {
		if m.At(p.Version) {
			n++
		}
	}
	return n
}

// Part returns the group of that name, or the control plane if name is empty. The Part of an object that
// does not exist has no UID.
func (o Objects) Part(name string) Part {
	if name == "" {
		return Part{Fact: o.ControlPlane, Machines: o.Machines[name]}
	}
	return Part{Fact: o.Groups[name], Machines: o.Machines[name]}
}

// Parts returns the control plane and the existing groups of the topology, in the topology's order.
func (o Objects) Parts() []Part {
	parts := []Part{o.Part("")}
	cluster, ok := o.Cluster.Object.(*clusterv1.Cluster)
	if !ok {
		return parts
	}
	for _, topology := range cluster.Spec.Topology.Workers.MachineDeployments {
		if _, exists := o.Groups[topology.Name]; exists {
			parts = append(parts, o.Part(topology.Name))
		}
	}
	return parts
}

// NotReady returns what is missing until a group, or the control plane if name is empty, has all its
// machines ready at a version; "" if nothing is missing.
func (o Objects) NotReady(name, at string) string {
	p := o.Part(name)
	switch {
	case p.UID == "":
		return fmt.Sprintf("group %q does not exist", name)
	case p.Version != at:
		return fmt.Sprintf("the spec of %s has %s", p.Name, p.Version)
	case name == "" && p.Reported != at:
		return fmt.Sprintf("%s is at %s", p.Name, p.Reported)
	case len(p.Machines) != int(p.Replicas):
		return fmt.Sprintf("%s has %d machines of %d", p.Name, len(p.Machines), p.Replicas)
	case p.Mixed:
		return fmt.Sprintf("the status of %s has machines at other versions", p.Name)
	}
	for _, m := range p.Machines {
		if !m.At(at) {
			return fmt.Sprintf("Machine %s: spec %s, kubelet %q, condition %+v", m.Name, m.Version, m.Reported,
				m.Condition(clusterv1.MachineReadyCondition))
		}
	}
	return ""
}

// Pending returns what Cluster API still has to do for the Cluster as a whole: hooks to call, or a topology
// that is not reconciled. It may be non-empty for a while after all parts are ready.
func (o Objects) Pending() string {
	reconciled := o.Cluster.Reconciled()
	switch {
	case o.Cluster.Hooks() != "":
		return "hooks are pending: " + o.Cluster.Hooks() + "; " + reconciled.Message
	case reconciled.Status != metav1.ConditionTrue:
		return "the topology is not reconciled, " + reconciled.Reason + ": " + reconciled.Message
	}
	return ""
}

// Replay calls see with each fact of one Cluster, in order, and the objects at that time.
func Replay(facts []Fact, see func(Fact, Objects)) {
	latest := map[types.UID]Fact{}
	for _, f := range facts {
		latest[f.UID] = f
		see(f, newObjects(latest, f.Cluster))
	}
}

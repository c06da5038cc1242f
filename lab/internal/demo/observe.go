package demo

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// Observation is what the objects of a Cluster say at one moment.
type Observation struct {
	ControlPlane Part
	// Groups are in the order of the topology.
	Groups []Part
	// Reconciled is the Cluster's TopologyReconciled condition; nil before there is one.
	Reconciled *metav1.Condition
	// Hooks are those that Cluster API still has to call, as it records them on the Cluster.
	Hooks string
}

// Part is the control plane or a worker group.
type Part struct {
	Name string
	// Version is the one that the object asks for.
	Version version.Version
	// Replicas is the number of machines that the object asks for.
	Replicas int32
	// Machines are sorted by name.
	Machines []Machine
	// Mixed means that the object's status still reports machines at other versions; it may do so a little longer than they
	// exist.
	Mixed bool
	// Blocked is the condition of the object that says why its update does not go on; nil while there is none.
	Blocked *metav1.Condition
}

// Machine is one Machine object.
type Machine struct {
	UID     types.UID
	Name    string
	Version version.Version
	// Ready means that the Machine is ready, not being deleted, and its kubelet reports Version.
	Ready bool
	// Last is the Machine's last finished update in place; nil where there was none.
	Last *inplace.Summary
}

// settled reports whether the part is at v, and so are exactly as many machines as it asks for, all ready.
func (p Part) settled(v version.Version) bool {
	return p.Version == v && !p.Mixed && p.done() == int(p.Replicas) && len(p.Machines) == int(p.Replicas)
}

// done counts the machines that are ready at the version that the part asks for.
func (p Part) done() int {
	n := 0
	for _, m := range p.Machines {
		if m.Ready && m.Version == p.Version {
			n++
		}
	}
	return n
}

// settled reports whether all these parts, and no others, are there and have settled at these versions.
func (o Observation) settled(versions map[string]version.Version) bool {
	if len(o.Groups)+1 != len(versions) || !o.ControlPlane.settled(versions[controlPlaneName]) {
		return false
	}
	for _, g := range o.Groups {
		v, known := versions[g.Name]
		if !known || !g.settled(v) {
			return false
		}
	}
	return true
}

// finished reports whether Cluster API, too, takes the upgrade for ended; it may do so a little after everything has settled.
func (o Observation) finished() bool {
	return o.Hooks == "" && o.Reconciled != nil && o.Reconciled.Status == metav1.ConditionTrue
}

// objects are what an Observation is made from.
type objects struct {
	cluster            *clusterv1.Cluster
	controlPlane       *unstructured.Unstructured
	machineDeployments []clusterv1.MachineDeployment
	machines           []clusterv1.Machine
}

// observe reads the objects. Parts that do not exist yet are left out.
func observe(o objects) (Observation, error) {
	var result Observation
	if o.cluster == nil {
		return result, nil
	}
	result.Reconciled = meta.FindStatusCondition(o.cluster.Status.Conditions, clusterv1.ClusterTopologyReconciledCondition)
	result.Hooks = o.cluster.Annotations[runtimev1.PendingHooksAnnotation]
	byGroup := map[string][]Machine{}
	for i := range o.machines {
		m, group, err := observeMachine(&o.machines[i])
		if err != nil {
			return Observation{}, err
		}
		byGroup[group] = append(byGroup[group], m)
	}
	for _, machines := range byGroup {
		slices.SortFunc(machines, func(a, b Machine) int { return cmp.Compare(a.Name, b.Name) })
	}
	if o.controlPlane != nil {
		p, err := observeControlPlane(o.controlPlane)
		if err != nil {
			return Observation{}, err
		}
		p.Machines = byGroup[controlPlaneName]
		result.ControlPlane = p
	}
	for _, topology := range o.cluster.Spec.Topology.Workers.MachineDeployments {
		for i := range o.machineDeployments {
			md := &o.machineDeployments[i]
			if md.Labels[clusterv1.ClusterTopologyMachineDeploymentNameLabel] != topology.Name {
				continue
			}
			p, err := observeMachineDeployment(md)
			if err != nil {
				return Observation{}, err
			}
			p.Name, p.Machines = topology.Name, byGroup[topology.Name]
			result.Groups = append(result.Groups, p)
		}
	}
	return result, nil
}

func observeControlPlane(o *unstructured.Unstructured) (Part, error) {
	text, _, err := unstructured.NestedString(o.Object, "spec", "version")
	if err != nil {
		return Part{}, fmt.Errorf("reading the control plane's spec.version: %w", err)
	}
	replicas, _, err := unstructured.NestedInt64(o.Object, "spec", "replicas")
	if err != nil {
		return Part{}, fmt.Errorf("reading the control plane's spec.replicas: %w", err)
	}
	v, err := version.Parse(text)
	if err != nil {
		return Part{}, fmt.Errorf("reading the control plane's spec.version: %w", err)
	}
	blocked, err := blockedCondition(o)
	if err != nil {
		return Part{}, err
	}
	return Part{Version: v, Replicas: int32(replicas), Blocked: blocked}, nil //nolint:gosec // The field is an int32 in the API.
}

// blockedCondition reads the condition of an object whose type this module does not know.
func blockedCondition(o *unstructured.Unstructured) (*metav1.Condition, error) {
	var object struct {
		Status struct {
			Conditions []metav1.Condition `json:"conditions"`
		} `json:"status"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &object); err != nil {
		return nil, fmt.Errorf("reading the conditions of %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	return meta.FindStatusCondition(object.Status.Conditions, v1alpha1.UpdateBlockedCondition), nil
}

func observeMachineDeployment(md *clusterv1.MachineDeployment) (Part, error) {
	v, err := version.Parse(md.Spec.Template.Spec.Version)
	if err != nil {
		return Part{}, fmt.Errorf("reading the version of MachineDeployment %s: %w", md.Name, err)
	}
	p := Part{Version: v, Blocked: meta.FindStatusCondition(md.Status.Conditions, v1alpha1.UpdateBlockedCondition)}
	if md.Spec.Replicas != nil {
		p.Replicas = *md.Spec.Replicas
	}
	for _, reported := range md.Status.Versions {
		if other, err := version.Parse(reported.Version); err != nil || other != v {
			p.Mixed = true
		}
	}
	return p, nil
}

// observeMachine reads a Machine and the name of the group that it belongs to.
func observeMachine(m *clusterv1.Machine) (machine Machine, group string, err error) {
	machine = Machine{UID: m.UID, Name: m.Name}
	if machine.Version, err = version.Parse(m.Spec.Version); err != nil {
		return Machine{}, "", fmt.Errorf("reading the version of Machine %s: %w", m.Name, err)
	}
	if m.Status.NodeInfo != nil && m.DeletionTimestamp.IsZero() && meta.IsStatusConditionTrue(m.Status.Conditions, clusterv1.MachineReadyCondition) {
		kubelet, err := version.Parse(m.Status.NodeInfo.KubeletVersion)
		machine.Ready = err == nil && kubelet == machine.Version
	}
	if text, updated := m.Annotations[v1alpha1.LastUpdateAnnotation]; updated {
		machine.Last = &inplace.Summary{}
		if err := json.Unmarshal([]byte(text), machine.Last); err != nil {
			return Machine{}, "", fmt.Errorf("reading the last update of Machine %s: %w", m.Name, err)
		}
	}
	return machine, m.Labels[clusterv1.ClusterTopologyMachineDeploymentNameLabel], nil
}

// Recorder turns a series of observations into the operations that really happened. It is not safe for concurrent use.
type Recorder struct {
	last       Observation
	operations []plan.Operation
	machines   map[types.UID]struct{}
	created    map[string]int
}

// NewRecorder starts from a first observation, whose machines count as old.
func NewRecorder(first Observation) *Recorder {
	r := &Recorder{last: first, machines: map[types.UID]struct{}{}, created: map[string]int{}}
	for _, p := range first.parts() {
		for _, m := range p.Machines {
			r.machines[m.UID] = struct{}{}
		}
	}
	return r
}

func (o Observation) parts() []Part { return append([]Part{o.ControlPlane}, o.Groups...) }

// Change is a part that was sent to another version. Name is empty for the control plane.
type Change struct {
	Name     string
	From, To version.Version
}

// Observe takes the next observation and returns what changed with it, the control plane first.
func (r *Recorder) Observe(o Observation) []Change {
	previous := map[string]version.Version{}
	for _, p := range r.last.parts() {
		previous[p.Name] = p.Version
	}
	var changes []Change
	for _, p := range o.parts() {
		for _, m := range p.Machines {
			if _, known := r.machines[m.UID]; !known {
				r.machines[m.UID] = struct{}{}
				r.created[p.Name]++
			}
		}
		if from, known := previous[p.Name]; known && from != p.Version {
			changes = append(changes, Change{Name: p.Name, From: from, To: p.Version})
		}
	}
	for _, c := range changes {
		r.add(c)
	}
	r.last = o
	return changes
}

// add records a change. Neighbours that do the same are one operation, as in a plan.
func (r *Recorder) add(c Change) {
	if c.Name == controlPlaneName {
		r.operations = append(r.operations, plan.Operation{Kind: plan.ControlPlaneUpgrade, From: c.From, To: c.To})
		return
	}
	if n := len(r.operations); n > 0 {
		if last := &r.operations[n-1]; last.Kind == plan.WorkersUpgrade && last.From == c.From && last.To == c.To {
			last.Groups = append(last.Groups, c.Name)
			return
		}
	}
	r.operations = append(r.operations, plan.Operation{Kind: plan.WorkersUpgrade, Groups: []string{c.Name}, From: c.From, To: c.To})
}

// Operations returns everything that happened so far. The result must not be changed.
func (r *Recorder) Operations() []plan.Operation { return r.operations }

// Created counts the machines that were created since the start, by group; the control plane's name is empty.
func (r *Recorder) Created() map[string]int { return r.created }

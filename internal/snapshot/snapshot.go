package snapshot

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// Objects are the objects of one Cluster, as far as they exist. Objects of other Clusters must not be among them.
type Objects struct {
	// Cluster is required, and has a managed topology.
	Cluster *clusterv1.Cluster
	// ControlPlane is the object that spec.controlPlaneRef names, of whatever kind; nil while it does not exist.
	ControlPlane *unstructured.Unstructured
	// MachineDeployments and MachinePools may hold ones that are not part of the topology; they are reported, not planned.
	MachineDeployments []*clusterv1.MachineDeployment
	MachinePools       []*clusterv1.MachinePool
	// Machines are needed only for groups whose status does not list the versions of their machines.
	Machines []*clusterv1.Machine
	// Unverified are the names of MachineDeployments whose machines join although kubeadm's check
	// SystemVerification fails; empty if that is not known.
	Unverified []string
}

// Overrides replace what objects say; objects that are overridden are not read.
type Overrides struct {
	// ControlPlane is the version that the control plane has; zero means what the objects say.
	ControlPlane version.Version
	// Groups replace topology groups of the same name. A zero Version, and an empty Kind, mean what the objects say.
	Groups []plan.Group
}

// State is what a Cluster runs now, and what a reader should know about how that was found out.
type State struct {
	Inventory plan.Inventory
	// Target is spec.topology.version.
	Target version.Version
	// Assumed reports that no control plane object was there and nothing was overridden: the Cluster is taken to run
	// Target already.
	Assumed bool
	// Moving is the oldest version that the control plane's status still reports, when that is not the version of
	// Inventory: an upgrade of the control plane is under way. Zero otherwise.
	Moving version.Version
	// Unmanaged names MachineDeployments and MachinePools of the Cluster that are not part of its topology, so that no plan
	// moves them.
	Unmanaged []string
	// Refs say where each version was read.
	Refs map[plan.Item]Ref
}

// Ref is a field of an object.
type Ref struct {
	Object metav1.Object
	Kind   string
	// Field is a path such as spec.topology.version; empty for the object as a whole.
	Field string
}

// String names the field as it is spelled in messages.
func (r Ref) String() string {
	text := r.Kind + " " + objectName(r.Object)
	if r.Field != "" {
		text += ": " + r.Field
	}
	return text
}

func objectName(o metav1.Object) string {
	if o.GetNamespace() == "" {
		return o.GetName()
	}
	return o.GetNamespace() + "/" + o.GetName()
}

// FieldError says which field of which object cannot be planned with, and why.
type FieldError struct {
	Ref Ref
	// Problem is a sentence without a capital or full stop that also says what would be right.
	Problem string
	// Err is the cause, if there is one.
	Err error
}

func (e *FieldError) Error() string { return fmt.Sprintf("%s: %s", e.Ref, e.Problem) }
func (e *FieldError) Unwrap() error { return e.Err }

// parseField reads a version from a field.
func parseField(ref Ref, value string) (version.Version, error) {
	v, err := version.Parse(value)
	if err != nil {
		return version.Version{}, &FieldError{Ref: ref, Problem: err.Error(), Err: err}
	}
	return v, nil
}

// Take reads a Cluster's objects. The error is a *FieldError.
//
// The control plane counts as being at its spec.version, as in Cluster API: a step that has begun is finished before
// the next, and only the steps after it can still be chosen. A worker group counts as being at the oldest version that its
// machines have, because skew is about kubelets. A topology group that has no object yet will be created at the control
// plane's version, so it counts as being there.
func Take(o Objects, overrides Overrides) (State, error) {
	s := State{Refs: make(map[plan.Item]Ref)}
	targetRef := Ref{Object: o.Cluster, Kind: "Cluster", Field: "spec.topology.version"}
	if !o.Cluster.Spec.Topology.IsDefined() {
		targetRef.Field = "spec.topology"
		return State{}, &FieldError{Ref: targetRef, Problem: "it is missing; only Clusters with a managed topology, made from a ClusterClass, can be planned"}
	}
	var err error
	if s.Target, err = parseField(targetRef, o.Cluster.Spec.Topology.Version); err != nil {
		return State{}, err
	}
	s.Refs[plan.ItemTarget] = targetRef
	if err := readControlPlane(&s, o, overrides.ControlPlane); err != nil {
		return State{}, err
	}
	if err := readGroups(&s, o, overrides.Groups); err != nil {
		return State{}, err
	}
	return s, nil
}

// Class returns the key of the Cluster's ClusterClass and the field that names it.
func Class(cluster *clusterv1.Cluster) (namespace, name string, ref Ref) {
	key := cluster.GetClassKey()
	return key.Namespace, key.Name, Ref{Object: cluster, Kind: "Cluster", Field: "spec.topology.classRef.name"}
}

package history

import (
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The kinds that every History follows.
const (
	KindCluster      = "Cluster"
	KindControlPlane = "KubeadmControlPlane"
	KindGroup        = "MachineDeployment"
	KindMachine      = "Machine"
)

// Fact is one version of one object.
type Fact struct {
	// Revision orders the versions of all objects, because one etcd counts them.
	Revision int64
	// Seen is the time at which a watch showed the version.
	Seen    time.Time
	Kind    string
	Cluster types.NamespacedName
	// Group is the name of the MachineDeployment in the topology, and without a topology the name of
	// the MachineDeployment. It is empty for the control plane and its Machines.
	Group string
	Name  string
	UID   types.UID
	// Gone reports that the object does not exist any more; Deleting, that its deletion has begun.
	Gone, Deleting bool
	// Version is the version in spec. Reported is the kubelet's version on the node of a Machine, and
	// the version in the status of a control plane.
	Version, Reported string
	// Replicas is the number of machines in the spec of a control plane or of a group.
	Replicas int32
	// Mixed reports that the status of a group has machines at other versions than Version. The status
	// may lag behind the Machines.
	Mixed bool
	// Object is the version itself. It must not be changed. It has no managed fields.
	Object client.Object
}

// Condition returns a condition of the object, or nil if the object does not have it.
func (f Fact) Condition(kind string) *metav1.Condition {
	if o, ok := f.Object.(interface{ GetConditions() []metav1.Condition }); ok {
		return meta.FindStatusCondition(o.GetConditions(), kind)
	}
	return nil
}

// Reconciled returns the TopologyReconciled condition of a Cluster; a zero one if it has none.
func (f Fact) Reconciled() metav1.Condition {
	if c := f.Condition(clusterv1.ClusterTopologyReconciledCondition); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// Hooks are the pending hooks of a Cluster, as Cluster API records them.
func (f Fact) Hooks() string {
	if f.Object == nil {
		return ""
	}
	return f.Object.GetAnnotations()[runtimev1.PendingHooksAnnotation]
}

// At reports whether a Machine is ready at a version, and not being deleted.
func (f Fact) At(version string) bool {
	ready := f.Condition(clusterv1.MachineReadyCondition)
	return f.Version == version && f.Reported == version && !f.Deleting &&
		ready != nil && ready.Status == metav1.ConditionTrue
}

func readFact(o client.Object, kind string) Fact {
	// etcd's revision is a number.
	revision, _ := strconv.ParseInt(o.GetResourceVersion(), 10, 64)
	labels := o.GetLabels()
	f := Fact{
		Revision: revision, Kind: kind, Name: o.GetName(), UID: o.GetUID(), Object: o,
		Cluster:  types.NamespacedName{Namespace: o.GetNamespace(), Name: labels[clusterv1.ClusterNameLabel]},
		Group:    labels[clusterv1.ClusterTopologyMachineDeploymentNameLabel],
		Deleting: o.GetDeletionTimestamp() != nil,
	}
	if f.Group == "" {
		f.Group = labels[clusterv1.MachineDeploymentNameLabel]
	}
	switch o := o.(type) {
	case *clusterv1.Cluster:
		f.Version, f.Cluster.Name = o.Spec.Topology.Version, o.Name
	case *controlplanev1.KubeadmControlPlane:
		f.Version, f.Replicas = o.Spec.Version, deref(o.Spec.Replicas)
		f.Reported = o.Status.Version //nolint:staticcheck // Cluster API's topology controller reads it, too.
	case *clusterv1.MachineDeployment:
		f.Version, f.Replicas = o.Spec.Template.Spec.Version, deref(o.Spec.Replicas)
		if f.Group == "" {
			f.Group = o.Name
		}
		for _, reported := range o.Status.Versions {
			f.Mixed = f.Mixed || reported.Version != f.Version
		}
	case *clusterv1.Machine:
		f.Version = o.Spec.Version
		if o.Status.NodeInfo != nil {
			f.Reported = o.Status.NodeInfo.KubeletVersion
		}
	}
	return f
}

func deref(n *int32) int32 {
	if n == nil {
		return 0
	}
	return *n
}

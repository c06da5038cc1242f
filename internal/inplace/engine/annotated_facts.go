package engine

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/inplace/request"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/snapshot"
	"github.com/windlass-dev/windlass/pkg/version"
)

// What objects say, as facts.

func isPaused(cluster *clusterv1.Cluster, object metav1.Object) bool {
	return isClusterPaused(cluster) || has(object, clusterv1.PausedAnnotation)
}

// isClusterPaused reports whether a person, or `clusterctl move`, has paused all of a Cluster.
func isClusterPaused(cluster *clusterv1.Cluster) bool {
	return cluster.Spec.Paused != nil && *cluster.Spec.Paused
}

// topologyOf returns the topology that an object belongs to; the zero one for none.
func topologyOf(cluster *clusterv1.Cluster, object metav1.Object) request.Topology {
	if _, owned := object.GetLabels()[clusterv1.ClusterTopologyOwnedLabel]; !owned || !cluster.Spec.Topology.IsDefined() {
		return request.Topology{}
	}
	asked, _ := version.Parse(cluster.Spec.Topology.Version) // One that cannot be read is not named.
	return request.Topology{Cluster: cluster.Name, Version: asked}
}

// stuckControlPlane says why Cluster API cannot bring a control plane's machines to the version of its spec, and what to
// do; empty if it can.
func stuckControlPlane(cluster *clusterv1.Cluster, controlPlane *unstructured.Unstructured, machines []*clusterv1.Machine, selected policy.Policy) string {
	objects := snapshot.Objects{Cluster: cluster, ControlPlane: controlPlane, Machines: machines}
	c, ok := snapshot.Stuck(objects, selected, capi.VersionAt(controlPlane, "spec", "version"))
	if !ok {
		return ""
	}
	return fmt.Sprintf("%s %s is stuck: %s. Fix: %s", c.Kind, c.Name, c.Why(), c.Fix())
}

// isOrphaned reports whether nothing recorded accounts for the protection from remediation or from a move that this
// project gave a Machine: a person has removed the record.
func isOrphaned(m metav1.Object) bool {
	protected := has(m, v1alpha1.RemediationPausedAnnotation) || blocksMove(m.GetAnnotations())
	return protected && !has(m, v1alpha1.InPlaceUpgradeAnnotation) && !has(m, v1alpha1.UpdateProgressAnnotation)
}

// progressOf is the progress of an upgrade; nil where none has begun.
func progressOf(u *request.Upgrade) *inplace.Progress {
	if u == nil {
		return nil
	}
	return u.Progress
}

// updatedByClusterAPI says that Cluster API updates a Machine in place; empty if it does not.
func updatedByClusterAPI(m metav1.Object) string {
	for _, mark := range []string{clusterv1.UpdateInProgressAnnotation, v1alpha1.UpdateProgressAnnotation, clusterv1.PendingAcknowledgeMoveAnnotation} {
		if has(m, mark) {
			return "Cluster API updates it in place"
		}
	}
	return ""
}

func kubeletOf(m *clusterv1.Machine) version.Version {
	kubelet, err := version.Parse(capi.Kubelet(m))
	if err != nil {
		return version.Version{}
	}
	return kubelet
}

// notReady says why the node of a Machine is not Ready, as far as Cluster API knows; empty if it is. What is not known does not count as Ready.
func notReady(m *clusterv1.Machine) string {
	for _, kind := range []string{clusterv1.MachineNodeReadyCondition, clusterv1.MachineNodeHealthyCondition} {
		c := meta.FindStatusCondition(m.Status.Conditions, kind)
		switch {
		case c == nil:
			continue
		case c.Status == metav1.ConditionTrue:
			return ""
		}
		return cut(fmt.Sprintf("its condition %s is %s (%s): %s", kind, c.Status, c.Reason, c.Message))
	}
	return "it is not known whether its node is Ready"
}

// etcdProblem says what is wrong with the etcd member of a control plane Machine; empty for nothing, and where there is no such condition. What is not known
// is a problem: a KubeadmControlPlane says so of all its members where etcd does not answer, as it does not without its quorum.
func etcdProblem(m *clusterv1.Machine) string {
	for _, kind := range []string{
		controlplanev1.KubeadmControlPlaneMachineEtcdMemberHealthyCondition, controlplanev1.KubeadmControlPlaneMachineEtcdPodHealthyCondition,
	} {
		if c := meta.FindStatusCondition(m.Status.Conditions, kind); c != nil && c.Status != metav1.ConditionTrue {
			return cut(fmt.Sprintf("control plane Machine %s has the condition %s %s (%s): %s", m.Name, kind, c.Status, c.Reason, c.Message))
		}
	}
	return ""
}

// peer reads another machine of the control plane.
func (e *Engine) peer(m *clusterv1.Machine) request.Peer {
	return request.Peer{Name: m.Name, Kubelet: kubeletOf(m), NotReady: notReady(m), Busy: e.occupied(m)}
}

// occupied says what happens to a Machine, after its name; empty for nothing.
func (e *Engine) occupied(m *clusterv1.Machine) string {
	marks := e.keys.marks(m.Annotations)
	u, unreadable := readRecord[request.Upgrade](m.Annotations)
	switch {
	case !m.DeletionTimestamp.IsZero():
		return "is being deleted"
	case unreadable != "":
		return "has a record of an upgrade that cannot be read: " + cut(unreadable)
	case u.IsRunning():
		return "is being upgraded to " + u.Option
	case u == nil && marks.Status == request.InProgress && marks.ChangeID != "":
		return "is being upgraded: change " + marks.ChangeID + " runs on it"
	case updatedByClusterAPI(m) != "":
		return "is being updated in place by Cluster API"
	}
	return ""
}

func unstructuredOf(gvk schema.GroupVersionKind) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetGroupVersionKind(gvk)
	return object
}

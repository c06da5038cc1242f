package snapshot

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/text"
)

// fixUnannounced is the way out for an UnannouncedStep.
const fixUnannounced = "upgrade Cluster API (v1.12.0 to v1.12.4 announce steps only with the " +
	"feature gate RuntimeSDK: https://github.com/kubernetes-sigs/cluster-api/issues/13506), or " +
	"start capi-controller-manager with RuntimeSDK=true (EXP_RUNTIME_SDK=true)"

// UnannouncedStep returns why a KubeadmControlPlane creates no machine for the step that it is at,
// and since when: its version is not the topology's, and the controller of the topology has not
// announced the step with an annotation of the Cluster. ok is false if it does not stand still for
// that.
func UnannouncedStep(o Objects) (f Failure, since time.Time, ok bool) {
	const kind = "KubeadmControlPlane"
	topology := o.Cluster.Spec.Topology
	if !topology.IsDefined() || o.ControlPlane == nil || o.ControlPlane.GetKind() != kind {
		return Failure{}, time.Time{}, false
	}
	at := capi.VersionAt(o.ControlPlane, "spec", "version")
	step := o.Cluster.Annotations[clusterv1.ClusterTopologyUpgradeStepAnnotation]
	behind := meta.FindStatusCondition(capi.Conditions(o.ControlPlane),
		clusterv1.MachinesUpToDateCondition)
	if at.IsZero() || at.String() == topology.Version || at.String() == step ||
		behind == nil || behind.Status != metav1.ConditionFalse {
		return Failure{}, time.Time{}, false
	}
	old, found := controlPlaneNotAt(at.String(), o.Machines)
	if !found {
		return Failure{}, time.Time{}, false
	}
	const most = 63
	return Failure{
		Message: fmt.Sprintf("%s %s waits at %s, with machines at %s: the topology asks for %s, "+
			"and Cluster API has not announced the step with the annotation %s, "+
			"without which it creates no machine",
			kind, o.ControlPlane.GetName(), at, text.Bound(old, most),
			text.Bound(topology.Version, most), clusterv1.ClusterTopologyUpgradeStepAnnotation),
		Fix: fixUnannounced,
	}, behind.LastTransitionTime.UTC(), true
}

// controlPlaneNotAt returns the version of a control plane machine that stays and has another one.
func controlPlaneNotAt(v string, machines []*clusterv1.Machine) (old string, found bool) {
	for _, m := range machines {
		old = m.Spec.Version
		if capi.IsControlPlane(m) && m.DeletionTimestamp.IsZero() && old != "" && old != v {
			return old, true
		}
	}
	return "", false
}

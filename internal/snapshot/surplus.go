package snapshot

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"

	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/text"
	"github.com/windlass-dev/windlass/pkg/version"
)

// surplus are the machines of a control plane that has more than it should have, all of them Ready.
type surplus struct {
	replicas int
	// old are not what the control plane asks for. newest is the last of the others to become Ready.
	machines, old []*clusterv1.Machine
	newest        *clusterv1.Machine
	since         time.Time
}

// NeedsProvider reports whether the version of the control plane's provider tells why its rollout does not
// continue.
func NeedsProvider(o Objects) bool {
	_, ok := findSurplus(o)
	return ok && o.ControlPlane.GetKind() == rke2Kind
}

const rke2Kind = "RKE2ControlPlane"

// RolloutStandstill returns why the rollout of a control plane does not continue: it has more machines than
// replicas, all are Ready, and no old one is being deleted or updated; or it has no Machines, and is not
// available. Every rollout has a moment like that: see IsLong.
func RolloutStandstill(o Objects, a Around) (s Standstill, ok bool) {
	if s, ok := hostedStandstill(o); ok {
		return s, true
	}
	return surplusStandstill(o, a)
}

func surplusStandstill(o Objects, a Around) (s Standstill, ok bool) {
	found, ok := findSurplus(o)
	if !ok {
		return Standstill{}, false
	}
	old := text.Some{Most: shownOld}
	for _, m := range found.old {
		const most = 63
		old.Add(fmt.Sprintf("%s (%s)", m.Name, text.Bound(m.Spec.Version, most)))
	}
	stay := "stays and is"
	if len(found.old) > 1 {
		stay = "stay and are"
	}
	return Standstill{
		Subject: o.ControlPlane.GetKind() + " " + o.ControlPlane.GetName(), Since: found.since,
		Failure: Failure{
			Message: fmt.Sprintf("its rollout makes no progress: it has %s for %s, all of them Ready (%s since %s), "+
				"and %s %s not being deleted", text.Count(len(found.machines), "machine"),
				text.Count(found.replicas, "replica"), found.newest.Name, found.since.Format(time.RFC3339),
				old.Join(", "), stay),
			Fix: fixSurplus(o.ControlPlane.GetKind(), a.Provider),
		},
	}, true
}

// shownOld bounds the machines that a message names.
const shownOld = 3

// fixSurplus returns the way out for a kind of control plane and the version of its provider.
func fixSurplus(kind string, provider version.Version) string {
	const (
		general = "see in the log of the controller of %s why it does not delete the machine, and restart that " +
			"controller; leave the deletion to it"
		rke2 = "restart the controller of %s: kubectl -n rke2-control-plane-system rollout restart deployment " +
			"rke2-control-plane-controller-manager (a known fault of CAPRKE2 v0.25: " +
			"https://github.com/rancher/cluster-api-provider-rke2/issues/919); leave the deletion of the machine to it"
	)
	if kind == rke2Kind && provider.Minor() == (version.Minor{Minor: 25}) {
		return fmt.Sprintf(rke2, kind)
	}
	return fmt.Sprintf(general, kind)
}

func findSurplus(o Objects) (s surplus, ok bool) {
	if !mayRollOut(o) {
		return surplus{}, false
	}
	s.replicas = int(*ControlPlaneReplicas(o))
	asked := capi.VersionAt(o.ControlPlane, "spec", "version").String()
	for _, m := range o.Machines {
		if capi.IsControlPlane(m) && !s.add(m, asked) {
			return surplus{}, false
		}
	}
	return s, len(s.machines) > s.replicas && len(s.old) > 0 && s.newest != nil
}

// mayRollOut reports whether the control plane has machines that its controller replaces.
func mayRollOut(o Objects) bool {
	return o.ControlPlane != nil && !annotations.IsPaused(o.Cluster, o.ControlPlane) &&
		o.Cluster.DeletionTimestamp.IsZero() && o.ControlPlane.GetDeletionTimestamp() == nil &&
		ControlPlaneReplicas(o) != nil && !capi.VersionAt(o.ControlPlane, "spec", "version").IsZero()
}

// add adds a machine of a control plane that asks for a version. rests is false for one that is not Ready,
// is being deleted or is being updated.
func (s *surplus) add(m *clusterv1.Machine, asked string) (rests bool) {
	ready := machineCondition(m, clusterv1.MachineReadyCondition)
	if ready == nil || ready.Status != metav1.ConditionTrue || isInMotion(m) {
		return false
	}
	s.machines = append(s.machines, m)
	switch since := ready.LastTransitionTime.UTC(); {
	case !isAsAsked(m, asked):
		s.old = append(s.old, m)
	case s.newest == nil || since.After(s.since):
		s.newest, s.since = m, since
	}
	return true
}

// isAsAsked reports whether a Machine is what its control plane asks for, as far as it tells.
func isAsAsked(m *clusterv1.Machine, asked string) bool {
	c := machineCondition(m, clusterv1.MachineUpToDateCondition)
	return m.Spec.Version == asked && (c == nil || c.Status != metav1.ConditionFalse)
}

// isInMotion reports whether a Machine is being deleted or updated in place.
func isInMotion(m *clusterv1.Machine) bool {
	updating := machineCondition(m, clusterv1.MachineUpdatingCondition)
	_, marked := m.Annotations[clusterv1.UpdateInProgressAnnotation]
	return !m.DeletionTimestamp.IsZero() || marked || capi.HasPendingHook(m, capi.UpdateMachineHook) ||
		updating != nil && updating.Status == metav1.ConditionTrue
}

func machineCondition(m *clusterv1.Machine, kind string) *metav1.Condition {
	return meta.FindStatusCondition(m.Status.Conditions, kind)
}

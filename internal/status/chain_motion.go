package status

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/chain"
	"github.com/windlass-dev/windlass/pkg/version"
)

// A step is done when each machine that it asks for runs its version or a newer one, and none of them
// is in motion. The hooks that follow a step, and the versions that owners report, come earlier: an
// update soaks when its kubelet has the version already, and a new machine joins before it is Ready.

// isInMotion reports whether a Machine is on its way to the version that it is asked for, although its
// kubelet may have that already.
func (c *chainComputation) isInMotion(m *clusterv1.Machine) bool {
	if !m.DeletionTimestamp.IsZero() {
		return false
	}
	if p := c.records[m.Name].progress; p != nil {
		asked, err := version.Parse(m.Spec.Version)
		return err == nil && p.To.Equal(asked) && !p.From.Equal(p.To)
	}
	return c.isNew(m)
}

// isNew reports whether a Machine was created in this upgrade and is not Ready yet.
func (c *chainComputation) isNew(m *clusterv1.Machine) bool {
	began := c.began()
	if began.IsZero() || m.CreationTimestamp.Time.Before(began) {
		return false
	}
	ready := meta.FindStatusCondition(m.Status.Conditions, clusterv1.MachineReadyCondition)
	return !m.Status.NodeRef.IsDefined() || ready != nil && ready.Status != metav1.ConditionTrue
}

// began is when the upgrade under way began, as far as that is known; zero where none is.
func (c *chainComputation) began() time.Time {
	if p := c.progress(); p != nil {
		return p.Began
	}
	if c.condition != nil && speaksOfUpgrade(*c.condition) {
		return c.condition.LastTransitionTime.Time
	}
	return time.Time{}
}

// controlPlaneMoves reports whether the control plane is on its way to its version.
func (c *chainComputation) controlPlaneMoves() bool {
	cp := c.state.ControlPlane
	return cp.Exists && (cp.Upgrading || !cp.Provisioned || c.anyInMotion(isControlPlane, cp.Version))
}

// groupMoves reports whether a group is on its way to its version.
func (c *chainComputation) groupMoves(g chain.Group) bool {
	return g.Exists && !g.Deleting &&
		(g.Upgrading || c.anyInMotion(c.membersOf(g), g.Version))
}

func (c *chainComputation) anyInMotion(
	isMember func(*clusterv1.Machine) bool, at version.Version,
) bool {
	return slices.ContainsFunc(c.facts.Machines, func(m *clusterv1.Machine) bool {
		return isMember(m) && isAsked(m, at) && c.isInMotion(m)
	})
}

// isAsked reports whether a Machine is asked for a version.
func isAsked(m *clusterv1.Machine, at version.Version) bool {
	asked, err := version.Parse(m.Spec.Version)
	return err == nil && asked.Equal(at)
}

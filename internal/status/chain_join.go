package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/capi"
)

// lateToJoin is how old a control plane Machine without a Node is before it counts as one that does not
// join. Cluster API's MachineHealthChecks have the same default.
const lateToJoin = 10 * time.Minute

// joinHolds names control plane Machines that are made for the step under way and do not join. With such a
// machine a step may never end.
func (c *chainComputation) joinHolds() []Hold {
	cp := c.state.ControlPlane
	if !cp.Exists || !cp.Upgrading {
		return nil
	}
	var holds []Hold
	for _, m := range c.facts.Machines {
		made := m.Spec.Version == cp.Version.String()
		age := c.now.Sub(m.CreationTimestamp.Time)
		joined := m.Status.NodeRef.IsDefined() || capi.Kubelet(m) != ""
		if !capi.IsControlPlane(m) || !made || joined || !m.DeletionTimestamp.IsZero() || age < lateToJoin {
			continue
		}
		holds = append(holds, Hold{
			Kind: HeldByMachines, By: ControlPlaneGroup, Since: m.CreationTimestamp.UTC(),
			Message: fmt.Sprintf("Machine %s, made for %s, has not joined: %s. Fix: %s", m.Name, cp.Version, lacks(m), c.wayOut()),
		})
	}
	slices.SortFunc(holds, func(a, b Hold) int { return cmp.Compare(a.Message, b.Message) })
	return holds[:min(len(holds), shownGroups)]
}

// lacks returns what a Machine's own conditions say is missing until it has a Node.
func lacks(m *clusterv1.Machine) string {
	for _, kind := range []string{
		clusterv1.MachineInfrastructureReadyCondition, clusterv1.MachineBootstrapConfigReadyCondition,
		clusterv1.MachineNodeReadyCondition,
	} {
		c := meta.FindStatusCondition(m.Status.Conditions, kind)
		if c != nil && c.Status != metav1.ConditionTrue {
			return strings.TrimSuffix(kind+": "+bound(cmp.Or(c.Message, c.Reason)), ".")
		}
	}
	return "it has no Node"
}

// wayOut is what a person can do about a step that cannot end.
func (c *chainComputation) wayOut() string {
	if c.state.ControlPlane.Unjoined && c.engine == Windlass {
		return "give it what it lacks, or set spec.topology.version, or the versions that the ClusterClass or an UpgradeGraph offers, " +
			"to versions that leave it out: the step is taken back"
	}
	return "give it what it lacks, or leave its version out by hand: docs/how-to/change-the-target.md, A step that cannot end"
}

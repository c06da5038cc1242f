package pool

import (
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/record"
)

// SetFacts are what the rules of one MachineSet read. Objects are never changed.
type SetFacts struct {
	MachineSet *clusterv1.MachineSet
	// Deployment is the MachineDeployment that controls MachineSet; nil if there is none.
	Deployment *clusterv1.MachineDeployment
	// Machines are those that MachineSet controls, in any order. They count only if MachinesRead.
	Machines     []*clusterv1.Machine
	MachinesRead bool
	// Group are those of all MachineSets of Deployment, in any order, those in deletion included.
	// Scale requires them if CountsGroup, and Remediate if SharesRemediation.
	Group []*clusterv1.Machine
	// Decided is Decided for the MachineSets of Deployment. FailedCanaries requires it.
	Decided bool
	// BootstrapTemplateMissing and InfrastructureTemplateMissing say that a template of spec was
	// not found.
	BootstrapTemplateMissing, InfrastructureTemplateMissing bool
	// Blocked are the messages of the preflight checks that kept Machines from being created.
	Blocked []string
	Now     time.Time
	// Clock reads the times that others have recorded; nil remembers none.
	Clock *record.Clock
	// Policy is that of the group; the zero value for stock's behavior.
	Policy policy.Policy
}

// keeps reports whether the MachineSet creates and deletes Machines only as far as the whole group
// lacks some or has too many, because no rollout may replace Machines.
func (f SetFacts) keeps() bool { return f.Deployment != nil && Keeps(f.Policy, f.Deployment) }

// updates reports whether Machines are updated where stock deletes unhealthy ones. An unhealthy one
// moves to the new MachineSet, because its update may repair it. One that is being updated is not
// remediated until the update ends, and at most for holdLimit. Machines of old MachineSets that cannot
// be updated are remediated, for the rollout does not delete them: because they have no Node, because
// their update does not end, or because no update leads to the template.
func (f SetFacts) updates() bool { return f.Policy.HandOver || f.keeps() }

// repairs is updates for moves. The last plan names the Machines that leave a MachineSet which was
// handed over. No others go in their place, although the policy has changed meanwhile.
func (f SetFacts) repairs() bool { return f.updates() || WasHandedOver(f.MachineSet) }

// limits are those of the policy; nil for none.
func (f SetFacts) limits() *Limits {
	if f.Deployment == nil {
		return nil
	}
	return LimitsOf(f.Policy, f.Deployment)
}

// DefaultHoldLimit is the time that an UpdatePolicy gives an update by default: three attempts of
// 30 minutes.
const DefaultHoldLimit = 90 * time.Minute

// IsHealthy reports whether a Machine has a Node that is not known to be unhealthy, and no
// MachineHealthCheck that failed.
func IsHealthy(m *clusterv1.Machine) bool {
	return m.Status.NodeRef.IsDefined() &&
		!conditions.IsFalse(m, clusterv1.MachineNodeHealthyCondition) &&
		!IsUnhealthy(m)
}

// IsUnhealthy reports whether a MachineHealthCheck found a Machine unhealthy.
func IsUnhealthy(m *clusterv1.Machine) bool {
	return conditions.IsFalse(m, clusterv1.MachineHealthCheckSucceededCondition)
}

// NeedsRemediation reports whether a MachineHealthCheck asks the owner of a Machine to remediate
// it.
func NeedsRemediation(m *clusterv1.Machine) bool {
	return IsUnhealthy(m) && conditions.IsFalse(m, clusterv1.MachineOwnerRemediatedCondition)
}

func isDeleting(m *clusterv1.Machine) bool { return !m.DeletionTimestamp.IsZero() }

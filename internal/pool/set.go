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
	// Policy is the zero value for stock's behavior.
	Policy SetPolicy
}

// SetPolicy is what an UpdatePolicy changes for a MachineSet. The zero value changes nothing.
type SetPolicy struct {
	// Keep lets the MachineSet create and delete Machines only as far as the whole group lacks some or
	// has too many, because no rollout may replace Machines.
	Keep bool
	// RepairByUpdate moves an unhealthy Machine to the new MachineSet, because its update may repair
	// it. Stock deletes it.
	RepairByUpdate bool
	// HoldUpdating keeps Machines that are being updated in place from remediation until the update
	// ends, and at most for HoldLimit. Stock deletes them. Machines of old MachineSets that cannot be
	// updated are remediated, for the rollout does not delete them: because they have no Node, because
	// their update does not end, or because no update leads to the template.
	HoldUpdating bool
	// HoldLimit bounds HoldUpdating; 0 means DefaultHoldLimit.
	HoldLimit time.Duration
	// Limits are those of the UpdatePolicy; nil for none. Remediation depends on the canary.
	Limits *Limits
	// Order is in which order a rollout takes Machines. It does not count for the MachineSet of the
	// present template, which loses Machines only if the group is scaled down.
	Order policy.Order
}

// SetPolicyOf returns which rules a policy changes for the MachineSets of a group: Machines that must not
// be replaced are updated where stock deletes unhealthy ones.
func SetPolicyOf(p policy.Policy, md *clusterv1.MachineDeployment) SetPolicy {
	set := SetPolicy{Order: p.Order, Limits: LimitsOf(p, md)}
	if !Keeps(p, md) && !p.HandOver {
		return set
	}
	set.Keep, set.RepairByUpdate, set.HoldUpdating = Keeps(p, md), true, true
	set.HoldLimit = p.Longest()
	return set
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

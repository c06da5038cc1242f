package preflight

import (
	"fmt"
	"slices"
	"strings"

	"github.com/windlass-dev/windlass/internal/clustercheck"
	"github.com/windlass-dev/windlass/internal/text"
	"github.com/windlass-dev/windlass/pkg/version"
)

// The checks of a preflight beside those of package clustercheck. IDs are stable: scripts rely on them.
const (
	// APIServerReady: /readyz of the API server passes.
	APIServerReady clustercheck.ID = "APIServerReady"
	// EtcdHealthy: etcd is healthy as the API server, its Pods and the control plane object report it.
	EtcdHealthy clustercheck.ID = "EtcdHealthy"
	// VersionSkew: kubelets may stay beside the control plane while it moves to its next minor.
	VersionSkew clustercheck.ID = "VersionSkew"
	// ControlPlaneCanMove: Cluster API can bring the control plane to the target under its UpdatePolicy.
	ControlPlaneCanMove clustercheck.ID = "ControlPlaneCanMove"
	// TopologyReconciles: the controller of the Cluster's topology has no error.
	TopologyReconciles clustercheck.ID = "TopologyReconciles"
	// UpdateExtensions: Cluster API finds at most one extension for each hook of updates in place.
	UpdateExtensions clustercheck.ID = "UpdateExtensions"
	// RemovedAPIsRequested: the API server has seen no request for an API that the upgrade removes.
	RemovedAPIsRequested clustercheck.ID = "RemovedAPIsRequested"
	// RemovedAPIsManaged: no manager wrote an object last through an API that the upgrade removes.
	RemovedAPIsManaged clustercheck.ID = "RemovedAPIsManaged"
	// RemovedAPIsInManifests: no given manifest uses an API that the target does not serve.
	RemovedAPIsInManifests clustercheck.ID = "RemovedAPIsInManifests"
	// KnownRisks: no step of the upgrade has a known risk.
	KnownRisks clustercheck.ID = "KnownRisks"
	// RemovedSettings: the target's components know the flags, feature gates and fields that they are
	// given.
	RemovedSettings clustercheck.ID = "RemovedSettings"
	// MachineRequirements: the kernels and container runtimes of the Nodes are enough for the target.
	MachineRequirements clustercheck.ID = "MachineRequirements"
	// StoredVersions: CRDs store objects only in versions that they serve and that are not deprecated.
	StoredVersions clustercheck.ID = "StoredVersions"
	// WebhookBackends: webhooks that an upgrade must pass can answer while Nodes are drained.
	WebhookBackends clustercheck.ID = "WebhookBackends"
	// WebhookScope: webhooks that must answer leave system objects alone.
	WebhookScope clustercheck.ID = "WebhookScope"
	// BudgetsCanBeSatisfied: no PodDisruptionBudget forbids every eviction.
	BudgetsCanBeSatisfied clustercheck.ID = "BudgetsCanBeSatisfied"
	// BudgetsOverlap: no Pod that a drain evicts has two PodDisruptionBudgets. The API server evicts
	// no such Pod.
	BudgetsOverlap clustercheck.ID = "BudgetsOverlap"
	// ManagementWebhooks: the management cluster's API server can call the webhooks of Cluster API: their
	// certificates do not expire.
	ManagementWebhooks clustercheck.ID = "ManagementWebhooks"
	// AutoscalerInRollout: no cluster autoscaler acts on a group whose machines are replaced.
	AutoscalerInRollout clustercheck.ID = "AutoscalerInRollout"
	// NewMachinesCanJoin: a machine that a rollout adds finds a Node name and a range of the pod network.
	NewMachinesCanJoin clustercheck.ID = "NewMachinesCanJoin"
	// NodeLabelsStay: no Pod needs a label that only the present Nodes have.
	NodeLabelsStay clustercheck.ID = "NodeLabelsStay"
	// RoomForDrains: the Pods of a Node fit on the other Nodes.
	RoomForDrains clustercheck.ID = "RoomForDrains"
)

// IDs returns the checks of a preflight in the order in which they are reported.
func IDs() []clustercheck.ID {
	return []clustercheck.ID{
		clustercheck.APIDiscovery, APIServerReady, EtcdHealthy, clustercheck.Nodes, VersionSkew, KnownRisks,
		ControlPlaneCanMove, TopologyReconciles, UpdateExtensions,
		ManagementWebhooks, AutoscalerInRollout, NewMachinesCanJoin,
		RemovedAPIsRequested, RemovedAPIsManaged, RemovedAPIsInManifests,
		RemovedSettings, MachineRequirements, StoredVersions,
		WebhookBackends, WebhookScope, BudgetsCanBeSatisfied, BudgetsOverlap,
		clustercheck.Certificates, NodeLabelsStay, RoomForDrains,
	}
}

// Upgrade is what a preflight is about.
type Upgrade struct {
	// From is what the control plane runs, To the target. To is not older than From.
	From, To version.Version
}

// removes reports whether an API that goes with this minor is served before the upgrade, and not after.
func (u Upgrade) removes(removed version.Minor) bool {
	return u.From.Minor().Before(removed) && !u.To.Minor().Before(removed)
}

const (
	// maxFindings bounds the findings of one check. The last one counts the others.
	maxFindings = 50
	// maxNameBytes bounds what is shown of a name, as API servers bound names.
	maxNameBytes = 253
)

// report collects the findings of one check.
type report struct {
	id    clustercheck.ID
	found []clustercheck.Finding
}

func (r *report) add(o clustercheck.Outcome, subject, fix, format string, arguments ...any) {
	r.found = append(r.found, clustercheck.Finding{
		ID: r.id, Outcome: o, Subject: subject, Fix: fix, Message: fmt.Sprintf(format, arguments...),
	})
}

func (r *report) fail(subject, fix, format string, arguments ...any) {
	r.add(clustercheck.Failed, subject, fix, format, arguments...)
}

func (r *report) warn(subject, fix, format string, arguments ...any) {
	r.add(clustercheck.Warned, subject, fix, format, arguments...)
}

// finish returns the findings, failures first and then by subject. Without any, the check passed.
func (r *report) finish(passed string, arguments ...any) []clustercheck.Finding {
	if len(r.found) == 0 {
		return []clustercheck.Finding{clustercheck.Pass(r.id, passed, arguments...)}
	}
	slices.SortStableFunc(r.found, func(a, b clustercheck.Finding) int {
		if failed := (b.Outcome == clustercheck.Failed); failed != (a.Outcome == clustercheck.Failed) {
			if failed {
				return 1
			}
			return -1
		}
		return strings.Compare(a.Subject, b.Subject)
	})
	if more := len(r.found) - maxFindings; more > 0 {
		r.found = r.found[:maxFindings]
		r.add(r.found[maxFindings-1].Outcome, "", "fix those above, and run preflight again", "%d more", more)
	}
	return r.found
}

// named names an object such as Pod ns/name.
func named(kind, namespace, name string) string {
	words := kind + " "
	if namespace != "" {
		words += text.Bound(namespace, maxNameBytes) + "/"
	}
	return words + text.Bound(name, maxNameBytes)
}

// Verdict answers in one sentence whether the upgrade can begin. omitted are the checks that the user skips.
func Verdict(u Upgrade, findings []clustercheck.Finding, omitted []string) string {
	count := func(o clustercheck.Outcome) []string {
		var ids []string
		for _, f := range findings {
			if f.Outcome == o {
				ids = append(ids, string(f.ID))
			}
		}
		return slices.Compact(ids)
	}
	failed, warned := count(clustercheck.Failed), count(clustercheck.Warned)
	skipped := count(clustercheck.NotChecked)
	words := fmt.Sprintf("Nothing found that stops the upgrade from %s to %s", u.From, u.To)
	switch {
	case len(failed) > 0:
		words = fmt.Sprintf("Fix what was found before the upgrade from %s to %s: %s failed (%s)",
			u.From, u.To, text.Count(len(failed), "check"), strings.Join(failed, ", "))
	case len(skipped) > 0:
		words = fmt.Sprintf("Not everything could be checked for the upgrade from %s to %s", u.From, u.To)
	}
	if len(warned) > 0 {
		words += "; warnings: " + strings.Join(warned, ", ")
	}
	if len(skipped) > 0 {
		words += "; not checked: " + strings.Join(skipped, ", ")
	}
	if len(omitted) > 0 {
		words += "; skipped: " + strings.Join(slices.Compact(slices.Sorted(slices.Values(omitted))), ", ")
	}
	return words + "."
}

// Passed reports whether nothing failed and everything was checked. Warnings do not count.
func Passed(findings []clustercheck.Finding) bool {
	return !slices.ContainsFunc(findings, func(f clustercheck.Finding) bool {
		return f.Outcome == clustercheck.Failed || f.Outcome == clustercheck.NotChecked
	})
}

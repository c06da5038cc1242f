package doctor

import (
	"fmt"
	"slices"
)

// Severity is how bad a finding is.
type Severity string

// The severities.
const (
	// OK: it is as it should be.
	OK Severity = "OK"
	// Warning: machines may be replaced where the policy allows that, or it cannot be told whether something is right.
	Warning Severity = "Warning"
	// Error: an update cannot happen, or machines would be replaced that the policy says to keep.
	Error Severity = "Error"
)

// ID names a check. IDs are stable: scripts rely on them.
type ID string

// The checks, in the order in which they are reported.
const (
	// CheckMachinesKept sums up for each group whether its machines can be updated in place.
	CheckMachinesKept ID = "MachinesKept"
	// CheckPolicy says which UpdatePolicy counts for each group.
	CheckPolicy ID = "Policy"
	// CheckFeatureGates looks for the feature gates RuntimeSDK and InPlaceUpdates of Cluster API's managers.
	CheckFeatureGates ID = "FeatureGates"
	// CheckExtension looks for the one extension that Cluster API asks, and whether it can be reached.
	CheckExtension ID = "Extension"
	// CheckUpdaters looks for the Updaters of each group.
	CheckUpdaters ID = "Updaters"
	// CheckGuard looks for the webhook that keeps machines from being replaced.
	CheckGuard ID = "Guard"
	// CheckReplicas looks for control planes that Cluster API cannot update in place because they are too small, or not its own.
	CheckReplicas ID = "Replicas"
	// CheckSurge looks for rollout strategies that replace machines before the extension is asked.
	CheckSurge ID = "Surge"
	// CheckRollout looks for times at which machines are replaced without the extension being asked.
	CheckRollout ID = "RolloutTimes"
	// CheckLimits looks for limits of UpdatePolicies that keep every machine from a change, that bound
	// nothing, that are too short, that name labels which machines lack, or that the Cluster's engine
	// does not read.
	CheckLimits ID = "Limits"
	// CheckBounds looks for objects that an API server with the CRDs of this release would not create.
	CheckBounds ID = "Bounds"
	// CheckTemplates looks for objects without which the extension is not asked.
	CheckTemplates ID = "Templates"
	// CheckSettings looks for flags and feature gates that the Cluster's version, or the next minor,
	// lacks.
	CheckSettings ID = "RemovedSettings"
	// CheckHealthChecks looks for MachineHealthChecks: remediation replaces machines.
	CheckHealthChecks ID = "HealthChecks"
	// CheckAutoscaler looks for groups that a cluster autoscaler may scale while their machines are replaced.
	CheckAutoscaler ID = "Autoscaler"
	// CheckManagedFields looks for machines whose arguments cannot be changed in place, because Cluster API
	// v1.11 or older wrote their KubeadmConfigs.
	CheckManagedFields ID = "ManagedFields"
	// CheckTopology looks for an error of the topology's controller, which changes nothing meanwhile.
	CheckTopology ID = "Topology"
	// CheckWebhooks looks for certificates of Cluster API's webhooks that have expired, or that nothing renews.
	CheckWebhooks ID = "Webhooks"
	// CheckPaused looks for paused objects.
	CheckPaused ID = "Paused"
	// CheckMachines looks for machines whose update failed, is under way, or left fields alone.
	CheckMachines ID = "Machines"
	// CheckUnread says what could not be read.
	CheckUnread ID = "Unread"
)

// Finding is the outcome of one check about one thing. Its JSON is a part of the stable interface of `windlass doctor`.
type Finding struct {
	ID       ID       `json:"id"`
	Severity Severity `json:"severity"`
	// Subject is what it is about, such as MachineDeployment prod-md-0.
	Subject string `json:"subject"`
	// Message says what is so; Fix what to change, empty where nothing has to be.
	Message string `json:"message"`
	Fix     string `json:"fix"`
	// Unknown says that it cannot be told.
	Unknown bool `json:"unknown"`
}

// Worst returns the worst severity of findings.
func Worst(findings []Finding) Severity {
	worst := OK
	for _, f := range findings {
		if rank(f.Severity) > rank(worst) {
			worst = f.Severity
		}
	}
	return worst
}

func rank(s Severity) int { return slices.Index([]Severity{OK, Warning, Error}, s) }

// findings collects those of one check.
type findings struct {
	id   ID
	list []Finding
}

func (f *findings) add(s Severity, subject, fix, format string, arguments ...any) {
	f.list = append(f.list, Finding{ID: f.id, Severity: s, Subject: subject, Message: fmt.Sprintf(format, arguments...), Fix: fix})
}

// unknown adds that something cannot be told, which is never OK.
func (f *findings) unknown(subject, fix, format string, arguments ...any) {
	f.list = append(f.list, Finding{ID: f.id, Severity: Warning, Subject: subject, Message: fmt.Sprintf(format, arguments...), Fix: fix, Unknown: true})
}

func (f *findings) ok(subject, format string, arguments ...any) {
	f.add(OK, subject, "", format, arguments...)
}

// askLive is what tells more than manifests can.
const askLive = "run windlass doctor against the management cluster"

package v1alpha1

// UpdateBlockedCondition is the type of a condition on a Machine, MachineDeployment or control plane object that says why
// its update does not go on by itself. It is there only while that is so.
const UpdateBlockedCondition = "windlass.dev/UpdateBlocked"

// The reasons of UpdateBlockedCondition, and of the Events that go with it.
const (
	// NotCoveredReason: no combination of updaters covers the change, and the policy forbids to replace
	// machines; or an updater of the decision cannot move the kubelet so far at once.
	NotCoveredReason = "NotCovered"
	// UpdaterErrorReason: an updater could not be asked, answered with something that cannot be used,
	// or may no longer change the Machine.
	UpdaterErrorReason = "UpdaterError"
	// PolicyConflictReason: several UpdatePolicies select the group with the same precision.
	PolicyConflictReason = "PolicyConflict"
	// UpdateFailedReason: an updater failed in all its attempts.
	UpdateFailedReason = "UpdateFailed"
	// NoDecisionReason: the update was not decided by Windlass, so nothing is known about which updaters to run.
	NoDecisionReason = "NoDecision"
	// DesiredChangedReason: the desired state is not the one that was decided on.
	DesiredChangedReason = "DesiredChanged"
	// UnknownRecordReason: a newer release of Windlass has recorded something that this one does not know,
	// or a webhook changes what is recorded.
	UnknownRecordReason = "UnknownRecord"
	// RightsMissingReason: Windlass may not read an object that the update is about.
	RightsMissingReason = "RightsMissing"
)

// UpdateExtensionsConflictCondition is the type of a condition on an ExtensionConfig that says that another one registers the same hook for updates
// in place for the same namespaces, so that Cluster API updates no machine there. It is there only while that is so.
const UpdateExtensionsConflictCondition = "windlass.dev/UpdateExtensionsConflict"

// SeveralExtensionsReason is the reason of UpdateExtensionsConflictCondition, and of the Event that goes with it: keep one of the extensions that the
// message names, and register what the others do as Updaters.
const SeveralExtensionsReason = "SeveralExtensions"

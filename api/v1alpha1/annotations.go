package v1alpha1

// Annotations that Windlass writes. All hold JSON.
const (
	// UpdatePlanAnnotation on a Machine holds the names of the updaters that still have to run, in order: the update plan
	// of Cluster API's proposal for in-place updates. A name leaves the list when its updater has finished.
	UpdatePlanAnnotation = "windlass.dev/update-plan"
	// UpdateProgressAnnotation on a Machine is how far its update has come: the running updater, its attempt, operation id
	// and since when. It exists from before the first call to an updater until the update ends.
	UpdateProgressAnnotation = "windlass.dev/update-progress"
	// UpdateDecisionsAnnotation holds the decisions to update in place, newest first: on a control plane Machine for
	// itself; on a MachineSet for its Machines, by the MachineSet that they move to.
	UpdateDecisionsAnnotation = "windlass.dev/update-decisions"
	// LastUpdateAnnotation on a Machine summarises its last finished update, with how long each updater took.
	LastUpdateAnnotation = "windlass.dev/last-update"
	// DirtyFieldsAnnotation on a Machine lists fields that its objects carry but that were not applied to the running
	// machine, because its UpdatePolicy ignores them, and since when.
	DirtyFieldsAnnotation = "windlass.dev/dirty-fields"
	// UpdateOwedAnnotation on a Machine holds what an abandoned update has not done. The next update does it.
	UpdateOwedAnnotation = "windlass.dev/update-owed"
	// RemediationPausedAnnotation on a Machine says that Windlass put Cluster API's skip-remediation annotation there, and
	// takes it away again when the update ends.
	RemediationPausedAnnotation = "windlass.dev/remediation-paused"
)

// Annotations that people write. The value does not matter, except where it says so.
const (
	// UpdateRetryAnnotation on a Machine whose update failed finally starts it again. It is removed when that has happened.
	UpdateRetryAnnotation = "windlass.dev/update-retry"
	// UpdateAbandonAnnotation on a Machine ends its update where it is, so that a newer desired state can reach it. It is
	// refused while the Machine's owner desires just what the Machine's spec says already: the Machine would count as up
	// to date though it is not.
	UpdateAbandonAnnotation = "windlass.dev/update-abandon"
	// AllowReplacementAnnotation on a Machine lets the guard permit its deletion, and the creation of its successor.
	AllowReplacementAnnotation = "windlass.dev/allow-replacement"
)

// GuardLabel on a namespace, with the value GuardDisabled, keeps the guard away from the Machines in it.
const (
	GuardLabel    = "windlass.dev/guard"
	GuardDisabled = "disabled"
)

// GuardConfigurationName is the name of the guard's ValidatingWebhookConfiguration.
const GuardConfigurationName = "windlass-guard"

// GuardWebhookName is the name of the guard's webhook in that configuration, and GuardScopeCondition the name of its match condition
// that lists the groups which policies keep. The extension alone writes this condition; manifests must leave it out.
const (
	GuardWebhookName    = "guard.windlass.dev"
	GuardScopeCondition = "kept-by-policies"
)

// Annotations between Windlass and updaters.
const (
	// OperationIDAnnotation on the desired Machine of an UpdateMachine request names the attempt. A request with an id that
	// the updater knows is the same attempt asked for again.
	OperationIDAnnotation = "windlass.dev/operation-id"
	// UpdatedAnnotation on a Machine is set by the implementer of a hand-over updater, to the operation id, when it has
	// updated the machine.
	UpdatedAnnotation = "windlass.dev/updated"
	// UpdateFailedAnnotation on a Machine is set by the implementer of a hand-over updater, to the operation id, a colon, a
	// space and the reason, when it could not update the machine.
	UpdateFailedAnnotation = "windlass.dev/update-failed"
)

// UpdateBlockedCondition is the type of a condition on a Machine, MachineDeployment or control plane object that says why
// its update does not go on by itself. It is there only while that is so.
const UpdateBlockedCondition = "windlass.dev/UpdateBlocked"

// The reasons of UpdateBlockedCondition, and of the Events that go with it.
const (
	// NotCoveredReason: no combination of updaters covers the change, and the policy forbids to replace machines.
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
	// RightsMissingReason: Windlass may not read an object that the update is about.
	RightsMissingReason = "RightsMissing"
)

// UpdateExtensionsConflictCondition is the type of a condition on an ExtensionConfig that says that another one registers the same hook for updates
// in place for the same namespaces, so that Cluster API updates no machine there. It is there only while that is so.
const UpdateExtensionsConflictCondition = "windlass.dev/UpdateExtensionsConflict"

// SeveralExtensionsReason is the reason of UpdateExtensionsConflictCondition, and of the Event that goes with it: keep one of the extensions that the
// message names, and register what the others do as Updaters.
const SeveralExtensionsReason = "SeveralExtensions"

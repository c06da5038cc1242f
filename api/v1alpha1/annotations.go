package v1alpha1

// Annotations that Windlass writes. All hold JSON, except where it says so.
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
	// MovedFromAnnotation on a Machine of a group whose machines are kept names the MachineSet that it left and the one
	// that it moved to. It is no JSON. Whoever begins the update removes it in the same write. While it is there, the host
	// is as the first MachineSet left it, so a revert takes the Machine back without an update.
	MovedFromAnnotation = "windlass.dev/moved-from"
	// ReturnMachinesAnnotation on an old MachineSet names the Machines that a revert takes back, separated by commas. It is
	// no JSON.
	ReturnMachinesAnnotation = "windlass.dev/return-machines"
	// NoUpdateAnnotation on an old MachineSet of a group whose machines are kept is the reason for which no update brings
	// its Machines to the template until a person acts. Unhealthy ones are remediated. It is no JSON.
	NoUpdateAnnotation = "windlass.dev/no-update"
	// HandedOverAnnotation on a MachineSet says that all of its Machines were handed over to an updater, which updates them
	// and writes their objects: the updater, the operation, and the limits that the updater was given.
	HandedOverAnnotation = "windlass.dev/handed-over"
	// FailedCanariesAnnotation on a MachineDeployment names the Machines that its rollout updated
	// first, whose updates failed, and which were remediated: no further Machine begins until a person
	// asks for a retry or changes the template.
	FailedCanariesAnnotation = "windlass.dev/failed-canaries"
	// RolloutResumedAnnotation on a MachineDeployment is the time, in RFC 3339, at which its rollout
	// continued after a hold. The deadline of the group counts from then on. It is removed when the
	// rollout ends.
	RolloutResumedAnnotation = "windlass.dev/rollout-resumed"
	// ScaleDownDisabledAnnotation on a Node of a workload cluster says that Windlass put the cluster autoscaler's
	// annotation scale-down-disabled there, and takes it away again. On a Machine that waits for its update it says
	// that its Node may have it.
	ScaleDownDisabledAnnotation = "windlass.dev/scale-down-disabled"
	// RemediationPausedAnnotation on a Machine says that Windlass put Cluster API's skip-remediation annotation there, and
	// takes it away again when the update ends.
	RemediationPausedAnnotation = "windlass.dev/remediation-paused"
)

// Annotations that people write. The value does not matter, except where it says so.
const (
	// UpdateRetryAnnotation on a Machine whose update failed finally starts it again. On a
	// MachineDeployment with FailedCanariesAnnotation it lets the next Machine begin, and on one whose
	// rollout is beyond its deadline the deadline counts from zero. It is removed when that has
	// happened. On a MachineDeployment with such a deadline it is also removed without a rollout.
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

// ActiveLabel on a Pod, with the value "true", says that it is the replica that serves: Services select
// it. It leads requests there and gives no right: a replica that does not lead serves nothing.
const ActiveLabel = "windlass.dev/active"

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
	// DeadlineAnnotation on the desired Machine of an UpdateMachine request is when the attempt is over, in RFC 3339.
	DeadlineAnnotation = "windlass.dev/deadline"
	// CancelAnnotation on the desired Machine of an UpdateMachine request says why the attempt must end, for people. An updater
	// that can stop does so, and answers that the attempt failed.
	CancelAnnotation = "windlass.dev/cancel"
	// UpdatedAnnotation on a Machine is set by the implementer of a hand-over updater, to the operation id, when it has
	// updated the machine.
	UpdatedAnnotation = "windlass.dev/updated"
	// UpdateFailedAnnotation on a Machine is set by the implementer of a hand-over updater, to the operation id, a colon, a
	// space and the reason, when it could not update the machine.
	UpdateFailedAnnotation = "windlass.dev/update-failed"
	// UpdateMessageAnnotation on a Machine is set by the implementer of a hand-over updater, to the operation id, a colon, a
	// space and how the update goes on, for people.
	UpdateMessageAnnotation = "windlass.dev/update-message"
)

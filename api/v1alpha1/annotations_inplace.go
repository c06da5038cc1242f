package v1alpha1

// DefaultInPlaceUpgradePrefix begins the keys of the annotations that ask for an upgrade in place, and tell how it goes. They are those of Canonical
// Kubernetes' provider, so that its users can switch; an option of the programs changes the prefix.
const DefaultInPlaceUpgradePrefix = "v1beta2.k8sd.io/in-place-upgrade-"

// What follows the prefix.
const (
	// InPlaceUpgradeTo is what to upgrade to: channel=…, revision=…, localPath=… or version=…. On a Machine, a MachineDeployment or a
	// control plane object it is set by a person, on Machines of such a group by Windlass. It is removed when that has been reached. Removing it cancels:
	// no further machine begins, and a change that runs on a machine is followed to its end.
	InPlaceUpgradeTo = "to"
	// InPlaceUpgradeStatus is one of the statuses below.
	InPlaceUpgradeStatus = "status"
	// InPlaceUpgradeRelease is the option that is installed: on a Machine after its upgrade, on a group when all its Machines have it. It goes when the
	// next change of the machine begins.
	InPlaceUpgradeRelease = "release"
	// InPlaceUpgradeChangeID on a Machine is the change that runs on its node, where the updater knows changes by ids.
	InPlaceUpgradeChangeID = "change-id"
	// InPlaceUpgradeLastFailedAttemptAt on a Machine is when its last attempt failed, as RFC 1123 with a numeric zone. It is for people: nothing is
	// decided by it.
	InPlaceUpgradeLastFailedAttemptAt = "last-failed-attempt-at"
)

// The values of InPlaceUpgradeStatus.
const (
	InPlaceUpgradeInProgress = "in-progress"
	InPlaceUpgradeDone       = "done"
	// InPlaceUpgradeFailed: the last attempt failed. While attempts are left, the next one sets InPlaceUpgradeInProgress. Otherwise it is
	// final until `to` changes, or UpdateRetryAnnotation is set.
	InPlaceUpgradeFailed = "failed"
)

// Annotations that Windlass writes for upgrades that annotations ask for. Both hold JSON.
const (
	// InPlaceUpgradeAnnotation is how far the upgrade has come: on a Machine its progress, on a group which option it is about, since when, and what it
	// waits for. On a Machine it exists from before the first effect until the upgrade has ended well or was given up.
	InPlaceUpgradeAnnotation = "windlass.dev/in-place-upgrade"
	// InPlaceUpgradeKubeletAnnotation on a Machine is the option that its last upgrade brought it to, and the version that its kubelet then reported,
	// followed by "unchanged" if no updater was asked for it. The end of a group's upgrade is decided by it. It holds no JSON.
	InPlaceUpgradeKubeletAnnotation = "windlass.dev/in-place-upgrade-kubelet"
	// RefreshAnnotation on a Machine is the refresh that an Updater of kind K8sd has asked its node for. It is written before the request.
	RefreshAnnotation = "windlass.dev/k8sd-refresh"
)

// InPlaceUpgradeDrainAnnotation is written by people on a Machine, or on a group for all its Machines: "false" upgrades without a drain, "true" with
// one, whatever the UpdatePolicy says. Without it and without an UpdatePolicy, nodes are drained.
const InPlaceUpgradeDrainAnnotation = "windlass.dev/in-place-upgrade-drain"

// InPlaceUpgradeOptionAnnotation on the desired Machine of an UpdateMachine request is the option that the machine is to be brought to, where an
// annotation asked for the upgrade; see InPlaceUpgradeTo.
const InPlaceUpgradeOptionAnnotation = "windlass.dev/in-place-upgrade-option"

// InPlaceUpgradeFollowAnnotation on the desired Machine of an UpdateMachine request says that nobody
// wants the operation any longer. An updater that knows this annotation answers how what it has begun
// goes on, and begins nothing but what undoes a change that was cut short. It answers Failure where
// nothing was begun.
const InPlaceUpgradeFollowAnnotation = "windlass.dev/in-place-upgrade-follow"

// PrefetchAnnotation on the desired Machine of a request means that its update may not begin yet, and that the control plane
// may still be older than the machine is to be. An updater in this process is asked with it whether the update could begin,
// and prepares the machine. No other updater gets it.
const PrefetchAnnotation = "windlass.dev/prefetch"

// InPlaceUpgradeCondition is the type of a condition on Machines, MachineDeployments and KubeadmControlPlanes that an annotation asks to upgrade in
// place. It is True while the upgrade goes on, and False, with the reason why, when it has failed or cannot begin. It goes when the upgrade has ended well,
// or is given up.
const InPlaceUpgradeCondition = "windlass.dev/InPlaceUpgrade"

// The reasons of Events about upgrades that annotations ask for.
const (
	InPlaceUpgradeInProgressEvent = "InPlaceUpgradeInProgress"
	InPlaceUpgradeDoneEvent       = "InPlaceUpgradeDone"
	InPlaceUpgradeFailedEvent     = "InPlaceUpgradeFailed"
	InPlaceUpgradeCancelledEvent  = "InPlaceUpgradeCancelled"
	// InPlaceUpgradeAttemptFailedEvent: another attempt follows.
	InPlaceUpgradeAttemptFailedEvent = "InPlaceUpgradeAttemptFailed"
)

// The lock that a control plane Machine holds while it is upgraded: a ConfigMap named after its Cluster, with LockKey in its data.
const (
	InPlaceUpgradeLockSuffix = "-cp-inplace-upgrade-lock"
	// InPlaceUpgradeLockKey holds JSON: machineName and machineNamespace.
	InPlaceUpgradeLockKey = "lock-information"
)

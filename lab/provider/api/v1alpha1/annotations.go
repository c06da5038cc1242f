package v1alpha1

// FaultPrefix is the prefix of the annotations of faults.
const FaultPrefix = "fault.lab.windlass.dev/"

// Annotations of a HostMachine make its host suffer while they are there. Their values are "true", unless their comments tell
// others.
const (
	// PowerOffAnnotation is a power cut: everything in the host dies at once, and the disk stays. The host boots when the
	// annotation goes.
	PowerOffAnnotation = FaultPrefix + "power-off"
	// DiskFullAnnotation leaves no room on the disk.
	DiskFullAnnotation = FaultPrefix + "disk-full"
	// NetworkLostAnnotation takes the network away.
	NetworkLostAnnotation = FaultPrefix + "network-lost"
	// SlowDiskAnnotation makes each synchronous write to the disk take longer. Its value is a duration, such as 100ms.
	SlowDiskAnnotation = FaultPrefix + "slow-disk"
)

// Reasons of the condition Ready.
const (
	// WaitingForClusterReason means that the Cluster's infrastructure is not provisioned yet.
	WaitingForClusterReason = "WaitingForClusterInfrastructure"
	// WaitingForBootstrapDataReason means that there is no user data yet.
	WaitingForBootstrapDataReason = "WaitingForBootstrapData"
	// UserDataRefusedReason means that a host cannot do what its user data asks for.
	UserDataRefusedReason = "UserDataRefused"
	// HostNotMadeReason means that the host could not be made. The provider tries again.
	HostNotMadeReason = "HostNotMade"
	// BootstrappingReason means that the host carries out its user data.
	BootstrappingReason = "Bootstrapping"
	// BootstrapFailedReason means that a part of the user data failed. The host does not try again.
	BootstrapFailedReason = "BootstrapFailed"
	// HostLostReason means that the host was provisioned and is not there any more.
	HostLostReason = "HostLost"
	// HostFaultReason means that an annotation makes the host suffer.
	HostFaultReason = "HostFault"
	// HostRunningReason means that the host runs and is bootstrapped.
	HostRunningReason = "HostRunning"
	// LoadBalancerLostReason means that the load balancer was provisioned and is not there any more.
	LoadBalancerLostReason = "LoadBalancerLost"
	// ProvisionedReason means that everything is there.
	ProvisionedReason = "Provisioned"
	// ScalingReason means that the pool has not as many machines as it should, or some that are outdated.
	ScalingReason = "Scaling"
	// DeletingReason means that the object is being deleted.
	DeletingReason = "Deleting"
)

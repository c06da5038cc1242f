package kubeadmpatch

// safeKubeletFields are the fields of a KubeletConfiguration that a patch may set: numbers, durations,
// sizes and policies. The others can make root of whoever sets them: staticPodPath, staticPodURL,
// volumePluginDir, authentication, authorization and files.
var safeKubeletFields = []string{
	"containerLogMaxFiles", "containerLogMaxSize", "cpuCFSQuota", "cpuCFSQuotaPeriod",
	"cpuManagerPolicy", "cpuManagerPolicyOptions", "cpuManagerReconcilePeriod",
	"enforceNodeAllocatable", "eventBurst", "eventRecordQPS", "evictionHard",
	"evictionMaxPodGracePeriod", "evictionMinimumReclaim", "evictionPressureTransitionPeriod",
	"evictionSoft", "evictionSoftGracePeriod", "failSwapOn", "featureGates",
	"imageGCHighThresholdPercent", "imageGCLowThresholdPercent", "imageMaximumGCAge",
	"imageMinimumGCAge", "kubeAPIBurst", "kubeAPIQPS", "kubeReserved", "localStorageCapacityIsolation",
	"logging", "maxOpenFiles", "maxParallelImagePulls", "maxPods", "memoryManagerPolicy", "memorySwap",
	"memoryThrottlingFactor", "nodeLeaseDurationSeconds", "nodeStatusMaxImages",
	"nodeStatusReportFrequency", "nodeStatusUpdateFrequency", "podPidsLimit", "podsPerCore",
	"protectKernelDefaults", "qosReserved", "registerNode", "registryBurst", "registryPullQPS",
	"reservedMemory", "reservedSystemCPUs", "rotateCertificates", "runtimeRequestTimeout",
	"seccompDefault", "serializeImagePulls", "shutdownGracePeriod", "shutdownGracePeriodByPodPriority",
	"shutdownGracePeriodCriticalPods", "streamingConnectionIdleTimeout", "syncFrequency",
	"systemReserved", "topologyManagerPolicy", "topologyManagerPolicyOptions", "topologyManagerScope",
	"volumeStatsAggPeriod",
}

package hosts

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/windlass-dev/windlass/internal/linuxhost"
	"github.com/windlass-dev/windlass/internal/text"
)

const (
	kubeletTarget = "kubeletconfiguration"
	corednsTarget = "corednsdeployment"
)

// safeKubeletFields are the fields of a KubeletConfiguration that a patch may set: numbers, durations, sizes and policies. The others can make root of whoever
// sets them: staticPodPath, staticPodURL, volumePluginDir, authentication, authorization and files.
var safeKubeletFields = []string{
	"apiVersion", "kind", "containerLogMaxFiles", "containerLogMaxSize", "cpuCFSQuota", "cpuCFSQuotaPeriod", "cpuManagerPolicy", "cpuManagerPolicyOptions",
	"cpuManagerReconcilePeriod", "enforceNodeAllocatable", "eventBurst", "eventRecordQPS", "evictionHard", "evictionMaxPodGracePeriod",
	"evictionMinimumReclaim", "evictionPressureTransitionPeriod", "evictionSoft", "evictionSoftGracePeriod", "failSwapOn", "featureGates",
	"imageGCHighThresholdPercent", "imageGCLowThresholdPercent", "imageMaximumGCAge", "imageMinimumGCAge", "kubeAPIBurst", "kubeAPIQPS", "kubeReserved",
	"localStorageCapacityIsolation", "logging", "maxOpenFiles", "maxParallelImagePulls", "maxPods", "memoryManagerPolicy", "memorySwap", "memoryThrottlingFactor",
	"nodeLeaseDurationSeconds", "nodeStatusMaxImages", "nodeStatusReportFrequency", "nodeStatusUpdateFrequency", "podPidsLimit", "podsPerCore",
	"protectKernelDefaults", "qosReserved", "registerNode", "registryBurst", "registryPullQPS", "reservedMemory", "reservedSystemCPUs", "rotateCertificates",
	"runtimeRequestTimeout", "seccompDefault", "serializeImagePulls", "shutdownGracePeriod", "shutdownGracePeriodByPodPriority",
	"shutdownGracePeriodCriticalPods", "streamingConnectionIdleTimeout", "syncFrequency", "systemReserved", "topologyManagerPolicy",
	"topologyManagerPolicyOptions", "topologyManagerScope", "volumeStatsAggPeriod",
}

// safePodFields are the paths in a static pod that a patch may set, and what is on the way to them; * is an element of a list. Images, commands, volumes and
// security contexts are not among them: a static pod runs as root.
var safePodFields = []string{
	"apiVersion", "kind", "metadata", "metadata/name", "metadata/namespace", "metadata/annotations", "metadata/labels", "spec", "spec/containers", "spec/containers/*",
	"spec/containers/*/name", "spec/containers/*/resources",
}

// openPodFields are the fields below which anything may be set.
var openPodFields = []string{"metadata/annotations", "metadata/labels", "spec/containers/*/resources"}

// checkPatch returns nil for a file that kubeadm does not take for a patch, and for a patch that sets nothing else than safe fields. A CoreDNS Deployment is
// an object of the workload cluster, not of the host.
func checkPatch(name string, content []byte) error {
	target := linuxhost.PatchTarget(name)
	if target == "" || target == corednsTarget {
		return nil
	}
	// kubeadm splits and decodes the file in this way.
	for document := range strings.SplitSeq(string(content), "\n---") {
		var patch any
		if err := yaml.Unmarshal([]byte(document), &patch); err != nil {
			return errors.New("the patch for kubeadm cannot be parsed as YAML or JSON")
		}
		for _, field := range patchedFields(patch) {
			if !isSafeField(target == kubeletTarget, field) {
				return fmt.Errorf("the patch for kubeadm sets %s, which can run anything as root on the host", text.Bound(strings.Join(field, "."), maxName))
			}
		}
	}
	return nil
}

// patchedFields returns the paths of all fields that a merge patch or a JSON patch sets. Numbers and - in the paths of a JSON patch are *, as elements are.
func patchedFields(patch any) [][]string {
	operations, isList := patch.([]any)
	if !isList {
		return fieldsOf(patch, nil)
	}
	var all [][]string
	for _, operation := range operations {
		fields, ok := operation.(map[string]any)
		if !ok {
			continue // kubeadm does not apply such a patch.
		}
		for _, key := range []string{"path", "from"} {
			if path, ok := fields[key].(string); ok {
				all = append(all, fieldsOf(fields["value"], pointerFields(path))...)
			}
		}
		if _, ok := fields["path"].(string); !ok {
			all = append(all, []string{"a JSON patch without a path"})
		}
	}
	return all
}

var elementOfList = regexp.MustCompile(`^([0-9]+|-)$`)

func pointerFields(pointer string) []string {
	var fields []string
	for _, field := range strings.Split(pointer, "/")[1:] {
		field = strings.NewReplacer("~1", "/", "~0", "~").Replace(field)
		if elementOfList.MatchString(field) {
			field = "*"
		}
		fields = append(fields, field)
	}
	return fields
}

// fieldsOf returns the path of a value, and of everything in it.
func fieldsOf(value any, path []string) [][]string {
	var all [][]string
	if len(path) > 0 {
		all = append(all, path)
	}
	switch value := value.(type) {
	case map[string]any:
		for key, inner := range value {
			all = append(all, fieldsOf(inner, append(slices.Clone(path), key))...)
		}
	case []any:
		for _, inner := range value {
			all = append(all, fieldsOf(inner, append(slices.Clone(path), "*"))...)
		}
	}
	slices.SortFunc(all, slices.Compare)
	return all
}

func isSafeField(kubelet bool, field []string) bool {
	if kubelet {
		return slices.Contains(safeKubeletFields, field[0])
	}
	path := strings.Join(field, "/")
	return slices.Contains(safePodFields, path) ||
		slices.ContainsFunc(openPodFields, func(open string) bool { return strings.HasPrefix(path, open+"/") })
}

package controllers

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/lab/provider/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/provider/cloudconfig"
	"github.com/windlass-dev/windlass/lab/provider/site"
)

// hostState is what is known about the host of a HostMachine.
type hostState struct {
	host site.HostStatus
	// bootstrapped is what the HostMachine's status has recorded.
	bootstrapped bool
	// result and message are what the host has recorded.
	result  cloudconfig.State
	message string
}

// computeReady returns the condition Ready of a HostMachine whose host is there.
func computeReady(s hostState) metav1.Condition {
	ready := func(status metav1.ConditionStatus, reason, message string) metav1.Condition {
		return metav1.Condition{Type: clusterv1.ReadyCondition, Status: status, Reason: reason, Message: message}
	}
	if faults := describe(s.host.Condition); faults != "" {
		return ready(metav1.ConditionFalse, v1alpha1.HostFaultReason, "By annotation, the host has "+faults)
	}
	switch {
	case s.bootstrapped || s.result == cloudconfig.Succeeded:
		return ready(metav1.ConditionTrue, v1alpha1.HostRunningReason, "")
	case s.result == cloudconfig.Failed:
		return ready(metav1.ConditionFalse, v1alpha1.BootstrapFailedReason, fmt.Sprintf("The host could not be bootstrapped: %s. "+
			"Fix: see %s in the host, then delete the Machine", s.message, cloudconfig.LogPath))
	case s.result == cloudconfig.Interrupted:
		return ready(metav1.ConditionFalse, v1alpha1.BootstrapFailedReason,
			"The power was cut while the host was bootstrapped. Fix: delete the Machine")
	case s.host.UnitEnded:
		return ready(metav1.ConditionFalse, v1alpha1.BootstrapFailedReason,
			"The bootstrap has ended without a result. The disk may be full. Fix: delete the Machine")
	}
	return ready(metav1.ConditionFalse, v1alpha1.BootstrappingReason, "The host carries out its user data")
}

// describe names what a host suffers; empty for nothing.
func describe(c site.Condition) string {
	var faults []string
	for fault, has := range map[string]bool{"no power": c.PowerOff, "a full disk": c.DiskFull, "no network": c.Disconnected} {
		if has {
			faults = append(faults, fault)
		}
	}
	if c.SyncDelay > 0 {
		faults = append(faults, fmt.Sprintf("a slow disk (%s)", c.SyncDelay))
	}
	slices.Sort(faults)
	return strings.Join(faults, ", ")
}

// computeCondition returns what the annotations of a HostMachine make its host suffer.
func computeCondition(annotations map[string]string) (site.Condition, error) {
	var c site.Condition
	fields := map[string]*bool{
		v1alpha1.PowerOffAnnotation: &c.PowerOff, v1alpha1.DiskFullAnnotation: &c.DiskFull,
		v1alpha1.NetworkLostAnnotation: &c.Disconnected,
	}
	for _, annotation := range slices.Sorted(maps.Keys(annotations)) {
		value := annotations[annotation]
		field, isField := fields[annotation]
		switch {
		case !strings.HasPrefix(annotation, v1alpha1.FaultPrefix):
		case annotation == v1alpha1.SlowDiskAnnotation:
			var err error
			if c.SyncDelay, err = time.ParseDuration(value); err != nil || c.SyncDelay <= 0 {
				return site.Condition{}, fmt.Errorf("annotation %s is %q. "+
					"Fix: set it to a duration, such as 100ms, or remove it", annotation, value)
			}
		case !isField:
			known := append(slices.Sorted(maps.Keys(fields)), v1alpha1.SlowDiskAnnotation)
			return site.Condition{}, fmt.Errorf("annotation %s is no fault. "+
				"Fix: remove it, or use one of %s", annotation, strings.Join(known, ", "))
		case value != "true":
			return site.Condition{}, fmt.Errorf(
				"annotation %s is %q. Fix: set it to true, or remove it", annotation, value)
		default:
			*field = true
		}
	}
	// A host without power has no network to lose.
	c.Disconnected = c.Disconnected && !c.PowerOff
	return c, nil
}

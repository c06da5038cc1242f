package inventory

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/snapshot"
)

// rolloutsOver is since when groups have had no machine that is not up to date, by the names of policiesOf; those that do not say it are left out.
func rolloutsOver(o snapshot.Objects) map[string]time.Time {
	over := map[string]time.Time{}
	add := func(group string, conditions []metav1.Condition) {
		if c := meta.FindStatusCondition(conditions, clusterv1.RollingOutCondition); c != nil && c.Status == metav1.ConditionFalse {
			over[group] = c.LastTransitionTime.Time
		}
	}
	for _, md := range o.MachineDeployments {
		if name := md.Labels[clusterv1.ClusterTopologyMachineDeploymentNameLabel]; name != "" {
			add(name, md.Status.Conditions)
		}
	}
	if o.ControlPlane != nil {
		add("", capi.Conditions(o.ControlPlane))
	}
	return over
}

package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/snapshot"
)

// Scaled is a group whose machines are replaced while a cluster autoscaler may remove some of them.
type Scaled struct {
	// Group is its name in a plan. Subject, Message and Fix are for people.
	Group, Subject, Message, Fix string
}

// Scaled returns the groups of workers with the annotations of the cluster autoscaler's node groups, if a
// rollout replaces their machines: drained and new nodes look unneeded, so the autoscaler lowers replicas,
// and Cluster API deletes machines by its own order (kubernetes/autoscaler#8494).
func (f Facts) Scaled() []Scaled { return f.scaledOf(listGroups(f)) }

func (f Facts) scaledOf(groups []group) []Scaled {
	var list []Scaled
	if f.AutoscalersOff {
		return list
	}
	for _, g := range groups {
		least, most, ok := nodeGroupOf(g.UpdateGroup)
		if !ok || g.err != nil || g.selected.InPlace || g.IsOnDelete() {
			continue
		}
		list = append(list, Scaled{
			Group: cmp.Or(g.Name, g.Object), Subject: g.Subject,
			Message: fmt.Sprintf("a cluster autoscaler may scale it (%d to %d machines) while its machines are "+
				"replaced: drained and new nodes look unneeded, so it lowers replicas in the middle of the rollout, "+
				"and other machines than it means may be deleted (kubernetes/autoscaler#8494)", least, most),
			Fix: "let the autoscaler remove nothing until the rollout has ended: run it with " +
				"--scale-down-enabled=false, or scale its Deployment to 0",
		})
	}
	return list
}

// AutoscalersOff reports whether there are Deployments of cluster autoscalers, and all of them have no Pods,
// or scale nothing down. One that runs elsewhere is not known, so none is not enough.
func AutoscalersOff(deployments []appsv1.Deployment) bool {
	return len(deployments) > 0 && !slices.ContainsFunc(deployments, func(d appsv1.Deployment) bool {
		return (d.Spec.Replicas == nil || *d.Spec.Replicas > 0) && !slices.ContainsFunc(
			d.Spec.Template.Spec.Containers, func(c corev1.Container) bool {
				return slices.Contains(slices.Concat(c.Command, c.Args), "--scale-down-enabled=false")
			})
	})
}

// nodeGroupOf returns the bounds of the cluster autoscaler's node group that a group is; ok is false if it
// is none, which it also is not if the bounds are equal.
func nodeGroupOf(g snapshot.UpdateGroup) (least, most int, ok bool) {
	var annotations map[string]string
	switch {
	case g.ControlPlane:
		return 0, 0, false
	case g.MachineDeployment != nil:
		annotations = g.MachineDeployment.Annotations
	case g.InTopology != nil:
		annotations = g.InTopology.Metadata.Annotations
	}
	least, errLeast := strconv.Atoi(annotations[clusterv1.AutoscalerMinSizeAnnotation])
	most, errMost := strconv.Atoi(annotations[clusterv1.AutoscalerMaxSizeAnnotation])
	return least, most, errLeast == nil && errMost == nil && least < most
}

func checkAutoscaler(f Facts, groups []group, into *findings) {
	for _, s := range f.scaledOf(groups) {
		into.add(Warning, s.Subject, s.Fix, "%s", s.Message)
	}
	if len(into.list) == 0 {
		into.ok("workers", "no cluster autoscaler acts on machines that are replaced")
	}
}

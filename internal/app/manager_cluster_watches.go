package app

import (
	"reflect"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/internal/pool"
)

// clusterEvents are those for Cluster API's Cluster controller. It sums up MachineDeployments in the
// Cluster's status, and each write of that status causes another reconcile, which finds other words.
func clusterEvents() eventRules {
	return eventRules{
		urgency: clusterUrgency, key: clusterAndFilterOf, pace: newPace(), later: afterFunc,
		delay: func(any, any) time.Duration { return statusInterval },
	}
}

// clusterAndFilterOf returns the Cluster of a MachineDeployment and the value of its watch label. No
// other update waits. The controller drops updates by that label, so an update must not wait for one
// with another value.
func clusterAndFilterOf(o any) string {
	md, ok := o.(*clusterv1.MachineDeployment)
	if !ok {
		return ""
	}
	cluster := client.ObjectKey{Namespace: md.Namespace, Name: md.Spec.ClusterName}
	return cluster.String() + "/" + md.Labels[clusterv1.WatchLabel]
}

func clusterUrgency(before, after any) urgency {
	switch b := after.(type) {
	case *clusterv1.MachineDeployment:
		a, ok := before.(*clusterv1.MachineDeployment)
		if ok && sameMetadata(a, b) && pool.DeploymentStatusMayWait(a, b) {
			return soon
		}
	case *clusterv1.Cluster:
		a, ok := before.(*clusterv1.Cluster)
		if ok && a.ResourceVersion != b.ResourceVersion && sameMetadata(a, b) && sameLasting(a, b) {
			return never
		}
	}
	return now
}

// sameMetadata reports whether two versions of an object differ in nothing but status.
func sameMetadata(a, b client.Object) bool {
	return a.GetGeneration() == b.GetGeneration() && sameButGeneration(a, b)
}

// sameButGeneration reports whether two versions of an object differ in nothing but spec and
// status.
func sameButGeneration(a, b client.Object) bool {
	return a.GetUID() == b.GetUID() &&
		a.GetDeletionTimestamp().Equal(b.GetDeletionTimestamp()) &&
		reflect.DeepEqual(a.GetLabels(), b.GetLabels()) &&
		reflect.DeepEqual(a.GetAnnotations(), b.GetAnnotations()) &&
		reflect.DeepEqual(a.GetFinalizers(), b.GetFinalizers()) &&
		reflect.DeepEqual(a.GetOwnerReferences(), b.GetOwnerReferences())
}

// workerConditions are the conditions of a Cluster that sum up those of workers. Nobody but the
// Cluster controller writes them, and it reads none of them.
var workerConditions = []string{
	clusterv1.ClusterRollingOutCondition, clusterv1.ClusterScalingUpCondition,
	clusterv1.ClusterScalingDownCondition, clusterv1.ClusterWorkersAvailableCondition,
	clusterv1.ClusterWorkerMachinesReadyCondition, clusterv1.ClusterWorkerMachinesUpToDateCondition,
}

// sameLasting reports whether the statuses of two versions of a Cluster differ in nothing but what
// they say about workers.
func sameLasting(a, b *clusterv1.Cluster) bool {
	lasting := func(c *clusterv1.Cluster) clusterv1.ClusterStatus {
		status := *c.Status.DeepCopy()
		status.Workers = nil
		status.Conditions = slices.DeleteFunc(status.Conditions, func(c metav1.Condition) bool {
			return slices.Contains(workerConditions, c.Type)
		})
		return status
	}
	return equality.Semantic.DeepEqual(lasting(a), lasting(b))
}

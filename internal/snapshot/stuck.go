package snapshot

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/guard"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/pkg/version"
)

// Stuck returns the control plane of o if its policy, selected, keeps its machines, some of them are not
// at a version, and Cluster API can never bring them all there. ok is false otherwise, and if nothing tells that its
// provider creates a machine first: those of KubeadmControlPlane and RKE2ControlPlane do by default, others if the
// object says so.
func Stuck(o Objects, selected policy.Policy, to version.Version) (c guard.ControlPlane, ok bool) {
	if o.ControlPlane == nil || !selected.Guarded {
		return guard.ControlPlane{}, false
	}
	c = guard.ControlPlane{
		Kind: o.ControlPlane.GetKind(), Name: o.ControlPlane.GetName(), Policy: selected.Name,
		Replicas: aimedReplicas(o), MaxSurge: maxSurge(o.ControlPlane),
	}
	behind := false
	for _, m := range o.Machines {
		if !capi.IsControlPlane(m) || !m.DeletionTimestamp.IsZero() {
			continue
		}
		c.Machines++
		if _, may := m.Annotations[v1alpha1.AllowReplacementAnnotation]; may {
			c.Replaceable++
		}
		at, err := version.Parse(m.Spec.Version)
		behind = behind || err != nil || at != to
	}
	return c, behind && c.IsStuck()
}

// aimedReplicas are those of the topology, which the object may not have yet; Cluster API's default is 1.
func aimedReplicas(o Objects) int {
	if o.Cluster != nil && o.Cluster.Spec.Topology.ControlPlane.Replicas != nil {
		return int(*o.Cluster.Spec.Topology.ControlPlane.Replicas)
	}
	n, found, err := unstructured.NestedInt64(o.ControlPlane.Object, "spec", "replicas")
	if err == nil && found {
		return int(n)
	}
	return 1
}

// Surges reports whether a rollout of the control plane adds a machine before it removes one, as far as its
// object or its kind tells.
func Surges(o Objects) bool { return o.ControlPlane != nil && maxSurge(o.ControlPlane) > 0 }

// maxSurge is 0 or 1. Of most kinds nobody knows the default; 0 means that, too.
func maxSurge(controlPlane *unstructured.Unstructured) int {
	if surge, set := surgeOf(controlPlane); set {
		return surge
	}
	switch controlPlane.GetKind() {
	case "KubeadmControlPlane", "RKE2ControlPlane":
		return 1
	default:
		return 0
	}
}

// surgeOf returns maxSurge as v1beta2 or v1beta1 has it, 0 or 1; set is false if the object does not say.
func surgeOf(controlPlane *unstructured.Unstructured) (surge int, set bool) {
	for _, strategy := range [][]string{{"rollout", "strategy"}, {"rolloutStrategy"}} {
		path := append(append([]string{"spec"}, strategy...), "rollingUpdate", "maxSurge")
		value, found, err := unstructured.NestedFieldNoCopy(controlPlane.Object, path...)
		if err == nil && found {
			if fmt.Sprint(value) == "0" {
				return 0, true
			}
			return 1, true
		}
	}
	return 0, false
}

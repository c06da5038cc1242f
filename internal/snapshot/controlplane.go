package snapshot

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/chain"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// readControlPlane fills what is known about the control plane into s, which has a Target.
func readControlPlane(s *State, o Objects, override version.Version) error {
	if !override.IsZero() {
		s.Inventory.ControlPlane = override
		return nil
	}
	if o.ControlPlane == nil {
		s.Inventory.ControlPlane, s.Assumed = s.Target, true
		s.Refs[plan.ItemControlPlane] = s.Refs[plan.ItemTarget]
		return nil
	}
	ref, value, err := controlPlaneVersion(o.ControlPlane, "spec")
	if err != nil {
		return err
	}
	if value == "" {
		return &FieldError{Ref: ref, Problem: "it is missing, so nothing says which version the control plane has"}
	}
	if s.Inventory.ControlPlane, err = parseField(ref, value); err != nil {
		return err
	}
	s.Refs[plan.ItemControlPlane] = ref
	s.Inventory.WorkersUpgrading = workersUpgrading(o.Cluster, value)
	s.Moving, err = observedControlPlane(o.ControlPlane, s.Inventory.ControlPlane)
	return err
}

// workersUpgrading reports whether workers have begun to follow the control plane to its present version: the intent to
// call AfterWorkersUpgrade is recorded. Where Cluster API says which step it is about, and that is not the control plane's
// version, the intent does not count.
func workersUpgrading(cluster *clusterv1.Cluster, controlPlane string) bool {
	annotations := cluster.GetAnnotations()
	if step := annotations[clusterv1.ClusterTopologyUpgradeStepAnnotation]; step != "" && step != controlPlane {
		return false
	}
	return Pending(cluster).Has(chain.AfterWorkersUpgrade)
}

// observedControlPlane returns the oldest version in the status if it has not reached the spec's. The control plane
// contract has status.versions, older before newer, and before that status.version; both are optional.
func observedControlPlane(object *unstructured.Unstructured, spec version.Version) (version.Version, error) {
	ref, value, err := controlPlaneVersion(object, "status")
	if err != nil {
		return version.Version{}, err
	}
	if reported := capi.ReportedVersions(object); len(reported) > 0 {
		value, ref.Field = reported[0].Version, reported[0].Field
	}
	if value == "" {
		return version.Version{}, nil
	}
	observed, err := parseField(ref, value)
	if err != nil || spec.IsReachedBy(observed) {
		return version.Version{}, err
	}
	return observed, nil
}

// controlPlaneVersion reads the version of a control plane's spec or status; empty where there is
// none.
func controlPlaneVersion(object *unstructured.Unstructured, in string) (Ref, string, error) {
	ref := Ref{Object: object, Kind: object.GetKind(), Field: in + ".version"}
	value, _, err := unstructured.NestedString(object.Object, in, "version")
	if err != nil {
		return ref, "", &FieldError{Ref: ref, Problem: "it must be a string such as v1.31.2", Err: err}
	}
	return ref, value, nil
}

// ControlPlaneReplicas returns how many machines the control plane is to have: by its object, else by the
// topology; nil where neither says it.
func ControlPlaneReplicas(o Objects) *int64 {
	if o.ControlPlane != nil {
		n, found, err := unstructured.NestedInt64(o.ControlPlane.Object, "spec", "replicas")
		if err == nil && found {
			return &n
		}
	}
	if n := o.Cluster.Spec.Topology.ControlPlane.Replicas; n != nil {
		return new(int64(*n))
	}
	return nil
}

package manifest

import (
	"errors"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1" //nolint:staticcheck // Manifests in git are still v1beta1 in many places.
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/json"

	"github.com/windlass-dev/windlass/api/v1alpha1"
)

// decoder decodes an object of one kind and adds it to the set. A nil object means that it is skipped.
type decoder func(s *Set, origin Origin, apiVersion string, value []byte) (metav1.Object, error)

// kinds has a decoder for every kind that planning reads. A kind that is added here gets a list of its own in Set.
var kinds = map[schema.GroupKind]decoder{
	clusterKind("Cluster"): func(s *Set, origin Origin, apiVersion string, value []byte) (metav1.Object, error) {
		o, err := decodeCluster(origin, apiVersion, value)
		s.Clusters = appendIf(err, s.Clusters, o)
		return o, err
	},
	clusterKind("ClusterClass"): func(s *Set, origin Origin, apiVersion string, value []byte) (metav1.Object, error) {
		o, err := decodeVersioned(origin, apiVersion, value, clusterv1beta1.Convert_v1beta1_ClusterClass_To_v1beta2_ClusterClass)
		s.ClusterClasses = appendIf(err, s.ClusterClasses, o)
		return o, err
	},
	clusterKind("MachineDeployment"): func(s *Set, origin Origin, apiVersion string, value []byte) (metav1.Object, error) {
		o, err := decodeVersioned(origin, apiVersion, value, clusterv1beta1.Convert_v1beta1_MachineDeployment_To_v1beta2_MachineDeployment)
		s.MachineDeployments = appendIf(err, s.MachineDeployments, o)
		return o, err
	},
	clusterKind("MachinePool"): func(s *Set, origin Origin, apiVersion string, value []byte) (metav1.Object, error) {
		o, err := decodeVersioned(origin, apiVersion, value, clusterv1beta1.Convert_v1beta1_MachinePool_To_v1beta2_MachinePool)
		s.MachinePools = appendIf(err, s.MachinePools, o)
		return o, err
	},
	clusterKind("Machine"): func(s *Set, origin Origin, apiVersion string, value []byte) (metav1.Object, error) {
		o, err := decodeVersioned(origin, apiVersion, value, clusterv1beta1.Convert_v1beta1_Machine_To_v1beta2_Machine)
		s.Machines = appendIf(err, s.Machines, o)
		return o, err
	},
	clusterKind("MachineHealthCheck"): func(s *Set, origin Origin, apiVersion string, value []byte) (metav1.Object, error) {
		o, err := decodeVersioned(origin, apiVersion, value, clusterv1beta1.Convert_v1beta1_MachineHealthCheck_To_v1beta2_MachineHealthCheck)
		s.MachineHealthChecks = appendIf(err, s.MachineHealthChecks, o)
		return o, err
	},
	{Group: "controlplane.cluster.x-k8s.io", Kind: "KubeadmControlPlaneTemplate"}: func(s *Set, origin Origin, _ string, value []byte) (metav1.Object, error) {
		o := &unstructured.Unstructured{}
		err := unmarshal(origin, value, &o.Object)
		s.ControlPlaneTemplates = appendIf(err, s.ControlPlaneTemplates, o)
		return o, err
	},
	{Group: runtimev1.GroupVersion.Group, Kind: "ExtensionConfig"}: decodeExtensionConfig,
	{Group: corev1.GroupName, Kind: "Namespace"}:                   decodeNamespace,
	{Group: appsv1.GroupName, Kind: "Deployment"}:                  decodeDeployment,
	bootstrapKind("KubeadmConfigTemplate"):                         decodeConfigTemplate,
	bootstrapKind("RKE2ConfigTemplate"):                            decodeConfigTemplate,
	bootstrapKind("KThreesConfigTemplate"):                         decodeConfigTemplate,
	bootstrapKind("TalosConfigTemplate"):                           decodeConfigTemplate,
	bootstrapKind("CK8sConfigTemplate"):                            decodeConfigTemplate,
	ourKind("UpgradeGraph"): func(s *Set, origin Origin, apiVersion string, value []byte) (metav1.Object, error) {
		o := &v1alpha1.UpgradeGraph{}
		err := decodeOurs(origin, apiVersion, value, o)
		s.UpgradeGraphs = appendIf(err, s.UpgradeGraphs, o)
		return o, err
	},
	ourKind("UpdatePolicy"): func(s *Set, origin Origin, apiVersion string, value []byte) (metav1.Object, error) {
		o := &v1alpha1.UpdatePolicy{}
		err := decodeOurs(origin, apiVersion, value, o)
		s.UpdatePolicies = appendIf(err, s.UpdatePolicies, o)
		return o, err
	},
	ourKind("UpgradeGate"): func(s *Set, origin Origin, apiVersion string, value []byte) (metav1.Object, error) {
		o := &v1alpha1.UpgradeGate{}
		err := decodeOurs(origin, apiVersion, value, o)
		s.UpgradeGates = appendIf(err, s.UpgradeGates, o)
		return o, err
	},
	ourKind("Updater"): func(s *Set, origin Origin, apiVersion string, value []byte) (metav1.Object, error) {
		o := &v1alpha1.Updater{}
		err := decodeOurs(origin, apiVersion, value, o)
		s.Updaters = appendIf(err, s.Updaters, o)
		return o, err
	},
}

func ourKind(kind string) schema.GroupKind {
	return v1alpha1.GroupVersion.WithKind(kind).GroupKind()
}

// decodeOurs decodes one of Windlass' own kinds, of which there is one version. A field that it does not have is an error, as
// kubectl makes it: a misspelt one among targets would have a policy select everything.
func decodeOurs(origin Origin, apiVersion string, value []byte, into any) error {
	if apiVersion != v1alpha1.GroupVersion.Version {
		return &Error{Origin: origin, Field: "apiVersion", Problem: "it must be " + v1alpha1.GroupVersion.String()}
	}
	if err := unmarshal(origin, value, into); err != nil {
		return err
	}
	strict, err := json.UnmarshalStrict(value, into)
	switch {
	case err != nil:
		return &Error{Origin: origin, Problem: "it cannot be decoded: " + err.Error(), Err: err}
	case len(strict) == 0:
		return nil
	}
	e := &Error{Origin: origin, Problem: strict[0].Error(), Err: strict[0]}
	if field, ok := errors.AsType[json.FieldError](strict[0]); ok {
		e.Field, e.Problem = field.FieldPath(), "there is no such field; see that it is spelt right, upper and lower case too, and stands where it belongs"
	}
	if more := len(strict) - 1; more > 0 {
		e.Problem += fmt.Sprintf(" (and %d more like it)", more)
	}
	return e
}

func clusterKind(kind string) schema.GroupKind {
	return clusterv1.GroupVersion.WithKind(kind).GroupKind()
}

func appendIf[T any](err error, list []T, item T) []T {
	if err != nil {
		return list
	}
	return append(list, item)
}

// decodeVersioned decodes v1beta2, or v1beta1 through the API module's own conversion.
func decodeVersioned[Old, New any](
	origin Origin, apiVersion string, value []byte, convert func(*Old, *New, conversion.Scope) error,
) (*New, error) {
	into := new(New)
	switch apiVersion {
	case clusterv1.GroupVersion.Version:
		return into, unmarshal(origin, value, into)
	case clusterv1beta1.GroupVersion.Version:
		old := new(Old)
		if err := unmarshal(origin, value, old); err != nil {
			return nil, err
		}
		// The conversions do not use their scope, and Cluster API itself passes none.
		if err := convert(old, into, nil); err != nil {
			return nil, &Error{Origin: origin, Problem: "it cannot be converted to v1beta2: " + err.Error(), Err: err}
		}
		return into, nil
	default:
		return nil, &Error{Origin: origin, Field: "apiVersion", Problem: "it must be cluster.x-k8s.io/v1beta2 or v1beta1"}
	}
}

// decodeCluster adds what the module's conversion leaves to Cluster API's webhook: the reference to the control plane.
func decodeCluster(origin Origin, apiVersion string, value []byte) (*clusterv1.Cluster, error) {
	return decodeVersioned(origin, apiVersion, value, func(old *clusterv1beta1.Cluster, cluster *clusterv1.Cluster, scope conversion.Scope) error {
		if ref := old.Spec.ControlPlaneRef; ref != nil {
			defer func() {
				cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{
					APIGroup: ref.GroupVersionKind().Group, Kind: ref.Kind, Name: ref.Name,
				}
			}()
		}
		return clusterv1beta1.Convert_v1beta1_Cluster_To_v1beta2_Cluster(old, cluster, scope)
	})
}

// decodeOther keeps objects that may be a control plane: they have a spec.version. Whether they are the one of a Cluster is
// for the Cluster's reference, or their labels, to say.
func decodeOther(s *Set, origin Origin, _ string, value []byte) (metav1.Object, error) {
	var head struct {
		Kind string `json:"kind"`
		Spec struct {
			Version any `json:"version"`
		} `json:"spec"`
	}
	// Other kinds may have any shape; one that does not fit is none of ours.
	if err := unmarshal(origin, value, &head); err != nil || head.Spec.Version == nil || strings.HasSuffix(head.Kind, "Template") {
		return nil, nil //nolint:nilerr,nilnil // Skipped on purpose.
	}
	object := &unstructured.Unstructured{}
	if err := unmarshal(origin, value, &object.Object); err != nil {
		return nil, err
	}
	if object.GetName() == "" {
		return nil, nil //nolint:nilnil // Skipped on purpose: nothing can refer to it.
	}
	s.ControlPlanes = append(s.ControlPlanes, object)
	return object, nil
}

func bootstrapKind(kind string) schema.GroupKind {
	return schema.GroupKind{Group: "bootstrap.cluster.x-k8s.io", Kind: kind}
}

func decodeConfigTemplate(
	s *Set, origin Origin, _ string, value []byte,
) (metav1.Object, error) {
	o := &unstructured.Unstructured{}
	err := unmarshal(origin, value, &o.Object)
	s.ConfigTemplates = appendIf(err, s.ConfigTemplates, o)
	return o, err
}

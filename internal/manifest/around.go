package manifest

import (
	"bytes"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/doctor"
)

// The decoders below skip what they cannot use instead of refusing it: the objects are not those of a Cluster,
// and people give whole folders.

func decodeExtensionConfig(
	s *Set, _ Origin, apiVersion string, value []byte,
) (metav1.Object, error) {
	o := &runtimev1.ExtensionConfig{}
	// One of v1alpha1, which Cluster API would convert, has no handlers before it is applied.
	if apiVersion == runtimev1.GroupVersion.Version && isUsable(value, o) {
		s.ExtensionConfigs = append(s.ExtensionConfigs, o)
	}
	return nil, nil //nolint:nilnil // No message names where it was read.
}

func decodeNamespace(s *Set, _ Origin, _ string, value []byte) (metav1.Object, error) {
	o := &corev1.Namespace{}
	if isUsable(value, o) {
		s.Namespaces = append(s.Namespaces, o)
	}
	return nil, nil //nolint:nilnil // As above.
}

func decodeDeployment(s *Set, _ Origin, _ string, value []byte) (metav1.Object, error) {
	o := &appsv1.Deployment{}
	isTemplate := bytes.Contains(value, []byte("${"))
	if !isTemplate && isUsable(value, o) && runsImage(o) && (o.Labels[clusterv1.ProviderNameLabel] != "" || isAutoscaler(o.Labels)) {
		s.Deployments = append(s.Deployments, o)
	}
	return nil, nil //nolint:nilnil // As above.
}

// runsImage reports whether a Deployment is whole, and no patch of one.
func runsImage(d *appsv1.Deployment) bool {
	return slices.ContainsFunc(d.Spec.Template.Spec.Containers, func(c corev1.Container) bool { return c.Image != "" })
}

func isUsable(value []byte, into metav1.Object) bool {
	return unmarshal(Origin{}, value, into) == nil && into.GetName() != ""
}

func isAutoscaler(of labels.Set) bool {
	return slices.ContainsFunc(capi.AutoscalerSelectors(), func(s labels.Selector) bool { return s.Matches(of) })
}

// addAround adds to facts what acts on machines beside the Cluster's own objects.
func (s *Set) addAround(f *doctor.Facts, namespace string) {
	for _, e := range s.ExtensionConfigs {
		f.Extensions = append(f.Extensions, *e.DeepCopy())
	}
	var autoscalers []appsv1.Deployment
	for _, d := range s.Deployments {
		if isAutoscaler(d.Labels) {
			autoscalers = append(autoscalers, *d.DeepCopy())
		} else {
			f.Managers = append(f.Managers, *d.DeepCopy())
		}
	}
	f.AutoscalersOff = doctor.AutoscalersOff(autoscalers)
	for _, n := range s.Namespaces {
		if n.Name == namespace {
			f.NamespaceLabels = maps.Clone(n.Labels)
		}
	}
	if namespace != "" {
		f.NamespaceLabels = labels.Merge(f.NamespaceLabels, labels.Set{corev1.LabelMetadataName: namespace})
	}
}

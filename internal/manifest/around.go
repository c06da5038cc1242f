package manifest

import (
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

func decodeExtensionConfig(
	s *Set, origin Origin, apiVersion string, value []byte,
) (metav1.Object, error) {
	if apiVersion != runtimev1.GroupVersion.Version {
		return nil, nil //nolint:nilnil // Skipped on purpose: that of a Cluster API without hooks for updates.
	}
	o := &runtimev1.ExtensionConfig{}
	err := unmarshal(origin, value, o)
	s.ExtensionConfigs = appendIf(err, s.ExtensionConfigs, o)
	return o, err
}

func decodeNamespace(s *Set, origin Origin, _ string, value []byte) (metav1.Object, error) {
	o := &corev1.Namespace{}
	err := unmarshal(origin, value, o)
	s.Namespaces = appendIf(err, s.Namespaces, o)
	return o, err
}

// decodeDeployment skips Deployments that neither belong to a provider of Cluster API nor are autoscalers.
func decodeDeployment(s *Set, origin Origin, _ string, value []byte) (metav1.Object, error) {
	var head struct {
		Metadata struct {
			Labels map[string]string `json:"labels"`
		} `json:"metadata"`
	}
	err := unmarshal(origin, value, &head)
	isProvider := head.Metadata.Labels[clusterv1.ProviderNameLabel] != ""
	if err != nil || !isProvider && !isAutoscaler(head.Metadata.Labels) {
		return nil, nil //nolint:nilerr,nilnil // Skipped on purpose.
	}
	o := &appsv1.Deployment{}
	err = unmarshal(origin, value, o)
	s.Deployments = appendIf(err, s.Deployments, o)
	return o, err
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

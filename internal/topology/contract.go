package topology

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/contract"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The versions of Cluster API's provider contract, newest first.
const (
	contractV1Beta2 = "v1beta2"
	contractV1Beta1 = "v1beta1"
)

// The references from a control plane object to the template of its machines' infrastructure, by contract.
var (
	machineInfrastructureRef        = []string{"spec", "machineTemplate", "spec", "infrastructureRef"}
	machineInfrastructureV1Beta1Ref = []string{"spec", "machineTemplate", "infrastructureRef"}
)

func (o *Objects) definition(ctx context.Context, kind schema.GroupKind) (*metav1.PartialObjectMetadata, error) {
	definition := &metav1.PartialObjectMetadata{}
	definition.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	key := client.ObjectKey{Name: contract.CalculateCRDName(kind.Group, kind.Kind)}
	if err := o.client.Get(ctx, key, definition); err != nil {
		return nil, fmt.Errorf("getting CustomResourceDefinition %s: %w", key.Name, err)
	}
	return definition, nil
}

// contractVersion is the contract that a kind's API version follows, as the labels of its CustomResourceDefinition say.
func (o *Objects) contractVersion(ctx context.Context, kind schema.GroupVersionKind) (string, error) {
	definition, err := o.definition(ctx, kind.GroupKind())
	if err != nil {
		return "", err
	}
	for label, versions := range definition.Labels {
		if contract, ok := strings.CutPrefix(label, clusterv1.GroupVersion.Group+"/"); ok && slices.Contains(strings.Split(versions, "_"), kind.Version) {
			return contract, nil
		}
	}
	return "", fmt.Errorf("the labels of CustomResourceDefinition %s name no contract for version %s", definition.Name, kind.Version)
}

// latestAPIVersion is the newest API version of a kind that follows the newest contract we know.
func (o *Objects) latestAPIVersion(ctx context.Context, kind schema.GroupKind) (string, error) {
	definition, err := o.definition(ctx, kind)
	if err != nil {
		return "", err
	}
	for _, contract := range []string{contractV1Beta2, contractV1Beta1} {
		if versions := definition.Labels[clusterv1.GroupVersion.Group+"/"+contract]; versions != "" {
			latest := slices.MaxFunc(strings.Split(versions, "_"), version.CompareKubeAwareVersionStrings)
			return schema.GroupVersion{Group: kind.Group, Version: latest}.String(), nil
		}
	}
	return "", fmt.Errorf("CustomResourceDefinition %s has no label for contract %s or %s", definition.Name, contractV1Beta2, contractV1Beta1)
}

// align completes a reference with an API version: the template's in the ClusterClass when the kind is the same, so that the current and
// the desired object are compared in one version, else the kind's latest. kind is the kind of object that the class's template stands for.
func (o *Objects) align(ctx context.Context, ref clusterv1.ContractVersionedObjectReference, namespace string, template *unstructured.Unstructured, kind func(template *unstructured.Unstructured) string) (*corev1.ObjectReference, error) {
	aligned := &corev1.ObjectReference{Kind: ref.Kind, Namespace: namespace, Name: ref.Name}
	if template != nil && template.GroupVersionKind().Group == ref.APIGroup && kind(template) == ref.Kind {
		aligned.APIVersion = template.GetAPIVersion()
		return aligned, nil
	}
	var err error
	aligned.APIVersion, err = o.latestAPIVersion(ctx, ref.GroupKind())
	return aligned, err
}

// templateKind is the kind of a template that is copied as a template.
func templateKind(template *unstructured.Unstructured) string { return template.GetKind() }

// objectKind is the kind of the object made from a template.
func objectKind(template *unstructured.Unstructured) string {
	return strings.TrimSuffix(template.GetKind(), clusterv1.TemplateSuffix)
}

// machineTemplateRef is the reference from a control plane object to the template of its machines' infrastructure.
func machineTemplateRef(controlPlane *unstructured.Unstructured, contractVersion string) (clusterv1.ContractVersionedObjectReference, error) {
	path := machineInfrastructureRef
	if contractVersion == contractV1Beta1 {
		path = machineInfrastructureV1Beta1Ref
	}
	fields, _, err := unstructured.NestedStringMap(controlPlane.Object, path...)
	if err != nil {
		return clusterv1.ContractVersionedObjectReference{}, fmt.Errorf("reading %s of %s %s: %w", strings.Join(path, "."), controlPlane.GetKind(), name(controlPlane), err)
	}
	ref := clusterv1.ContractVersionedObjectReference{APIGroup: fields["apiGroup"], Kind: fields["kind"], Name: fields["name"]}
	if contractVersion == contractV1Beta1 {
		group, err := schema.ParseGroupVersion(fields["apiVersion"])
		if err != nil {
			return ref, fmt.Errorf("reading %s of %s %s: %w", strings.Join(path, "."), controlPlane.GetKind(), name(controlPlane), err)
		}
		ref.APIGroup = group.Group
	}
	if ref.APIGroup == "" || ref.Kind == "" || ref.Name == "" {
		return ref, fmt.Errorf("%s of %s %s must name a template, because its ClusterClass has machineInfrastructure", strings.Join(path, "."), controlPlane.GetKind(), name(controlPlane))
	}
	return ref, nil
}

// withMachineTemplateName returns a control plane object that refers to a template by another name.
func withMachineTemplateName(controlPlane *unstructured.Unstructured, contractVersion, template string) (*unstructured.Unstructured, error) {
	path := machineInfrastructureRef
	if contractVersion == contractV1Beta1 {
		path = machineInfrastructureV1Beta1Ref
	}
	renamed := controlPlane.DeepCopy()
	if err := unstructured.SetNestedField(renamed.Object, template, append(slices.Clone(path), "name")...); err != nil {
		return nil, fmt.Errorf("setting %s.name of %s: %w", strings.Join(path, "."), controlPlane.GetKind(), err)
	}
	return renamed, nil
}

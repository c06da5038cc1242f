package topology

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/contract"
)

// The references from a control plane object to the template of its machines' infrastructure, by contract.
var (
	machineInfrastructureRef        = []string{"spec", "machineTemplate", "spec", "infrastructureRef"}
	machineInfrastructureV1Beta1Ref = []string{"spec", "machineTemplate", "infrastructureRef"}
)

// align completes a reference with an API version: the template's in the ClusterClass when the kind is the same, so that the current and
// the desired object are compared in one version, else the kind's latest. kind is the kind of object that the class's template stands for.
func (o *Objects) align(ctx context.Context, ref clusterv1.ContractVersionedObjectReference, namespace string, template *unstructured.Unstructured, kind func(template *unstructured.Unstructured) string) (*corev1.ObjectReference, error) {
	aligned := &corev1.ObjectReference{Kind: ref.Kind, Namespace: namespace, Name: ref.Name}
	if template != nil && template.GroupVersionKind().Group == ref.APIGroup && kind(template) == ref.Kind {
		aligned.APIVersion = template.GetAPIVersion()
		return aligned, nil
	}
	var err error
	aligned.APIVersion, err = contract.FetchAPIVersion(ctx, o.client, ref.GroupKind())
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
	if contractVersion == contract.V1Beta1 {
		path = machineInfrastructureV1Beta1Ref
	}
	fields, _, err := unstructured.NestedStringMap(controlPlane.Object, path...)
	if err != nil {
		return clusterv1.ContractVersionedObjectReference{}, fmt.Errorf("reading %s of %s %s: %w", strings.Join(path, "."), controlPlane.GetKind(), name(controlPlane), err)
	}
	ref := clusterv1.ContractVersionedObjectReference{APIGroup: fields["apiGroup"], Kind: fields["kind"], Name: fields["name"]}
	if contractVersion == contract.V1Beta1 {
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
	if contractVersion == contract.V1Beta1 {
		path = machineInfrastructureV1Beta1Ref
	}
	renamed := controlPlane.DeepCopy()
	if err := unstructured.SetNestedField(renamed.Object, template, append(slices.Clone(path), "name")...); err != nil {
		return nil, fmt.Errorf("setting %s.name of %s: %w", strings.Join(path, "."), controlPlane.GetKind(), err)
	}
	return renamed, nil
}

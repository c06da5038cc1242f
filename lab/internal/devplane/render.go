package devplane

import (
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// AccessKinds are the kinds of objects that grant or limit what ServiceAccounts may do.
var AccessKinds = []string{
	"Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding",
	"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
}

// Render returns the objects of these kinds that a kustomization builds to, encoded, Namespaces first.
func Render(files filesys.FileSystem, folder string, kinds ...string) ([]json.RawMessage, error) {
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(files, folder)
	if err != nil {
		return nil, fmt.Errorf("rendering %s: %w", folder, err)
	}
	var namespaces, others []json.RawMessage
	for _, resource := range built.Resources() {
		if !slices.Contains(kinds, resource.GetKind()) {
			continue
		}
		data, err := resource.MarshalJSON()
		if err != nil {
			return nil, fmt.Errorf("encoding %s %s of %s: %w", resource.GetKind(), resource.GetName(), folder, err)
		}
		if resource.GetKind() == "Namespace" {
			namespaces = append(namespaces, data)
		} else {
			others = append(others, data)
		}
	}
	return append(namespaces, others...), nil
}

// computeAccount returns the only ServiceAccount among encoded objects.
func computeAccount(objects []json.RawMessage) (types.NamespacedName, error) {
	var found []types.NamespacedName
	for _, data := range objects {
		var object metav1.PartialObjectMetadata
		if err := json.Unmarshal(data, &object); err != nil {
			return types.NamespacedName{}, fmt.Errorf("decoding an object: %w", err)
		}
		if object.GroupVersionKind() == corev1.SchemeGroupVersion.WithKind("ServiceAccount") {
			found = append(found, types.NamespacedName{Namespace: object.Namespace, Name: object.Name})
		}
	}
	if len(found) != 1 {
		return types.NamespacedName{}, fmt.Errorf("expected one ServiceAccount, found %v", found)
	}
	return found[0], nil
}

package manager

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	k8sversion "k8s.io/apimachinery/pkg/version"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/contract"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// contractVersions are those of Cluster API's contract with providers that this version of it keeps, the preferred one first.
func contractVersions() []string { return []string{"v1beta2", "v1beta1"} }

// NoContractError says that a kind of a provider does not say which of its versions keeps Cluster API's contract.
type NoContractError struct {
	// CRD is the name of the CustomResourceDefinition.
	CRD string
}

func (e *NoContractError) Error() string {
	labels := make([]string, 0, len(contractVersions()))
	for _, v := range contractVersions() {
		labels = append(labels, contractLabel(v))
	}
	return fmt.Sprintf("CustomResourceDefinition %s names no version that keeps Cluster API's contract: its provider must set one of the labels %s", e.CRD, strings.Join(labels, ", "))
}

func contractLabel(contractVersion string) string {
	return clusterv1.GroupVersion.Group + "/" + contractVersion
}

// selectAPIVersion returns the latest version of a kind that keeps the latest contract, from the labels of its CRD
// (cluster.x-k8s.io/<contract version>: "v1beta1_v1beta2"). Empty: no label says so.
// https://cluster-api.sigs.k8s.io/developer/providers/contracts/overview
func selectAPIVersion(labels map[string]string) string {
	for _, contractVersion := range contractVersions() {
		if versions := labels[contractLabel(contractVersion)]; versions != "" {
			return slices.MaxFunc(strings.Split(versions, "_"), k8sversion.CompareKubeAwareVersionStrings)
		}
	}
	return ""
}

// fetchAPIVersion returns the apiVersion in which references to a kind of a provider are to be read. c reads the metadata of CRDs.
func fetchAPIVersion(ctx context.Context, c client.Reader, kind schema.GroupKind) (string, error) {
	crd := &metav1.PartialObjectMetadata{}
	crd.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	name := contract.CalculateCRDName(kind.Group, kind.Kind)
	if err := c.Get(ctx, client.ObjectKey{Name: name}, crd); err != nil {
		return "", fmt.Errorf("reading CustomResourceDefinition %s: %w", name, err)
	}
	version := selectAPIVersion(crd.Labels)
	if version == "" {
		return "", &NoContractError{CRD: name}
	}
	return schema.GroupVersion{Group: kind.Group, Version: version}.String(), nil
}

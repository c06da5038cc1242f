package contract

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
	capicontract "sigs.k8s.io/cluster-api/util/contract"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/internal/capi"
)

// The versions of the contract that this version of Cluster API keeps.
const (
	V1Beta2 = "v1beta2"
	V1Beta1 = "v1beta1"
)

// versions are those of the contract, the newest, which is preferred, first.
func versions() []string { return []string{V1Beta2, V1Beta1} }

// NotDeclaredError says that a provider's kind does not say which of its API versions keeps the contract, or that a certain one does.
type NotDeclaredError struct {
	// CRD is the name of the CustomResourceDefinition.
	CRD string
	// Version is the API version that was asked about; empty if any would do.
	Version string
}

func (e *NotDeclaredError) Error() string {
	labels := make([]string, 0, len(versions()))
	for _, v := range versions() {
		labels = append(labels, label(v))
	}
	subject := "no version that keeps"
	if e.Version != "" {
		subject = fmt.Sprintf("version %s not among those that keep", e.Version)
	}
	return fmt.Sprintf("CustomResourceDefinition %s names %s Cluster API's contract: its provider must set one of the labels %s", e.CRD, subject, strings.Join(labels, ", "))
}

func label(contractVersion string) string {
	return clusterv1.GroupVersion.Group + "/" + contractVersion
}

// selectAPIVersion returns the latest API version that keeps the newest contract. Empty: no label says so.
func selectAPIVersion(labels map[string]string) string {
	for _, contractVersion := range versions() {
		if apiVersions := labels[label(contractVersion)]; apiVersions != "" {
			return slices.MaxFunc(strings.Split(apiVersions, "_"), k8sversion.CompareKubeAwareVersionStrings)
		}
	}
	return ""
}

// selectVersion returns the newest contract that an API version keeps. Empty: no label says so.
func selectVersion(labels map[string]string, apiVersion string) string {
	for _, contractVersion := range versions() {
		if slices.Contains(strings.Split(labels[label(contractVersion)], "_"), apiVersion) {
			return contractVersion
		}
	}
	return ""
}

// FetchAPIVersion returns the apiVersion, with its group, in which references to a kind are to be read: the latest that keeps the newest contract.
// c reads the metadata of CustomResourceDefinitions. The error may be a [*NotDeclaredError].
func FetchAPIVersion(ctx context.Context, c client.Reader, kind schema.GroupKind) (string, error) {
	crd, err := fetchCRD(ctx, c, kind)
	if err != nil {
		return "", err
	}
	version := selectAPIVersion(crd.Labels)
	if version == "" {
		return "", &NotDeclaredError{CRD: crd.Name}
	}
	return schema.GroupVersion{Group: kind.Group, Version: version}.String(), nil
}

// FetchVersion returns the newest version of the contract that a kind keeps in its API version. c reads the metadata of
// CustomResourceDefinitions. The error may be a [*NotDeclaredError].
func FetchVersion(ctx context.Context, c client.Reader, kind schema.GroupVersionKind) (string, error) {
	crd, err := fetchCRD(ctx, c, kind.GroupKind())
	if err != nil {
		return "", err
	}
	version := selectVersion(crd.Labels, kind.Version)
	if version == "" {
		return "", &NotDeclaredError{CRD: crd.Name, Version: kind.Version}
	}
	return version, nil
}

func fetchCRD(ctx context.Context, c client.Reader, kind schema.GroupKind) (*metav1.PartialObjectMetadata, error) {
	crd := capi.MetadataOf(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	name := capicontract.CalculateCRDName(kind.Group, kind.Kind)
	if err := c.Get(ctx, client.ObjectKey{Name: name}, crd); err != nil {
		return nil, fmt.Errorf("getting CustomResourceDefinition %s: %w", name, err)
	}
	return crd, nil
}
